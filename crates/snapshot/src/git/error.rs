//! What can go wrong with repositories.

use std::io;
use std::path::Path;
use std::time::Duration;

use segno_core::error::Kind;

/// Why a repository was not captured or restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The `git` program cannot be started.
    #[error("git cannot be started: {reason}")]
    NoGit {
        /// Why.
        reason: String,
    },
    /// There is no repository.
    #[error("{place} is no git repository")]
    NoRepository {
        /// Where.
        place: String,
    },
    /// There is a repository already; nothing was written.
    #[error("{place} has a git repository already")]
    Exists {
        /// Where.
        place: String,
    },
    /// Git refused.
    #[error("git {command} failed: {reason}")]
    Refused {
        /// The subcommand.
        command: String,
        /// What it said.
        reason: String,
    },
    /// Git took too long and was ended.
    #[error("git {command} took longer than {} seconds", limit.as_secs())]
    TooSlow {
        /// The subcommand.
        command: String,
        /// How long it had.
        limit: Duration,
    },
    /// Git had more to say than is read.
    #[error("git {command} answered with more than {limit} bytes")]
    TooLong {
        /// The subcommand.
        command: String,
        /// How much is read.
        limit: usize,
    },
    /// A file could not be read or written.
    #[error("{place}: {reason}")]
    Unavailable {
        /// Which.
        place: String,
        /// Why.
        reason: String,
    },
    /// What was captured is not what is being restored.
    #[error("{object} is damaged: {reason}")]
    Damaged {
        /// What.
        object: String,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// What sort of trouble it is.
    pub fn kind(&self) -> Kind {
        match self {
            Error::NoRepository { .. } => Kind::NotFound,
            Error::Exists { .. } => Kind::Conflict,
            Error::NoGit { .. } | Error::TooSlow { .. } | Error::Unavailable { .. } => {
                Kind::Unavailable
            }
            Error::Refused { .. } | Error::TooLong { .. } => Kind::Invalid,
            Error::Damaged { .. } => Kind::Damaged,
        }
    }

    /// What a failed file operation means.
    pub(super) fn file(place: &Path, error: &io::Error) -> Self {
        Error::Unavailable {
            place: place.display().to_string(),
            reason: error.to_string(),
        }
    }

    pub(super) fn damaged(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Damaged {
            object: object.into(),
            reason: reason.into(),
        }
    }
}
