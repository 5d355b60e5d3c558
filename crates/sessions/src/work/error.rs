//! Why work was not started, or its first run failed.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::{store, worktree};
use segno_engine::workspace::NotUtf8;
use segno_spec::checklist::Problem;

use crate::next_run::NoSuchAgent;
use crate::start::{self, SpecError};

/// Why work was not started, or its first run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The repository cannot be worked in.
    #[error(transparent)]
    Worktree(#[from] worktree::Error),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    NoSuchAgent(#[from] NoSuchAgent),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    #[error(transparent)]
    Start(#[from] start::Error),
    /// The plan is inconsistent; no task was started.
    #[error("{place} is not a valid plan: {}", join_shown(.problems))]
    InvalidPlan {
        /// The file or source of the plan, for the message.
        place: String,
        problems: Vec<Problem>,
    },
    /// The folder cannot be created.
    #[error("{} cannot be written: {reason}", .folder.display())]
    WriteFailed { folder: PathBuf, reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Worktree(error) => error.diagnosis(),
            Self::Spec(error) => error.diagnosis(),
            Self::NoSuchAgent(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::Start(error) => error.diagnosis(),
            Self::InvalidPlan { .. } => Diagnosis::new(Kind::InvalidSpec, "R0136")
                .hint("write each task as `- [ ] T2: TITLE (after T1)`; nothing was started"),
            Self::WriteFailed { .. } => Diagnosis::new(Kind::Unavailable, "F0205")
                .hint("use `--to FOLDER` to write to another folder"),
        }
    }
}
