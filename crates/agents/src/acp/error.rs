//! Errors of ACP agents.

use segno_core::agent::ErrorKind;

/// An agent cannot be used: which one, at which operation, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent `{program}` cannot be used: {operation}: {reason}")]
pub struct AcpError {
    pub program: String,
    /// The operation that failed.
    pub operation: String,
    /// The reason, with the end of the program's stderr if the program has ended.
    pub reason: String,
    pub kind: ErrorKind,
    /// The code of an error response. The agent is then still running and can be asked other
    /// things.
    pub code: Option<i64>,
    pub(super) hint: Option<&'static str>,
}

impl AcpError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint
    }
}

/// Why there is no next message.
pub(super) enum Failure {
    /// The program has ended.
    Ended,
    /// Nothing arrived for this many seconds.
    TimedOut(f64),
    /// What arrived is no valid message.
    Protocol(String),
}
