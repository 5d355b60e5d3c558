//! Errors of MCP servers.

use segno_core::error::Kind;

/// A server cannot be used: which one, at which operation, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MCP server `{server}` cannot be used: {operation}: {reason}")]
pub struct McpError {
    pub server: String,
    /// The operation that failed.
    pub operation: String,
    /// The reason, with the end of a program's stderr.
    pub reason: String,
    pub(super) kind: Kind,
    pub(super) hint: Option<String>,
}

impl McpError {
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// An error before it is attributed to a server.
pub(super) struct ConnectError {
    pub(super) kind: Kind,
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

impl ConnectError {
    pub(super) fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            hint: None,
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// A message could not be sent, or its response did not arrive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The server rejected it, and did nothing.
    #[error("{0}")]
    Refused(String),
    /// Its effect is not known.
    #[error("{0}")]
    Lost(String),
}
