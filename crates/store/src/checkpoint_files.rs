//! Checkpoints as files: `checkpoints/<session>/<checkpoint>.json`, two lines each.
//!
//! A file that has the name of a checkpoint is complete ([`replace_file`]). The folder of a session
//! is durable before its first checkpoint has a name. The key that seals checkpoints is created with
//! the first one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::Pid;
use segno_core::checkpoint::{Broken, Manifest, VERSION};
use segno_core::fault::{Point, point};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::ports::{Access, Disk, Stage, replace_file};
use segno_core::store::{Error, Finding, Severity};

use crate::home::{Home, io_error};
use crate::seal_key::SealKey;

/// The longest checkpoint that is read.
pub(crate) const LONGEST: u64 = 64 * 1024 * 1024;

/// The checkpoints of a home folder.
pub struct CheckpointFiles {
    pub(crate) root: PathBuf,
    pub(crate) key: SealKey,
    pub(crate) quarantine: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
}

impl CheckpointFiles {
    pub fn new(home: &Home) -> Self {
        Self {
            root: home.checkpoints(),
            key: SealKey::new(home),
            quarantine: Self::quarantine(home),
            disk: Arc::clone(home.disk()),
        }
    }

    /// The folder for files that are no usable checkpoints. Sweeps keep the snapshots that they
    /// name.
    pub fn quarantine(home: &Home) -> PathBuf {
        home.backups().join("quarantine")
    }

    fn path(&self, session: SessionId, checkpoint: CheckpointId) -> PathBuf {
        self.root
            .join(session.to_string())
            .join(format!("{checkpoint}.json"))
    }

    /// Stores a checkpoint. `fresh` becomes the key of this installation if it has none.
    pub(crate) fn put(&self, manifest: &Manifest, fresh: &[u8; 32]) -> Result<(), Error> {
        let key = self.key.get_or_create(fresh)?;
        let path = self.path(manifest.session, manifest.id);
        self.write(&path, manifest.to_text(&key).as_bytes())
            .map_err(|error| io_error(&path, &error))
    }

