//! The names of sessions: `names/NAME.session` is a link to the session's folder.
//!
//! Creating a link is atomic and waits for nobody, so two sessions never get the same name, and a
//! stopped process keeps no other from naming its session. A session's own database also has its
//! name. A link is valid if its session exists, is not in the trash and has that name, or if someone
//! holds the session's lock, because a session gets its name before it exists. Other links were left
//! by processes that were killed; a process that wants the name replaces them.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use segno_core::id::{Name, SessionId};
use segno_core::ports::Disk;

use crate::home::Home;

pub(super) struct Names {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
}

/// What an attempt to reserve a name did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reservation {
    Reserved,
    /// The link leads to another session.
    Taken(SessionId),
    /// Something that is not a link of ours has the name.
    Blocked,
}

impl Names {
    pub(super) fn new(home: &Home) -> Self {
        Self {
            folder: home.names(),
            disk: Arc::clone(home.disk()),
        }
    }

    /// The suffix makes file names of `.` and `..`, too.
    fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(format!("{name}.session"))
    }

    /// Links the name to the session, durably. Repeating it is not an error.
    pub(super) fn reserve(&self, name: &Name, session: SessionId) -> io::Result<Reservation> {
        match symlink(target(session), self.path(name)) {
            Ok(()) => {
                self.disk.sync_folder(&self.folder)?;
                Ok(Reservation::Reserved)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(match self.holder(name) {
                    Some(holder) if holder == session => Reservation::Reserved,
                    Some(holder) => Reservation::Taken(holder),
                    None => Reservation::Blocked,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// The session that the name's link leads to.
    pub(super) fn holder(&self, name: &Name) -> Option<SessionId> {
        let found = std::fs::read_link(self.path(name)).ok()?;
        let session = found.file_name()?.to_str()?.parse().ok()?;
        (found == target(session)).then_some(session)
    }

    /// The sessions of the names that begin like this.
    pub(super) fn with_prefix(&self, prefix: &str) -> BTreeSet<SessionId> {
        let (links, _) = self.list_if(|file| file.starts_with(prefix));
        links.into_iter().map(|(_, session)| session).collect()
    }

    /// Removes the name if it leads to the session.
    pub(super) fn release(&self, name: &Name, session: SessionId) -> io::Result<()> {
        if self.holder(name) != Some(session) {
            return Ok(());
        }
        self.disk.remove(&self.path(name))?;
        self.disk.sync_folder(&self.folder)
    }

    /// Removes an invalid link to `holder`, while `is_invalid` still says so. One process at a time
    /// does that, so that a link that another process made meanwhile stays.
    pub(super) fn reclaim(
        &self,
        name: &Name,
        holder: SessionId,
        is_invalid: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        let lock = self.open_lock()?;
        lock.lock()?;
        if is_invalid() {
            self.release(name, holder)?;
        }
        Ok(())
    }

    /// Whether the links were made: false in a new home, and after someone removed the folder.
    pub(super) fn is_complete(&self) -> bool {
        std::fs::symlink_metadata(self.lock_path()).is_ok()
    }

    /// Says that there is a link for every session.
    pub(super) fn set_complete(&self) -> io::Result<()> {
        self.open_lock().map(drop)
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join(".lock")
    }

    fn open_lock(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(self.lock_path())
    }

    /// All links, and files that are not links of ours.
    pub(super) fn list(&self) -> (Vec<(Name, SessionId)>, Vec<PathBuf>) {
        self.list_if(|_| true)
    }

    fn list_if(&self, is_wanted: impl Fn(&str) -> bool) -> (Vec<(Name, SessionId)>, Vec<PathBuf>) {
        let (mut links, mut others) = (Vec::new(), Vec::new());
        for path in self.disk.list(&self.folder).unwrap_or_default() {
            let file = path.file_name().and_then(|file| file.to_str());
            if file.is_some_and(|file| !is_wanted(file)) {
                continue;
            }
            let name = file.and_then(|file| Name::new(file.strip_suffix(".session")?).ok());
            let holder = name.as_ref().and_then(|name| self.holder(name));
            match (name, holder) {
                (Some(name), Some(holder)) => links.push((name, holder)),
                _ if file == Some(".lock") => {}
                _ => others.push(path),
            }
        }
        (links, others)
    }
}

/// Where a link leads, relative to the folder of names, so that a home can be moved.
fn target(session: SessionId) -> PathBuf {
    Path::new("../sessions").join(session.to_string())
}

#[cfg(test)]
mod tests {
    use segno_core::ports::Access;
    use segno_core::time::Timestamp;

    use super::*;
    use crate::disk::LocalDisk;

    fn names() -> (Names, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
        (Names::new(&home), folder)
    }

    fn session() -> SessionId {
        SessionId::new(Timestamp(1), [1; 10])
    }

    #[test]
    fn links_are_complete_once_that_was_said() {
        let (names, _folder) = names();
        assert!(!names.is_complete());
        names.set_complete().unwrap();
        assert!(names.is_complete());
        names.set_complete().unwrap();
    }

    #[test]
    fn lock_that_is_a_link_is_not_opened() {
        let (names, folder) = names();
        symlink(folder.path().join("elsewhere"), names.lock_path()).unwrap();
        names.set_complete().unwrap_err();
        assert!(std::fs::symlink_metadata(folder.path().join("elsewhere")).is_err());
    }

    #[test]
    fn missing_folder_is_an_error_and_takes_no_name() {
        let (names, _folder) = names();
        let name = Name::new("report").unwrap();
        names.disk.remove_folder(&names.folder).unwrap();
        let error = names.reserve(&name, session()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        names
            .disk
            .create_folder(&names.folder, Access::Private)
            .unwrap();
        let reserved = names.reserve(&name, session()).unwrap();
        assert_eq!(reserved, Reservation::Reserved);
    }
}
