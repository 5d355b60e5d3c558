//! Why a session was not forked.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::{CheckpointId, Name};
use segno_core::{snapshot, store};
use segno_engine::workspace::NotUtf8;
use segno_engine::{checkpoint as new_checkpoint, history};

use crate::{checkpoint, resume};

/// Why a session was not forked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// The files cannot be captured, or a stored transcript cannot be read.
    #[error(transparent)]
    NewCheckpoint(#[from] new_checkpoint::Error),
    /// The files of the fork cannot be restored.
    #[error(transparent)]
    Restore(#[from] checkpoint::Error),
    /// The resume of the fork cannot be planned.
    #[error(transparent)]
    Resume(Box<resume::Error>),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    #[error("session `{name}` has no step `{step}`{}", did_you_mean(.near))]
    NoSuchStep {
        name: Name,
        step: String,
        /// Existing steps with similar names.
        near: Vec<String>,
    },
    /// The checkpoint belongs to another session.
    #[error("session `{name}` cannot continue from checkpoint {checkpoint}: {reason}")]
    CheckpointOfOtherSession {
        checkpoint: CheckpointId,
        name: Name,
        reason: String,
    },
    #[error("{} cannot be the workspace of a fork: {reason}", .folder.display())]
    FolderTaken { folder: PathBuf, reason: String },
}

impl From<resume::Error> for Error {
    fn from(error: resume::Error) -> Self {
        Self::Resume(Box::new(error))
    }
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    let near: Vec<String> = near.iter().map(|step| format!("`{step}`")).collect();
    format!("; did you mean {}?", near.join(" or "))
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::NewCheckpoint(error) => error.diagnosis(),
            Self::Restore(error) => error.diagnosis(),
            Self::Resume(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::NoSuchStep { name, .. } => Diagnosis::new(Kind::NotFound, "S0114").hint(format!(
                "`segno show {name} --all` lists every started step"
            )),
            Self::CheckpointOfOtherSession { name, .. } => Diagnosis::new(Kind::Conflict, "R0120")
                .hint(format!(
                    "`segno checkpoint list {name}` lists the checkpoints of this session"
                )),
            Self::FolderTaken { .. } => Diagnosis::new(Kind::Conflict, "R0121")
                .hint("choose another folder: `--into FOLDER`"),
        }
    }
}
