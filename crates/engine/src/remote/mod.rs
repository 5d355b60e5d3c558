//! Checkpoints in a remote: a second copy of the snapshot store that survives the loss of this
//! machine.
//!
//! The remote has the same files as the local snapshot store, and one announcement per checkpoint.
//! The announcement is put last, so a checkpoint with an announcement is complete (P4). The
//! announcements are the only index: there is no list that could be outdated.

mod push;

use std::collections::{HashMap, HashSet};

use futures_util::StreamExt;
use segno_core::announcement::{Announcement, Broken, FOLDER, LONGEST, VERSION};
use segno_core::checkpoint::Manifest;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::Boxed;
use segno_core::remote::{self, Remote};
use segno_core::snapshot;
use segno_core::store::Error as StoreError;

use crate::env::Env;
use crate::export;

pub(crate) use push::delete_announcement;
pub use push::{Pushed, push, push_all, push_pending};

/// How many objects are transferred at the same time.
pub const CONCURRENT_TRANSFERS: usize = 4;

/// The folder of deletion marks.
pub const TRASH: &str = "trash";

/// Why checkpoints in the remote cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no remote is configured for checkpoints")]
    NoRemote,
    #[error(transparent)]
    Remote(#[from] remote::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// The session of a checkpoint cannot be exported.
    #[error(transparent)]
    Export(#[from] export::Error),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoRemote => Diagnosis::new(Kind::Invalid, "K0309").hint(
                "set `url` in section `[remote]` of config.toml to `s3://BUCKET/PREFIX` or `file:///FOLDER`",
            ),
            Self::Remote(error) => error.diagnosis(),
            Self::Store(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::Export(error) => error.diagnosis(),
        }
    }
}

pub fn remote(env: &Env) -> Result<&dyn Remote, Error> {
    let storage = env.remote.as_ref().ok_or(Error::NoRemote)?;
    Ok(&*storage.remote)
}

/// The checkpoints in the remote, oldest first; and the errors of unreadable ones.
pub async fn list(env: &Env) -> Result<(Vec<Announcement>, Vec<remote::Error>), Error> {
    let remote = remote(env)?;
    let names = announcements(remote).await?;
    let reads: Vec<Boxed<'_, _>> = names.iter().map(|name| boxed(remote, name)).collect();
    let mut reads = futures_util::stream::iter(reads).buffer_unordered(2 * CONCURRENT_TRANSFERS);
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    while let Some(announcement) = reads.next().await {
        match announcement {
            Ok(Some(announcement)) => found.push(announcement),
            // It was withdrawn meanwhile.
            Ok(None) => {}
            Err(Error::Remote(error @ remote::Error::Damaged { .. })) => damaged.push(error),
            Err(error) => return Err(error),
        }
    }
    found.sort_by_key(|announcement| announcement.checkpoint.id);
    Ok((found, damaged))
}

/// The names of all announcements.
pub async fn announcements(remote: &dyn Remote) -> Result<Vec<String>, remote::Error> {
    let objects = remote.list(FOLDER).await?;
    Ok(objects.into_iter().map(|object| object.name).collect())
}

fn boxed<'a>(
    remote: &'a dyn Remote,
    name: &'a str,
) -> Boxed<'a, Result<Option<Announcement>, Error>> {
    Box::pin(read(remote, name))
}

/// Reads an announcement; `None` if it is absent.
pub async fn read(remote: &dyn Remote, name: &str) -> Result<Option<Announcement>, Error> {
    let mut wrong = None;
    // A mismatch may be a transfer error, so the object is read a second time.
    for _ in 0..2 {
        let bytes = match remote.read(name, LONGEST).await {
            Err(remote::Error::Missing { .. }) => return Ok(None),
            other => other?,
        };
        match Announcement::from_bytes(name, &bytes) {
            Ok(announcement) => return Ok(Some(announcement)),
            Err(Broken::Newer(found)) => {
                return Err(Error::Store(StoreError::Newer {
                    place: format!("{name} in remote {}", remote.url()),
                    found,
                    known: VERSION,
                }));
            }
            Err(broken) => wrong = Some(broken),
        }
    }
    let reason = wrong.map_or_else(String::new, |broken| broken.to_string());
    Err(Error::Remote(remote::Error::Damaged {
        place: remote.url().to_owned(),
        object: name.to_owned(),
        reason,
    }))
}

/// The objects in a remote at one point in time, by name.
pub struct Inventory {
    /// Sizes by object name.
    pub parts: HashMap<String, u64>,
    /// Objects that are marked for deletion.
    pub marked: HashSet<String>,
    pub announcements: HashSet<String>,
}

impl Inventory {
    pub async fn read(remote: &dyn Remote) -> Result<Self, remote::Error> {
        let announcements = announcements(remote).await?.into_iter().collect();
        let mut parts = HashMap::new();
        for folder in ["packs", "manifests"] {
            let found = remote.list(folder).await?;
            parts.extend(found.into_iter().map(|object| (object.name, object.length)));
        }
        let mut marked = HashSet::new();
        for object in remote.list(TRASH).await? {
            marked.extend(object.name.strip_prefix("trash/").map(str::to_owned));
        }
        Ok(Self {
            parts,
            marked,
            announcements,
        })
    }

    /// Whether every object of an announcement exists and is not marked for deletion.
    pub(crate) fn has_all(&self, announcement: &Announcement) -> bool {
        announcement.parts.iter().all(|part| {
            let object = part.object_name();
            self.parts.get(&object) == Some(&part.bytes) && !self.marked.contains(&object)
        })
    }
}

/// The object name of a checkpoint's announcement.
pub fn name_of(manifest: &Manifest) -> String {
    Announcement::object_name(manifest.session, manifest.id)
}
