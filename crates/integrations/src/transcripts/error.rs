//! Why a transcript was not adopted.

use std::path::PathBuf;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::transcript::TranscriptSource;
use segno_core::{snapshot, store};
use segno_engine::workspace::NotUtf8;
use segno_engine::{history, lease};

/// Why a transcript was not adopted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Lease(#[from] lease::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    #[error(
        "provider `{program}` cannot be used on this machine: the location of its transcripts is unknown"
    )]
    NoTranscripts { program: TranscriptSource },
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
}

impl Error {
    /// Whether every other transcript would fail, too.
    pub fn concerns_all(&self) -> bool {
        let store = match self {
            Self::Store(error) | Self::History(history::Error::Store(error)) => error,
            Self::NoTranscripts { .. } => return true,
            _ => return false,
        };
        matches!(
            store,
            store::Error::DiskFull { .. }
                | store::Error::Unavailable { .. }
                | store::Error::Newer { .. }
                | store::Error::Unsafe { .. }
        )
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Lease(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::NoTranscripts { .. } => Diagnosis::new(Kind::Invalid, "A0102"),
            Self::Unreadable { .. } => Diagnosis::new(Kind::Unavailable, "F0201"),
        }
    }
}
