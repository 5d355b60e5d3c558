//! Errors of git operations.

use std::io;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("git cannot be started: {reason}")]
    NoGit { reason: String },
    #[error("git {command} failed: {reason}")]
    Refused {
        command: String,
        /// The error output of git.
        reason: String,
    },
    /// Git took too long and was killed.
    #[error("git {command} took longer than {} seconds", limit.as_secs())]
    TooSlow { command: String, limit: Duration },
    /// The output of git is longer than the limit.
    #[error("git {command} printed more than {limit} bytes")]
    TooLong { command: String, limit: usize },
    #[error("{place}: {reason}")]
    Unavailable { place: String, reason: String },
}

impl Error {
    /// Converts the error of a file operation.
    pub(super) fn file(place: &Path, error: &io::Error) -> Self {
        Error::Unavailable {
            place: place.display().to_string(),
            reason: error.to_string(),
        }
    }
}
