//! What can go wrong with snapshots.

use std::io;
use std::path::{Path, PathBuf};

use segno_core::cipher::Shut;
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Kind};

use crate::archive::Measure;

/// Why a snapshot could not be taken, read or restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such snapshot.
    #[error("snapshot {0} does not exist")]
    NoSnapshot(Digest),
    /// The snapshot has no file there.
    #[error("snapshot {snapshot} has no file `{}`", path.display())]
    NoFile {
        /// The snapshot.
        snapshot: Digest,
        /// The path that was asked for.
        path: PathBuf,
    },
    /// Stored data is not what was written.
    #[error("{object} is damaged: {reason}")]
    Damaged {
        /// What is damaged.
        object: String,
        /// How that was noticed.
        reason: String,
    },
    /// A manifest whose hash is right, but that says what no capture writes.
    #[error("snapshot {snapshot} cannot be trusted: {reason}")]
    Hostile {
        /// The snapshot.
        snapshot: Digest,
        /// What it says.
        reason: String,
    },
    /// A folder that is never captured or restored into.
    #[error("{} is not captured or restored: {reason}", place.display())]
    Refused {
        /// The folder.
        place: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// The folder is not a vault that this Segno can use.
    #[error("{} is not a vault of this Segno: {reason}", place.display())]
    NotAVault {
        /// The folder.
        place: PathBuf,
        /// What was found.
        reason: String,
    },
    /// Something is in the way of a restore. Nothing was changed.
    #[error("`{}` is in the way: {reason}", path.display())]
    InTheWay {
        /// Where, below the folder.
        path: PathBuf,
        /// What is there.
        reason: &'static str,
    },
    /// A git repository was restored, and could not be made usable in its new place.
    #[error("a git repository was brought back, but not mended: {0}")]
    Git(#[from] crate::git::Error),
    /// It is encrypted, and cannot be opened here.
    #[error("{} cannot be read: {shut}", place.display())]
    Shut {
        /// What.
        place: PathBuf,
        /// Why.
        shut: Shut,
    },
    /// Something in an archive that is not let into the vault. Nothing of it was kept.
    #[error("`{entry}` in the archive is refused: {reason}")]
    Unsafe {
        /// Its name in the archive.
        entry: String,
        /// Why.
        reason: String,
    },
    /// An archive that cannot be read to its end, or is not what it should be.
    #[error("the archive cannot be used: {reason}")]
    BrokenArchive {
        /// What is wrong.
        reason: String,
    },
    /// An archive that asks for more than it may.
    #[error("the archive has more than {limit} {}{}", .what.word(), or_words(*.what))]
    TooMuch {
        /// Of what.
        what: Measure,
        /// How much it may have.
        limit: u64,
    },
    /// No room. What was captured before is untouched.
    #[error("no space left in {}", place.display())]
    Full {
        /// Where.
        place: PathBuf,
    },
    /// It did not work now and may work later.
    #[error("{} cannot be used: {reason}", place.display())]
    Unavailable {
        /// What.
        place: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Few entries can be as long as many.
fn or_words(what: Measure) -> &'static str {
    match what {
        Measure::Bytes => "",
        Measure::Entries => ", or as much is said about fewer",
    }
}

impl Error {
    /// What a failed file operation at `place` means.
    pub(crate) fn at(place: &Path, error: impl Into<io::Error>) -> Self {
        let (place, error) = (place.to_owned(), error.into());
        let shut = error.get_ref().and_then(|error| error.downcast_ref());
        if let Some(&shut @ (Shut::NoKey | Shut::OtherKey)) = shut {
            return Error::Shut { place, shut };
        }
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { place },
            _ => Error::Unavailable {
                place,
                reason: error.to_string(),
            },
        }
    }

    pub(crate) fn damaged(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Damaged {
            object: object.into(),
            reason: reason.into(),
        }
    }
}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::NoSnapshot(_) | Error::NoFile { .. } => Kind::NotFound,
            Error::Damaged { .. } | Error::BrokenArchive { .. } => Kind::Damaged,
            Error::Hostile { .. }
            | Error::NotAVault { .. }
            | Error::Unsafe { .. }
            | Error::TooMuch { .. } => Kind::Invalid,
            Error::Refused { .. } | Error::Shut { .. } => Kind::Forbidden,
            Error::InTheWay { .. } => Kind::Conflict,
            Error::Git(_) | Error::Full { .. } | Error::Unavailable { .. } => Kind::Unavailable,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::NoSnapshot(_) => "K0101",
            Error::NoFile { .. } => "K0102",
            Error::Damaged { .. } => "K0103",
            Error::Hostile { .. } => "K0104",
            Error::Refused { .. } => "K0105",
            Error::NotAVault { .. } => "K0106",
            Error::InTheWay { .. } => "K0107",
            Error::Full { .. } => "K0108",
            Error::Unavailable { .. } => "K0109",
            Error::Git(_) => "K0110",
            Error::Shut { .. } => "K0111",
            Error::Unsafe { .. } => "K0401",
            Error::BrokenArchive { .. } => "K0402",
            Error::TooMuch { .. } => "K0403",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::InTheWay { path, .. } => {
                Some(format!("move `{}` away, and restore again", path.display()))
            }
            Error::TooMuch { what, .. } => {
                let what = what.word();
                Some(format!("if you trust it, `--max-{what} N` allows more"))
            }
            Error::Full { .. } => Some("make room, and try again".into()),
            Error::Shut { .. } => Some(
                "name the key that it was written with: `encryption.key_file` in config.toml"
                    .into(),
            ),
            _ => None,
        }
    }
}
