//! Why checkpoints were not pulled.

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::{snapshot, store};
use segno_engine::remote;

use crate::import;

/// Why checkpoints were not pulled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Remote(#[from] remote::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// The session of a checkpoint cannot be imported.
    #[error(transparent)]
    Import(#[from] import::Error),
    #[error("remote {place} has no checkpoint or session `{reference}`")]
    NotInRemote {
        /// The URL of the remote.
        place: String,
        reference: String,
    },
}

impl From<segno_core::remote::Error> for Error {
    fn from(error: segno_core::remote::Error) -> Self {
        Self::Remote(error.into())
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Remote(error) => error.diagnosis(),
            Self::Store(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::Import(error) => error.diagnosis(),
            Self::NotInRemote { .. } => Diagnosis::new(Kind::NotFound, "K0310")
                .hint("`segno checkpoint list --remote` lists the checkpoints of the remote"),
        }
    }
}
