//! Why an agent cannot be used.

use segno_core::agent::ErrorKind;

/// An agent cannot be used: which, what was tried, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent `{program}` cannot be used: {tried}: {reason}")]
pub struct AcpError {
    /// The program.
    pub program: String,
    /// What was tried.
    pub tried: String,
    /// What came of it, with the end of the program's stderr if it is over.
    pub reason: String,
    /// What sort of trouble it is.
    pub kind: ErrorKind,
    /// The number of a refusal in so many words. Then the agent lives, and can be asked other things.
    pub code: Option<i64>,
    pub(super) hint: Option<&'static str>,
}

impl AcpError {
    /// A way out, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.hint
    }
}

/// Why there is no next message.
pub(super) enum Trouble {
    /// The program is over.
    Ended,
    /// Nothing came for so many seconds.
    Late(f64),
    /// What came is no message.
    Broken(String),
}
