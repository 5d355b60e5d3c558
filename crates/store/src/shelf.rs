//! Checkpoints in a folder: `checkpoints/<session>/<checkpoint>.json`, two lines each.
//!
//! A checkpoint is written beside its place, made durable, renamed, and the folder made durable, in
//! that order: what has its name is whole. The folder of a session is durable before the first one in
//! it has its name. The key that seals them is made with the first one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::Pid;
use segno_core::checkpoint::{Broken, Manifest, VERSION};
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::ports::{Access, Disk};
use segno_core::store::{Error, Finding, Severity};

use crate::home::{Home, trouble};

/// The longest checkpoint that is read.
const LONGEST: u64 = 64 * 1024 * 1024;

/// The checkpoints of a home.
pub(crate) struct Shelf {
    root: PathBuf,
    key: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Shelf {
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            root: home.checkpoints(),
            key: home.root().join("seal.key"),
            disk: Arc::clone(home.disk()),
        }
    }

    fn place(&self, session: SessionId, checkpoint: CheckpointId) -> PathBuf {
        self.root
            .join(session.to_string())
            .join(format!("{checkpoint}.json"))
    }

    /// The key of this installation, if it has one.
    fn key(&self) -> Result<Option<[u8; 32]>, Error> {
        let damaged = || Error::Damaged {
            object: self.key.display().to_string(),
            reason: "it is not the key that was written here, and checkpoints cannot be told from \
                     those of others without it; put it back from a backup of this folder"
                .to_owned(),
        };
        match self.disk.read(&self.key, 64) {
            Ok(bytes) => match bytes.split_first_chunk() {
                Some((key, check)) if check == Digest::of(key).as_bytes() => Ok(Some(*key)),
                _ => Err(damaged()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(damaged()),
            Err(error) => Err(trouble(&self.key, &error)),
        }
    }

    /// Keeps one. `fresh` becomes the key of this installation if it has none.
    pub(crate) fn keep(&self, manifest: &Manifest, fresh: &[u8; 32]) -> Result<(), Error> {
        let key = match self.key()? {
            Some(key) => key,
            None => self.make_key(fresh)?,
        };
        let place = self.place(manifest.session, manifest.id);
        self.write(&place, manifest.to_text(&key).as_bytes())
            .map_err(|error| trouble(&place, &error))
    }

    /// Several may make it at once: the first counts for all. It is whole when it has its name.
    fn make_key(&self, fresh: &[u8; 32]) -> Result<[u8; 32], Error> {
        let folder = self.key.parent().unwrap_or(&self.root);
        let draft = folder.join(format!("seal.{}.draft", Digest::of(fresh)));
        let made = || {
            // Its digest says whether it is still the same.
            let sealed = [&fresh[..], Digest::of(fresh).as_bytes()].concat();
            self.disk.create(&draft, &sealed, Access::Private)?;
            point(Point::SealBeforePublish);
            self.disk.publish(&draft, &self.key)?;
            point(Point::SealAfterPublish);
            Ok(())
        };
        match made().map_err(|error: io::Error| (error.kind(), error)) {
            // Another one was first, and may have cleared away the draft.
            Ok(()) | Err((io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound, _)) => {}
            Err((_, error)) => {
                let _ = self.disk.remove(&draft);
                return Err(trouble(&self.key, &error));
            }
        }
        let synced = self.disk.sync_folder(folder);
        synced.map_err(|error| trouble(&self.key, &error))?;
        self.clear_drafts(folder)?;
        let gone = || trouble(&self.key, &io::ErrorKind::NotFound.into());
        self.key()?.ok_or_else(gone)
    }

    /// Nobody needs a draft of the key once there is one.
    fn clear_drafts(&self, folder: &Path) -> Result<(), Error> {
        for file in self.list(folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("seal.") && name.ends_with(".draft") {
                let removed = self.disk.remove(&file);
                removed.map_err(|error| trouble(&file, &error))?;
            }
        }
        Ok(())
    }

    fn write(&self, place: &Path, text: &[u8]) -> io::Result<()> {
        let folder = place.parent().unwrap_or(&self.root);
        if self.sweep_drafts(folder)? == Folder::Unproven {
            self.disk.create_folder(folder, Access::Private)?;
            self.disk.sync_folder(&self.root)?;
        }
        // Two processes may keep the same one at once, and must not finish each other's draft.
        let draft = place.with_extension(format!("{}.draft", std::process::id()));
        self.disk.remove(&draft)?;
        self.disk.create(&draft, text, Access::Private)?;
        point(Point::CheckpointBeforeRename);
        self.disk.rename(&draft, place)?;
        point(Point::CheckpointAfterRename);
        self.disk.sync_folder(folder)
    }

    /// Removes the drafts of processes that are gone, and tells what is known of the folder.
    fn sweep_drafts(&self, folder: &Path) -> io::Result<Folder> {
        let mut known = Folder::Unproven;
        for file in self.disk.list(folder)? {
            if is_checkpoint(&file) {
                // P4: whoever gave it its name had made the folder durable before.
                known = Folder::Durable;
            } else if writer_of(&file)
                .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
            {
                self.disk.remove(&file)?;
            }
        }
        Ok(known)
    }

    /// All of them, oldest first.
    pub(crate) fn kept(
        &self,
        session: Option<SessionId>,
    ) -> Result<Vec<Result<Manifest, Error>>, Error> {
        let key = self.key()?;
        let files = self.files(session)?;
        let read = |file: &PathBuf| self.read(file, key.as_ref());
        let mut kept: Vec<_> = files.iter().map(read).collect();
        // Ids sort by the time of their making; what cannot be read comes first.
        kept.sort_by_key(|manifest| manifest.as_ref().ok().map(|manifest| manifest.id));
        Ok(kept)
    }

    /// What they are called, oldest first. What has no name that is ours cannot be read anyway.
    pub(crate) fn names(
        &self,
        session: Option<SessionId>,
    ) -> Result<Vec<(SessionId, CheckpointId)>, Error> {
        let name = |file: &PathBuf| {
            let session = file.parent()?.file_name()?.to_str()?.parse().ok()?;
            let checkpoint = file.file_stem()?.to_str()?.parse().ok()?;
            (*file == self.place(session, checkpoint)).then_some((session, checkpoint))
        };
        let mut names: Vec<_> = self.files(session)?.iter().filter_map(name).collect();
        names.sort_by_key(|(_, checkpoint)| *checkpoint);
        Ok(names)
    }

    /// One of them.
    pub(crate) fn one(
        &self,
        session: SessionId,
        checkpoint: CheckpointId,
    ) -> Result<Option<Manifest>, Error> {
        let place = self.place(session, checkpoint);
        match self.disk.read(&place, LONGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => self.opened(&place, read, self.key()?.as_ref()).map(Some),
        }
    }

    /// Every file that must be a checkpoint.
    fn files(&self, session: Option<SessionId>) -> Result<Vec<PathBuf>, Error> {
        let folders = match session {
            Some(session) => vec![self.root.join(session.to_string())],
            None => self.list(&self.root)?,
        };
        let mut files = Vec::new();
        for folder in folders {
            files.extend(
                self.list(&folder)?
                    .into_iter()
                    .filter(|file| is_checkpoint(file)),
            );
        }
        Ok(files)
    }

    /// Checkpoints that cannot be read.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        let found = match self.kept(None) {
            Ok(kept) => kept.into_iter().filter_map(Result::err).collect(),
            Err(error) => vec![error],
        };
        let finding = |error: Error| Finding {
            session: None,
            object: self.root.display().to_string(),
            problem: error.to_string(),
            severity: Severity::Damage,
        };
        found.into_iter().map(finding).collect()
    }

    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let listed = self.disk.list(folder);
        listed.map_err(|error| trouble(folder, &error))
    }

    fn read(&self, file: &Path, key: Option<&[u8; 32]>) -> Result<Manifest, Error> {
        self.opened(file, self.disk.read(file, LONGEST), key)
    }

    /// What was read from a file, if it proves itself.
    fn opened(
        &self,
        file: &Path,
        bytes: io::Result<Vec<u8>>,
        key: Option<&[u8; 32]>,
    ) -> Result<Manifest, Error> {
        let damaged = |reason: String| Error::Damaged {
            object: format!("checkpoint {}", file.display()),
            reason,
        };
        let bytes = bytes.map_err(|error| trouble(file, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        let key = key.ok_or_else(|| damaged("the key that sealed it is gone".to_owned()))?;
        let manifest = Manifest::from_text(&text, key).map_err(|broken| match broken {
            Broken::Newer(found) => Error::Newer {
                place: file.display().to_string(),
                found,
                known: VERSION,
            },
            other => damaged(other.to_string()),
        })?;
        if file != self.place(manifest.session, manifest.id) {
            return Err(damaged(format!("it is checkpoint {}", manifest.id)));
        }
        Ok(manifest)
    }

    pub(crate) fn forget(&self, session: SessionId, checkpoint: CheckpointId) -> Result<(), Error> {
        let place = self.place(session, checkpoint);
        let folder = place.parent().unwrap_or(&self.root);
        let removed = self.disk.remove(&place).and_then(|()| {
            point(Point::CheckpointAfterForget);
            if folder.is_dir() {
                self.disk.sync_folder(folder)?;
            }
            Ok(())
        });
        removed.map_err(|error| trouble(&place, &error))
    }
}

/// What is known of a session's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folder {
    /// Its name survives a power cut.
    Durable,
    /// It may not be there, or only until the power goes.
    Unproven,
}

fn is_checkpoint(file: &Path) -> bool {
    let extension = file.extension();
    extension.is_some_and(|extension| extension == "json")
}

/// The process that wrote a draft, if the file is one.
fn writer_of(file: &Path) -> Option<Pid> {
    let name = file.file_name()?.to_str()?.strip_suffix(".draft")?;
    Pid::from_raw(name.rsplit('.').next()?.parse().ok()?)
}
