//! Errors of reading and changing the settings of CLI agents.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Kind};

use super::Agent;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} has no place for hooks: neither {} nor HOME is an absolute path", .0.name(), .0.variable())]
    NoRoot(Agent),
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("{} was left as it is: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("the path of this program cannot be put into a hook: {0}")]
    Unnameable(String),
}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        match self {
            Self::NoRoot(_) | Self::Unnameable(_) => Kind::Invalid,
            Self::Unusable { .. } => Kind::Forbidden,
            Self::Unreadable { .. } => Kind::Damaged,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoRoot(_) | Self::Unnameable(_) | Self::Unusable { .. } => "H0101",
            Self::Unreadable { .. } => "H0102",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } => Some("mend it first; it was left as it is".into()),
            _ => None,
        }
    }
}
