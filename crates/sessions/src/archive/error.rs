//! Why a checkpoint was not exported to a folder, or not imported from one.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::{snapshot, store};
use segno_engine::workspace::NotUtf8;
use segno_engine::{export, lease};

use crate::{checkpoint, import, relocate};

/// Why a checkpoint was not exported to a folder, or not imported from one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    /// The session of the checkpoint cannot be exported.
    #[error(transparent)]
    Export(#[from] export::Error),
    /// The session of the folder cannot be imported.
    #[error(transparent)]
    Import(#[from] import::Error),
    /// A run holds the session that is imported.
    #[error(transparent)]
    Lease(#[from] lease::Error),
    /// The files cannot be restored into the session's folder.
    #[error(transparent)]
    Restore(#[from] checkpoint::Error),
    #[error(transparent)]
    Relocate(#[from] relocate::Error),
    /// The folder is not an exported checkpoint, or was changed since the export.
    #[error("{} cannot be imported: {reason}", .place.display())]
    InvalidFolder { place: PathBuf, reason: String },
    #[error("{} cannot be written: {reason}", .place.display())]
    WriteFailed {
        /// The folder, or a file in it.
        place: PathBuf,
        reason: String,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::Export(error) => error.diagnosis(),
            Self::Import(error) => error.diagnosis(),
            Self::Lease(error) => error.diagnosis(),
            Self::Restore(error) => error.diagnosis(),
            Self::Relocate(error) => error.diagnosis(),
            Self::InvalidFolder { .. } => Diagnosis::new(Kind::FailedVerification, "K0404").hint(
                "export the checkpoint again; if this folder was transferred, compare the two",
            ),
            Self::WriteFailed { .. } => Diagnosis::new(Kind::Unavailable, "F0205")
                .hint("use `--to FOLDER` to write to another folder"),
        }
    }
}
