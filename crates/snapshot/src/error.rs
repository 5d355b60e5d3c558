//! Errors of the snapshot crate.

use std::io;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_secrets::cipher::DecryptError;

/// Why Segno's own folders are neither captured nor restored.
pub(crate) const OWN_FOLDER: &str = "it is Segno's home folder, or a part of it";

/// Why a snapshot could not be captured, read or restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("snapshot {0} does not exist")]
    NoSnapshot(Digest),
    #[error("snapshot {snapshot} has no file `{}`", path.display())]
    NoFile { snapshot: Digest, path: PathBuf },
    #[error("{object} is damaged: {reason}")]
    Damaged { object: String, reason: String },
    /// A manifest whose hash is right, but whose content no capture writes.
    #[error("snapshot {snapshot} cannot be trusted: {reason}")]
    Hostile { snapshot: Digest, reason: String },
    /// A folder that is never captured or restored into.
    #[error("{} cannot be captured or restored into: {reason}", place.display())]
    Refused {
        place: PathBuf,
        reason: &'static str,
    },
    /// The folder is not a snapshot store of a known version.
    #[error("{} is not a snapshot store of this version of Segno: {reason}", place.display())]
    NotASnapshotStore { place: PathBuf, reason: String },
    /// Something blocks a restore. Nothing was changed.
    #[error("`{}` blocks the restore: {reason}", path.display())]
    Blocked {
        /// Relative to the folder.
        path: PathBuf,
        reason: &'static str,
    },
    /// A git repository was restored, but could not be made usable at its new path.
    #[error("a git repository was restored, but its paths were not updated: {0}")]
    Git(#[from] crate::git::Error),
    /// The file is encrypted and cannot be decrypted here.
    #[error("{} cannot be read: {shut}", place.display())]
    CannotDecrypt { place: PathBuf, shut: DecryptError },
    /// An archive member that is not accepted. Nothing of the archive was stored.
    #[error("`{entry}` in the archive is refused: {reason}")]
    Unsafe { entry: String, reason: String },
    /// An archive that cannot be read to its end, or is malformed.
    #[error("the archive cannot be used: {reason}")]
    BrokenArchive { reason: String },
    /// An archive that exceeds a limit.
    #[error("the archive has more than {limit} {}{}", .what.word(), or_words(*.what))]
    TooMuch { what: Measure, limit: u64 },
    /// The disk is full. Earlier snapshots are untouched.
    #[error("no space left in {}", place.display())]
    Full { place: PathBuf },
    /// An operation failed and may work later.
    #[error("{} cannot be used: {reason}", place.display())]
    Unavailable { place: PathBuf, reason: String },
}

/// What an archive can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Unpacked bytes.
    Bytes,
    /// Entries, or metadata of entries.
    Entries,
}

impl Measure {
    /// The name of the option that allows more.
    pub const fn word(self) -> &'static str {
        match self {
            Measure::Bytes => "bytes",
            Measure::Entries => "entries",
        }
    }
}

/// A few entries can be as long as many.
fn or_words(what: Measure) -> &'static str {
    match what {
        Measure::Bytes => "",
        Measure::Entries => ", or fewer with as much metadata",
    }
}

impl Error {
    /// Converts the error of a file operation at `place`.
    pub(crate) fn at(place: &Path, error: impl Into<io::Error>) -> Self {
        let (place, error) = (place.to_owned(), error.into());
        let shut = error.get_ref().and_then(|error| error.downcast_ref());
        if let Some(&shut @ (DecryptError::NoKey | DecryptError::OtherKey)) = shut {
            return Error::CannotDecrypt { place, shut };
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
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoSnapshot(_) => Diagnosis::new(Kind::NotFound, "K0101"),
            Self::NoFile { .. } => Diagnosis::new(Kind::NotFound, "K0102"),
            Self::Damaged { .. } => Diagnosis::new(Kind::FailedVerification, "K0103"),
            Self::Hostile { .. } => Diagnosis::new(Kind::Unusable, "K0104"),
            Self::Refused { .. } => Diagnosis::new(Kind::Forbidden, "K0105"),
            Self::NotASnapshotStore { .. } => Diagnosis::new(Kind::Unusable, "K0106"),
            Self::Blocked { reason, .. } if *reason == OWN_FOLDER => {
                Diagnosis::new(Kind::Conflict, "K0107")
                    .hint("restore into another folder: `--into FOLDER`")
            }
            Self::Blocked { path, .. } => Diagnosis::new(Kind::Conflict, "K0107")
                .hint(format!("move `{}` away and restore again", path.display())),
            Self::Git(_) => Diagnosis::new(Kind::Unavailable, "K0110"),
            Self::CannotDecrypt { .. } => Diagnosis::new(Kind::Forbidden, "K0111").hint(
                "set `encryption.key_file` in config.toml to the key that it was encrypted with",
            ),
            Self::Unsafe { .. } => Diagnosis::new(Kind::Unusable, "K0401"),
            Self::BrokenArchive { .. } => Diagnosis::new(Kind::FailedVerification, "K0402"),
            Self::TooMuch { what, .. } => Diagnosis::new(Kind::Unusable, "K0403").hint(format!(
                "if you trust the archive, allow more with `--max-{} N`",
                what.word()
            )),
            Self::Full { .. } => {
                Diagnosis::new(Kind::Unavailable, "K0108").hint("free disk space and try again")
            }
            Self::Unavailable { .. } => Diagnosis::new(Kind::Unavailable, "K0109"),
        }
    }
}
