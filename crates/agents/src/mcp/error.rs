//! Why a server cannot be used.

use segno_core::error::Kind;

/// A server cannot be used: which, what was tried, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MCP server `{server}` cannot be used: {tried}: {reason}")]
pub struct McpError {
    /// The server's id.
    pub server: String,
    /// What was tried.
    pub tried: String,
    /// What came of it, with the end of a program's stderr.
    pub reason: String,
    pub(super) kind: Kind,
    pub(super) hint: Option<String>,
}

impl McpError {
    /// What sort of trouble it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A way out, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Why a server cannot be used, before it is said which.
pub(super) struct Trouble {
    pub(super) kind: Kind,
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

impl Trouble {
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

/// A message could not be sent, or its answer did not come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The server did not want it, and did nothing.
    #[error("{0}")]
    Refused(String),
    /// What became of it is not known.
    #[error("{0}")]
    Lost(String),
}
