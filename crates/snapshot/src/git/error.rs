//! What can go wrong with repositories.

use std::io;
use std::path::Path;
use std::time::Duration;

/// Why a repository could not be asked or mended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The `git` program cannot be started.
    #[error("git cannot be started: {reason}")]
    NoGit {
        /// Why.
        reason: String,
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
}

impl Error {
    /// What a failed file operation means.
    pub(super) fn file(place: &Path, error: &io::Error) -> Self {
        Error::Unavailable {
            place: place.display().to_string(),
            reason: error.to_string(),
        }
    }
}
