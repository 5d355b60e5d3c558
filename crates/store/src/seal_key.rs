//! The key that seals checkpoints: created with the first checkpoint, never changed.
//!
//! Without it, Segno cannot tell its own checkpoints from others. So `backups/seal.key.backup` has a
//! copy, which takes the place of a key that is lost or damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::ports::{Access, Disk, folder_of, replace_file};
use segno_core::store::Error;

use crate::home::{Home, io_error};

pub(crate) struct SealKey {
    pub(crate) file: PathBuf,
    pub(crate) copy: PathBuf,
    disk: Arc<dyn Disk>,
}

/// A key that cannot be used.
#[derive(Debug)]
pub(crate) enum NoKey {
    Missing,
    /// It is not the original key.
    Damaged,
    Unreadable(io::Error),
}

impl SealKey {
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            file: home.root().join("seal.key"),
            copy: home.backups().join("seal.key.backup"),
            disk: Arc::clone(home.disk()),
        }
    }

    /// The key of this installation, or its copy; `None` if it has neither.
    pub(crate) fn get(&self) -> Result<Option<[u8; 32]>, Error> {
        let lost = match self.read(&self.file) {
            Ok(key) => return Ok(Some(key)),
            Err(NoKey::Unreadable(error)) => return Err(io_error(&self.file, &error)),
            Err(lost) => lost,
        };
        match (self.read(&self.copy), lost) {
            (Ok(key), _) => Ok(Some(key)),
            (Err(_), NoKey::Missing) => Ok(None),
            (Err(_), _) => Err(Error::Damaged {
                object: self.file.display().to_string(),
                reason: "it is not the original key, and without that key Segno cannot verify that a checkpoint was created here; restore it from a backup of this folder"
                    .to_owned(),
            }),
        }
    }

    /// Reads a key and verifies it against the digest behind it.
    pub(crate) fn read(&self, file: &Path) -> Result<[u8; 32], NoKey> {
        match self.disk.read(file, 64) {
            Ok(bytes) => match bytes.split_first_chunk() {
                Some((key, check)) if check == Digest::of(key).as_bytes() => Ok(*key),
                _ => Err(NoKey::Damaged),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(NoKey::Missing),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(NoKey::Damaged),
            Err(error) => Err(NoKey::Unreadable(error)),
        }
    }

    /// Writes a copy of the key, unless there is one: the other one may be the key of checkpoints
    /// that were sealed before.
    pub(crate) fn write_copy(&self, key: &[u8; 32]) -> io::Result<()> {
        match self.read(&self.copy) {
            Ok(_) | Err(NoKey::Unreadable(_)) => Ok(()),
            Err(NoKey::Missing | NoKey::Damaged) => {
                let number = std::process::id();
                let draft = self.copy.with_extension(format!("{number}.draft"));
                self.replace(&draft, &self.copy, key)
            }
        }
    }

    fn replace(&self, draft: &Path, target: &Path, key: &[u8; 32]) -> io::Result<()> {
        let access = Access::Private;
        replace_file(
            &*self.disk,
            draft,
            target,
            &with_digest(key),
            access,
            |_| {},
        )
    }

    /// The key. `fresh` becomes the key of an installation that has none; the copy takes the place
    /// of a lost one.
    pub(crate) fn get_or_create(&self, fresh: &[u8; 32]) -> Result<[u8; 32], Error> {
        let key = match (self.get()?, self.read(&self.file)) {
            (Some(key), Err(NoKey::Missing)) => self.create(&key)?,
            (Some(key), _) => key,
            (None, _) => self.create(fresh)?,
        };
        // The checkpoint is as good without a copy of the key.
        let _ = self.write_copy(&key);
        Ok(key)
    }

    /// Replaces a lost or damaged key.
    pub(crate) fn restore(&self, key: &[u8; 32]) -> io::Result<()> {
        let draft = self.file.with_extension("repair.draft");
        self.replace(&draft, &self.file, key)
    }

    /// Creates the key. If several processes do so at once, the first one wins. The file is
    /// complete when it has its name.
    fn create(&self, fresh: &[u8; 32]) -> Result<[u8; 32], Error> {
        let folder = folder_of(&self.file);
        let draft = folder.join(format!("seal.{}.draft", Digest::of(fresh)));
        let made = || {
            self.disk
                .create(&draft, &with_digest(fresh), Access::Private)?;
            point(Point::SealBeforePublish);
            self.disk.publish(&draft, &self.file)?;
            point(Point::SealAfterPublish);
            Ok(())
        };
        match made().map_err(|error: io::Error| (error.kind(), error)) {
            // Another process was first, and may have removed the draft.
            Ok(()) | Err((io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound, _)) => {}
            Err((_, error)) => {
                let _ = self.disk.remove(&draft);
                return Err(io_error(&self.file, &error));
            }
        }
        let synced = self.disk.sync_folder(folder);
        synced.map_err(|error| io_error(&self.file, &error))?;
        self.remove_drafts(folder)?;
        let gone = || io_error(&self.file, &io::ErrorKind::NotFound.into());
        self.get()?.ok_or_else(gone)
    }

    /// Drafts of the key are useless once there is a key.
    fn remove_drafts(&self, folder: &Path) -> Result<(), Error> {
        for file in self
            .disk
            .list(folder)
            .map_err(|error| io_error(folder, &error))?
        {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("seal.") && name.ends_with(".draft") {
                let removed = self.disk.remove(&file);
                removed.map_err(|error| io_error(&file, &error))?;
            }
        }
        Ok(())
    }
}

/// A key as it is stored: the digest shows whether it is still the same.
fn with_digest(key: &[u8; 32]) -> Vec<u8> {
    [&key[..], Digest::of(key).as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::LocalDisk;

    #[test]
    fn unreadable_key_is_neither_missing_nor_damaged() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).expect("a home");
        let key = SealKey::new(&home);
        let read = |name: &str| key.read(&folder.path().join(name));
        assert!(matches!(read("absent"), Err(NoKey::Missing)));
        // A folder cannot be read as a file.
        assert!(matches!(read("home"), Err(NoKey::Unreadable(_))));
        let write = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            LocalDisk
                .create(&path, content, Access::Private)
                .expect("a file");
        };
        write("long", &[0; 65]);
        assert!(matches!(read("long"), Err(NoKey::Damaged)));
        write("short", &[0; 32]);
        assert!(matches!(read("short"), Err(NoKey::Damaged)));
        let mut sealed = vec![7; 32];
        sealed.extend(Digest::of(&[7; 32]).as_bytes());
        write("key", &sealed);
        assert_eq!(read("key").ok(), Some([7; 32]));
    }
}
