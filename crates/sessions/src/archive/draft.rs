//! A folder that is written under a temporary name beside its target, and renamed when all of it is
//! durable.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::lease::{Liveness, Owner};
use segno_core::ports::{Access, Disk};
use segno_engine::Env;

use super::Error;

pub(super) struct Draft<'a> {
    disk: &'a dyn Disk,
    pub(super) folder: PathBuf,
    to: &'a Path,
    parent: PathBuf,
    is_published: bool,
}

fn unwritten(place: &Path, error: &io::Error) -> Error {
    Error::WriteFailed {
        place: place.to_owned(),
        reason: error.to_string(),
    }
}

impl<'a> Draft<'a> {
    /// Creates a folder for the target `to`, which must not exist. Deletes what killed writers left
    /// beside it.
    pub(super) fn begin(env: &'a Env, to: &'a Path) -> Result<Self, Error> {
        if to.symlink_metadata().is_ok() {
            let reason = io::Error::other("it exists");
            return Err(unwritten(to, &reason));
        }
        let disk = &*env.disk;
        let parent = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let me = env.processes.current();
        let mut family = OsString::from(".");
        family.push(to.file_name().unwrap_or_default());
        // Process ids are meaningful on one machine only.
        let machine = Digest::of_fields(&[me.host.as_bytes(), me.namespace.as_bytes()]);
        family.push(format!(".draft-{}-", machine.short()));
        delete_abandoned(env, &parent, &family, &me).map_err(|error| unwritten(&parent, &error))?;
        family.push(format!("{}-{}", me.pid, me.started));
        let folder = parent.join(family);
        let made = disk.create_folder(&folder, Access::Private);
        made.map_err(|error| unwritten(to, &error))?;
        Ok(Self {
            disk,
            folder,
            to,
            parent,
            is_published: false,
        })
    }

    /// Adds a file, durably. Its name may contain folders.
    pub(super) fn add(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        let above = path.parent().unwrap_or(&self.folder);
        let add = || {
            self.disk.create_folder(above, Access::Private)?;
            self.disk.create(&path, content, Access::Private)?;
            let inside = |folder: &&Path| folder.starts_with(&self.folder);
            for folder in above.ancestors().take_while(inside) {
                self.disk.sync_folder(folder)?;
            }
            Ok(())
        };
        add().map_err(|error| unwritten(&self.to.join(name), &error))
    }

    /// Renames the folder to its target. Everything in it is durable before (P4).
    pub(super) fn publish(mut self) -> Result<(), Error> {
        let publish = || {
            self.disk.sync_folder(&self.folder)?;
            self.disk.rename(&self.folder, self.to)
        };
        publish().map_err(|error| unwritten(self.to, &error))?;
        self.is_published = true;
        let synced = self.disk.sync_folder(&self.parent);
        synced.map_err(|error| unwritten(self.to, &error))
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = delete_folder(self.disk, &self.folder);
        }
    }
}

/// Deletes drafts whose writers are gone.
fn delete_abandoned(env: &Env, parent: &Path, family: &OsString, me: &Owner) -> io::Result<()> {
    for path in env.disk.list(parent)? {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let Some(writer) = name.strip_prefix(family.as_encoded_bytes()) else {
            continue;
        };
        let writer = std::str::from_utf8(writer).ok();
        let Some((pid, started)) = writer.and_then(|writer| writer.split_once('-')) else {
            continue;
        };
        let (Ok(pid), Ok(started)) = (pid.parse(), started.parse()) else {
            continue;
        };
        let owner = Owner {
            pid,
            started,
            ..me.clone()
        };
        if env.processes.liveness(&owner) == Liveness::Gone {
            delete_folder(&*env.disk, &path)?;
        }
    }
    Ok(())
}

/// Deletes a draft with all its files and folders.
fn delete_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    for path in disk.list(folder)? {
        if path.symlink_metadata().is_ok_and(|it| it.is_dir()) {
            delete_folder(disk, &path)?;
        } else {
            disk.remove(&path)?;
        }
    }
    disk.remove_folder(folder)
}
