//! The kinds of notices.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What happened to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A run stopped and can be resumed.
    Paused,
    /// A run started by itself, without a command of a user.
    Resumed,
    /// A run died without an end.
    Lost,
    /// A question waits for the user.
    Waiting,
    /// A provider's limit or a budget is used up.
    LimitReached,
    /// A step that waited for a provider's limit continues.
    LimitLifted,
    Failed,
    Completed,
    Cancelled,
    /// A lost session has no checkpoint, or damaged ones.
    Checkpoint,
    /// A user tests a target.
    Test,
}

impl Kind {
    /// The kinds that a target can be restricted to.
    pub const ALL: &[Self] = &[
        Self::Paused,
        Self::Resumed,
        Self::Lost,
        Self::Waiting,
        Self::LimitReached,
        Self::LimitLifted,
        Self::Failed,
        Self::Completed,
        Self::Cancelled,
        Self::Checkpoint,
    ];

    /// The kinds that a target gets if its settings name none: those that need the user, and the
    /// end of the work.
    pub const DEFAULT: &[Self] = &[
        Self::Lost,
        Self::Waiting,
        Self::LimitReached,
        Self::Failed,
        Self::Completed,
        Self::Checkpoint,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Lost => "lost",
            Self::Waiting => "waiting",
            Self::LimitReached => "limit_reached",
            Self::LimitLifted => "limit_lifted",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Checkpoint => "checkpoint",
            Self::Test => "test",
        }
    }

    /// How urgent it is.
    pub const fn severity(self) -> Severity {
        match self {
            Self::Failed | Self::Lost | Self::Checkpoint => Severity::Error,
            Self::Waiting | Self::LimitReached => Severity::Attention,
            _ => Severity::Information,
        }
    }
}

/// How urgent a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Information,
    /// The user has to do something.
    Attention,
    Error,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The word names no kind.
#[derive(Debug, thiserror::Error)]
#[error("unknown kind of notice")]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.as_str() == word).ok_or(UnknownKind)
    }
}