    fn write(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.root);
        if self.remove_stale_drafts(folder)? == FolderState::Unknown {
            self.disk.create_folder(folder, Access::Private)?;
            self.disk.sync_folder(&self.root)?;
        }
        // Two processes may write the same checkpoint at once, and must not finish each other's
        // draft.
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        let reached = |stage| match stage {
            Stage::Drafted => point(Point::CheckpointBeforeRename),
            Stage::Renamed => point(Point::CheckpointAfterRename),
        };
        replace_file(&*self.disk, &draft, path, text, Access::Private, reached)
    }

    /// Removes the drafts of dead processes. Returns whether the folder is known to be durable.
    fn remove_stale_drafts(&self, folder: &Path) -> io::Result<FolderState> {
        let mut known = FolderState::Unknown;
        for file in self.disk.list(folder)? {
            if is_checkpoint(&file) {
                // P4: the process that renamed it had made the folder durable before.
                known = FolderState::Durable;
            } else if writer_of(&file)
                .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
            {
                self.disk.remove(&file)?;
            }
        }
        Ok(known)
    }

    /// All checkpoints, oldest first.
    pub(crate) fn list(
        &self,
        session: Option<SessionId>,
    ) -> Result<Vec<Result<Manifest, Error>>, Error> {
        let key = self.key.get()?;
        let files = self.files(session)?;
        let read = |file: &PathBuf| self.read(file, key.as_ref());
        let mut kept: Vec<_> = files.iter().map(read).collect();
        // Ids sort by creation time; unreadable checkpoints come first.
        kept.sort_by_key(|manifest| manifest.as_ref().ok().map(|manifest| manifest.id));
        Ok(kept)
    }

    /// The ids of all checkpoints, oldest first. Files with other names cannot be read anyway.
    pub(crate) fn list_ids(
        &self,
        session: Option<SessionId>,
    ) -> Result<Vec<(SessionId, CheckpointId)>, Error> {
        let name = |file: &PathBuf| {
            let session = file.parent()?.file_name()?.to_str()?.parse().ok()?;
            let checkpoint = file.file_stem()?.to_str()?.parse().ok()?;
            (*file == self.path(session, checkpoint)).then_some((session, checkpoint))
        };
        let mut names: Vec<_> = self.files(session)?.iter().filter_map(name).collect();
        names.sort_by_key(|(_, checkpoint)| *checkpoint);
        Ok(names)
    }

    pub(crate) fn get(
        &self,
        session: SessionId,
        checkpoint: CheckpointId,
    ) -> Result<Option<Manifest>, Error> {
        let path = self.path(session, checkpoint);
        match self.disk.read(&path, LONGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => self.parse(&path, read, self.key.get()?.as_ref()).map(Some),
        }
    }

    /// Every file that should be a checkpoint.
    pub(crate) fn files(&self, session: Option<SessionId>) -> Result<Vec<PathBuf>, Error> {
        let folders = match session {
            Some(session) => vec![self.root.join(session.to_string())],
            None => self.list_folder(&self.root)?,
        };
        let mut files = Vec::new();
        for folder in folders {
            files.extend(
                self.list_folder(&folder)?
                    .into_iter()
                    .filter(|file| is_checkpoint(file)),
            );
        }
        Ok(files)
    }

    /// Reports checkpoints that cannot be read.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        let found = match self.list(None) {
            Ok(kept) => kept.into_iter().filter_map(Result::err).collect(),
            Err(error) => vec![error],
        };
        let finding = |error: Error| Finding {
            session: None,
            object: self.root.display().to_string(),
            problem: error.to_string(),
            severity: Severity::Damage,
        };
        let mut findings: Vec<Finding> = found.into_iter().map(finding).collect();
        findings.extend(self.notices());
        findings
    }

    pub(crate) fn list_folder(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let listed = self.disk.list(folder);
        listed.map_err(|error| io_error(folder, &error))
    }

    fn read(&self, file: &Path, key: Option<&[u8; 32]>) -> Result<Manifest, Error> {
        self.parse(file, self.disk.read(file, LONGEST), key)
    }

    /// Parses and verifies the bytes of a checkpoint file.
    pub(crate) fn parse(
        &self,
        file: &Path,
        bytes: io::Result<Vec<u8>>,
        key: Option<&[u8; 32]>,
    ) -> Result<Manifest, Error> {
        let damaged = |reason: String| Error::Damaged {
            object: format!("checkpoint {}", file.display()),
            reason,
        };
        let bytes = bytes.map_err(|error| io_error(file, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        let key = key.ok_or_else(|| damaged("the key that signed it is missing".to_owned()))?;
        let manifest = Manifest::from_text(&text, key).map_err(|broken| match broken {
            Broken::Newer(found) => Error::Newer {
                place: file.display().to_string(),
                found,
                known: VERSION,
            },
            other => damaged(other.to_string()),
        })?;
        if file != self.path(manifest.session, manifest.id) {
            return Err(damaged(format!("it is checkpoint {}", manifest.id)));
        }
        Ok(manifest)
    }

    pub(crate) fn delete(&self, session: SessionId, checkpoint: CheckpointId) -> Result<(), Error> {
        let path = self.path(session, checkpoint);
        let folder = path.parent().unwrap_or(&self.root);
        let removed = self.disk.remove(&path).and_then(|()| {
            point(Point::CheckpointAfterDelete);
            if folder.is_dir() {
                self.disk.sync_folder(folder)?;
            }
            Ok(())
        });
        removed.map_err(|error| io_error(&path, &error))
    }
}

/// Whether a session's folder is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderState {
    /// Its name survives a power cut.
    Durable,
    /// It may be missing, or be lost in a power cut.
    Unknown,
}

pub(crate) fn is_checkpoint(file: &Path) -> bool {
    let extension = file.extension();
    extension.is_some_and(|extension| extension == "json")
}

/// The process that wrote a draft, if the file is one.
fn writer_of(file: &Path) -> Option<Pid> {
    let name = file.file_name()?.to_str()?.strip_suffix(".draft")?;
    Pid::from_raw(name.rsplit('.').next()?.parse().ok()?)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests damage files and plant others"
)]
mod tests {
    use std::fs;

    use segno_core::time::Timestamp;
    use segno_testkit::journal::checkpoint;
    use tempfile::TempDir;

    use super::*;
    use crate::LocalDisk;

    const KEY: [u8; 32] = [7; 32];

    fn files() -> (TempDir, CheckpointFiles) {
        let folder = TempDir::new().unwrap();
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
        let files = CheckpointFiles::new(&home);
        (folder, files)
    }

    fn manifest(session: u8, at: i64) -> Manifest {
        checkpoint(SessionId::new(Timestamp(0), [session; 10]), Timestamp(at))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }

    #[test]
    fn key_of_the_first_checkpoint_stays() {
        let (_folder, files) = files();
        let home = files.key.file.parent().unwrap().to_owned();
        // Left behind by a killed process, and by nobody.
        fs::write(home.join("seal.1.draft"), b"x").unwrap();
        fs::write(home.join("other.draft"), b"x").unwrap();
        assert_eq!(files.key.get(), Ok(None));
        files.put(&manifest(1, 1), &KEY).unwrap();
        files.put(&manifest(1, 2), &[8; 32]).unwrap();
        assert_eq!(files.key.get(), Ok(Some(KEY)));
        assert_eq!(
            files.key.get_or_create(&[9; 32]),
            Ok(KEY),
            "another process was first"
        );
        assert_eq!(files.list(None).unwrap().len(), 2);
        let names = names(&home);
        let left = |name: &&String| name.starts_with("seal.") || name.contains(".draft");
        let left: Vec<_> = names.iter().filter(left).collect();
        assert_eq!(left, ["other.draft", "seal.key"]);
    }

