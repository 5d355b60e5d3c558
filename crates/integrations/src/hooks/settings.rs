//! Changes the settings file of a CLI agent: under a lock, atomically, and at its real path.

use std::fs::{Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use segno_core::ports::{Access, Disk};
use segno_store::LocalDisk;

use super::Error;

/// Maximum size of a settings file in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// How often a change is retried because another process changed the file in between.
const TRIES: usize = 10;

#[derive(Debug)]
pub struct Settings {
    /// The canonical path: links are followed, so that they stay links.
    pub path: PathBuf,
}

/// What to do with the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    Write(String),
    Remove,
}

impl Settings {
    pub fn find(path: &Path) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Unusable {
            path: path.to_owned(),
            reason,
        };
        match path.canonicalize() {
            Ok(path) => Ok(Self { path }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.symlink_metadata().is_ok() {
                    return Err(unusable("it is a link that leads nowhere".into()));
                }
                // The folder may be a link as well.
                let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
                let path = match (folder, path.file_name()) {
                    (Some(folder), Some(name)) => folder.join(name),
                    _ => path.to_owned(),
                };
                Ok(Self { path })
            }
            Err(error) => Err(unusable(error.to_string())),
        }
    }

    /// Reads the file. Returns `None` if it does not exist.
    pub fn read(&self) -> Result<Option<String>, Error> {
        Ok(self.read_checked()?.map(|(text, _)| text))
    }

    /// Changes the file as `decide` returns, and calls `decide` again if another process changed
    /// the file meanwhile. Concurrent callers see each other's changes.
    pub fn change(
        &self,
        mut decide: impl FnMut(Option<&str>) -> Result<Change, Error>,
    ) -> Result<(), Error> {
        let folder = self.path.parent().unwrap_or(&self.path);
        let made = LocalDisk.create_folder(folder, Access::Private);
        made.map_err(|error| self.unusable(&error))?;
        let _lock = lock(folder).map_err(|error| self.unusable(&error))?;
        for _ in 0..TRIES {
            let found = self.read_checked()?;
            let before = found.as_ref().map(|(text, _)| text.as_str());
            let change = decide(before)?;
            if change == Change::Nothing {
                return Ok(());
            }
            // The CLI agent itself writes its settings without this lock.
            let draft = match &change {
                Change::Write(text) => Some(self.draft(text, found.as_ref().map(|(_, meta)| meta))),
                _ => None,
            };
            let draft = draft.transpose().map_err(|error| self.unusable(&error))?;
            if self.read()?.as_deref() != before {
                draft.map(|draft| LocalDisk.remove(&draft));
                continue;
            }
            let done = match draft {
                Some(draft) => LocalDisk.rename(&draft, &self.path),
                None => LocalDisk.remove(&self.path),
            };
            let done = done.and_then(|()| LocalDisk.sync_folder(folder));
            return done.map_err(|error| self.unusable(&error));
        }
        Err(Error::Unusable {
            path: self.path.clone(),
            reason: "someone else keeps changing it".into(),
        })
    }

    fn read_checked(&self) -> Result<Option<(String, Metadata)>, Error> {
        let refuse = |reason: String| {
            Err(Error::Unusable {
                path: self.path.clone(),
                reason,
            })
        };
        let found = match self.path.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| self.unusable(&error))?,
        };
        if found.permissions().mode() & 0o002 != 0 {
            return refuse("everyone may write to it; `chmod o-w` it".into());
        }
        let user = rustix::process::geteuid().as_raw();
        if found.uid() != user && user != 0 {
            return refuse(format!("it belongs to user {}", found.uid()));
        }
        let read = LocalDisk.read(&self.path, MAX_BYTES);
        let bytes = read.map_err(|error| self.unusable(&error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some((text, found))),
            Err(error) => Err(Error::Unreadable {
                path: self.path.clone(),
                reason: format!("it is not text: {error}"),
            }),
        }
    }

    /// Writes and syncs the new file next to the one that it replaces. This process holds the lock,
    /// so an existing draft was left by a killed process. `ports::replace_file` has no place for the
    /// last comparison before the rename, and for the owner and the mode of the old file.
    fn draft(&self, text: &str, like: Option<&Metadata>) -> io::Result<PathBuf> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let draft = self.path.with_file_name(format!(".{name}.segno"));
        LocalDisk.remove(&draft)?;
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&draft)?;
            if let Some(like) = like {
                let made = file.metadata()?;
                if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
                    fchown(&file, Some(like.uid()), Some(like.gid()))?;
                }
                file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
            }
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().inspect_err(|_| drop(LocalDisk.remove(&draft)))?;
        Ok(draft)
    }

    fn unusable(&self, error: &io::Error) -> Error {
        Error::Unusable {
            path: self.path.clone(),
            reason: error.to_string(),
        }
    }
}

/// Locks a folder. The lock leaves no file behind, even after a kill.
fn lock(folder: &Path) -> io::Result<OwnedFd> {
    let folder = open(folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}
