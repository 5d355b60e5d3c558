//! Why a request of an agent was not answered.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::CheckpointId;
use segno_core::note::NoteId;
use segno_core::store;
use segno_engine::{checkpoint, history};
use segno_sessions::{agent_state, listing, notes, pause};

use super::OpenError;

/// Why a request of an agent was not answered. The agent reads it, and may correct its call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Listing(#[from] listing::Error),
    #[error(transparent)]
    Note(#[from] notes::Error),
    #[error(transparent)]
    AgentState(#[from] agent_state::Error),
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    #[error(transparent)]
    Pause(#[from] pause::Error),
    #[error("no session works in {}", .folder.display())]
    NoSession { folder: PathBuf },
    #[error("the arguments cannot be used: {0}")]
    Arguments(serde_json::Error),
    #[error("{0}")]
    Cursor(String),
    #[error("`limit` must be from 1 to {most}")]
    Limit { most: usize },
    #[error("checkpoint `{reference}` is of another session")]
    OtherSession { reference: String },
    #[error("the journal of checkpoint {checkpoint} is not here")]
    NoJournal { checkpoint: CheckpointId },
    #[error("there is nothing to look for")]
    EmptySearch,
    #[error("nothing is to change")]
    NothingToChange,
    #[error("{note} is of sort {}, and one of sort {wanted} is wanted", .note.kind)]
    WrongNoteType { note: NoteId, wanted: &'static str },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        let invalid = Diagnosis::new(Kind::Invalid, "C0103");
        match self {
            Self::Open(error) => error.diagnosis(),
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Listing(error) => error.diagnosis(),
            Self::Note(error) => error.diagnosis(),
            Self::AgentState(error) => error.diagnosis(),
            Self::Checkpoint(error) => error.diagnosis(),
            Self::Pause(error) => error.diagnosis(),
            Self::NoSession { .. } => invalid.hint(
                "the server can be started with `--session`; `segno sessions list` shows all",
            ),
            Self::Arguments(_) => invalid.hint("`tools/list` says what each tool takes"),
            Self::OtherSession { .. } => {
                invalid.hint("`list_checkpoints` lists those of this session")
            }
            Self::NoJournal { .. }
            | Self::Cursor(_)
            | Self::Limit { .. }
            | Self::EmptySearch
            | Self::NothingToChange
            | Self::WrongNoteType { .. } => invalid,
        }
    }
}