    #[test]
    fn damaged_or_missing_key_is_named() {
        let (_folder, files) = files();
        let taken = manifest(1, 1);
        files.put(&taken, &KEY).unwrap();
        let whole = fs::read(&files.key.file).unwrap();
        // Its copy would take its place.
        fs::remove_file(&files.key.copy).unwrap();
        let longer = [&whole[..], b"x"].concat();
        let long = [&whole[..], &whole].concat();
        let mut altered = whole.clone();
        altered[3] ^= 1;
        for key in [&whole[..63], &longer, &long, &altered, b""] {
            fs::write(&files.key.file, key).unwrap();
            let refused = files.get(taken.session, taken.id);
            assert!(
                matches!(&refused, Err(Error::Damaged { object, .. }) if object.ends_with("seal.key")),
                "{refused:?}"
            );
            assert_eq!(files.put(&taken, &KEY).unwrap_err(), refused.unwrap_err());
        }
        fs::remove_file(&files.key.file).unwrap();
        let refused = files.get(taken.session, taken.id).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("the key that signed it is missing")
        );
    }

    #[test]
    fn checkpoint_under_another_name_is_refused() {
        let (_folder, files) = files();
        let (taken, other) = (manifest(1, 1), manifest(1, 2));
        files.put(&taken, &KEY).unwrap();
        let path = files.path(other.session, other.id);
        fs::copy(files.path(taken.session, taken.id), &path).unwrap();
        let refused = files.get(other.session, other.id).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains(&format!("it is checkpoint {}", taken.id))
        );
        assert_eq!(files.get(taken.session, taken.id), Ok(Some(taken.clone())));
        let missing = manifest(1, 3);
        assert_eq!(files.get(missing.session, missing.id), Ok(None));
        assert_eq!(files.examine().len(), 1);
        fs::remove_file(path).unwrap();
        assert_eq!(files.examine(), []);
    }

    #[test]
    fn newer_format_is_not_damage() {
        let (_folder, files) = files();
        let newer = Manifest {
            segno_checkpoint: VERSION + 1,
            ..manifest(1, 1)
        };
        files.put(&newer, &KEY).unwrap();
        let refused = files.get(newer.session, newer.id).unwrap_err();
        let is_newer = matches!(refused, Error::Newer { found, known, .. }
            if (found, known) == (VERSION + 1, VERSION));
        assert!(is_newer, "{refused:?}");
    }

    #[test]
    fn checkpoints_are_listed_by_age_and_session() {
        let (_folder, files) = files();
        let [newest, oldest, other] = [manifest(1, 9), manifest(1, 1), manifest(2, 5)];
        for manifest in [&newest, &oldest, &other] {
            files.put(manifest, &KEY).unwrap();
        }
        let folder = files.root.join(newest.session.to_string());
        fs::write(folder.join("broken.json"), b"x").unwrap();
        fs::write(folder.join("notes.txt"), b"x").unwrap();
        let ids = |session: Option<SessionId>| {
            let all = files.list_ids(session).unwrap();
            all.into_iter()
                .map(|(_, checkpoint)| checkpoint)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(None), [oldest.id, other.id, newest.id]);
        assert_eq!(ids(Some(newest.session)), [oldest.id, newest.id]);
        let listed = files.list(None).unwrap();
        let read: Vec<_> = listed.iter().map(|it| it.as_ref().ok()).collect();
        assert_eq!(read, [None, Some(&oldest), Some(&other), Some(&newest)]);
        assert_eq!(files.examine().len(), 1);
        files.delete(oldest.session, oldest.id).unwrap();
        assert_eq!(ids(None), [other.id, newest.id]);
    }

    #[test]
    fn only_drafts_of_dead_processes_are_removed() {
        let (_folder, files) = files();
        let taken = manifest(1, 1);
        let folder = files.root.join(taken.session.to_string());
        fs::create_dir(&folder).unwrap();
        let alive = format!("x.{}.draft", std::process::id());
        for name in ["x.2147483646.draft", &alive, "x.draft"] {
            fs::write(folder.join(name), b"x").unwrap();
        }
        assert_eq!(
            files.remove_stale_drafts(&folder).unwrap(),
            FolderState::Unknown
        );
        files.put(&taken, &KEY).unwrap();
        let mut expected = [format!("{}.json", taken.id), alive, "x.draft".to_owned()];
        expected.sort();
        assert_eq!(names(&folder), expected);
        assert_eq!(
            files.remove_stale_drafts(&folder).unwrap(),
            FolderState::Durable
        );
    }
}
