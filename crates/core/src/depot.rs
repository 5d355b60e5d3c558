//! What it is to keep objects somewhere else: in a bucket, or in a folder of another machine.
//!
//! A depot knows names and bytes, and nothing of what they mean. What is put into one is never
//! changed; whoever needs something else there uses another name.

use std::path::Path;

use crate::error::{Diagnose, Kind};
use crate::ports::Boxed;
use crate::time::Timestamp;

/// What a depot answers, in its own time.
pub type Reply<'a, T> = Boxed<'a, Result<T, Error>>;

/// Keeps objects by their names.
///
/// Names are words of letters, digits, `.`, `-` and `_`, joined by `/`; anything else is
/// [`Error::Name`]. Any number of processes and machines may use one depot at the same time.
///
/// Every method tries again by itself, for a bounded time, what may work a moment later: a server
/// that is busy, an answer that was lost, a body that was cut short. What it answers then is final.
pub trait Depot: Send + Sync {
    /// What people call it. It has no secrets.
    fn url(&self) -> &str;

    /// Every object whose name begins with `folder` and a `/`, sorted by name; all of them if it is
    /// empty. What was created before this was called is among them.
    fn list<'a>(&'a self, folder: &'a str) -> Reply<'a, Vec<Object>>;

    /// The whole object. One that is longer than `limit` is [`Error::Damaged`].
    fn read<'a>(&'a self, name: &'a str, limit: u64) -> Reply<'a, Vec<u8>>;

    /// Makes an object with these bytes. It is there whole or not at all, durable when this returns.
    /// Of any number that create the same name, one is answered [`Put::New`], and its bytes stay.
    ///
    /// If the answer to the one that made it was lost, it may be told [`Put::Exists`].
    fn create<'a>(&'a self, name: &'a str, bytes: Vec<u8>) -> Reply<'a, Put>;

    /// Makes an object of a file, whose name says what is in it: one of the same name and length is
    /// taken for it and not sent again, one of another length is replaced. There whole or not at all,
    /// durable when this returns.
    fn upload<'a>(&'a self, name: &'a str, file: &'a Path) -> Reply<'a, Put>;

    /// Writes an object of so many bytes into a file that is there and empty. The bytes are as many,
    /// and not otherwise checked; that they are durable is left to whoever gives the file its name.
    fn download<'a>(&'a self, name: &'a str, length: u64, file: &'a Path) -> Reply<'a, ()>;

    /// Deletes an object. That it is gone already is no error.
    fn delete<'a>(&'a self, name: &'a str) -> Reply<'a, ()>;
}

/// An object that is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What it is called.
    pub name: String,
    /// How long it is.
    pub length: u64,
    /// When it was made, by the clock of the depot.
    pub at: Timestamp,
}

/// What became of something that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It was made.
    New,
    /// One of that name was there.
    Exists,
}

/// Why a depot did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, or is not able to answer now.
    #[error("storage {place} cannot be used: {reason}")]
    Unavailable {
        /// The depot.
        place: String,
        /// Why.
        reason: String,
    },
    /// It does not let this person in.
    #[error("storage {place} refuses: {reason}")]
    Denied {
        /// The depot.
        place: String,
        /// What it said.
        reason: String,
    },
    /// The bucket or folder is not there.
    #[error("storage {place} does not exist")]
    NoPlace {
        /// The depot.
        place: String,
    },
    /// There is no such object.
    #[error("storage {place} has no {object}")]
    Missing {
        /// The depot.
        place: String,
        /// The object.
        object: String,
    },
    /// An object is not what was put there.
    #[error("{object} in storage {place} is damaged: {reason}")]
    Damaged {
        /// The depot.
        place: String,
        /// The object.
        object: String,
        /// How that was noticed.
        reason: String,
    },
    /// The address is none of a depot.
    #[error("`{url}` is no storage: {reason}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// A name that no object has. A fault of ours.
    #[error("`{0}` cannot be the name of an object")]
    Name(String),
    /// A file on this side could not be read or written.
    #[error("{place} cannot be carried: {reason}")]
    File {
        /// The file.
        place: String,
        /// Why.
        reason: String,
    },
}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::Unavailable { .. } | Error::File { .. } => Kind::Unavailable,
            Error::Denied { .. } => Kind::Forbidden,
            Error::NoPlace { .. } | Error::Missing { .. } => Kind::NotFound,
            Error::Damaged { .. } => Kind::Damaged,
            Error::Url { .. } => Kind::Invalid,
            Error::Name(_) => Kind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::Unavailable { .. } => "K0301",
            Error::Denied { .. } => "K0302",
            Error::NoPlace { .. } => "K0303",
            Error::Missing { .. } => "K0304",
            Error::Damaged { .. } => "K0305",
            Error::Url { .. } => "K0306",
            Error::Name(_) => "K0307",
            Error::File { .. } => "K0308",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Unavailable { .. } => {
                Some("what was kept here stays; `segno checkpoint push --all` sends it later".into())
            }
            Error::Denied { place, .. } if place.starts_with("s3:") => Some(
                "look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and at what they may do"
                    .into(),
            ),
            Error::NoPlace { place } => Some(match place.strip_prefix("file://") {
                Some(folder) => format!("`mkdir -m 700 {folder}`, or mount what belongs there"),
                None => "make the bucket, or mend `storage.url` in config.toml".into(),
            }),
            Error::Url { .. } => Some(
                "`storage.url` in config.toml is `s3://BUCKET/PREFIX` or `file:///FOLDER`".into(),
            ),
            _ => None,
        }
    }
}

/// Whether an object can have this name.
pub fn is_name(name: &str) -> bool {
    let word = |word: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        !matches!(word, "" | "." | "..") && word.chars().all(allowed)
    };
    name.len() <= 512 && name.split('/').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for good in ["a", "packs/0f", "checkpoints/01J/01K.json", "a..b/c-d_e"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a b", "a\0", "a#1", "é",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&"a".repeat(513)));
    }
}
