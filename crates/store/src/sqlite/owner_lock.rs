//! The lock that the owner of a session holds while it lives.
//!
//! Every change of ownership needs this lock: creating a session, acquiring its lease, moving it to
//! the trash and back. The kernel releases it when the process ends, however it ends, so whether a
//! run is alive needs no clock and no guess about process ids (P15). It works across containers that
//! share the home.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use segno_core::id::SessionId;
use segno_core::journal::Run;
use segno_core::lease::OwnerLock;

use crate::home::Home;

/// The locks that this store holds.
pub(super) struct OwnerLocks {
    home: Home,
    /// Without locks on this file system, every state is unknown.
    is_reliable: bool,
    held: Mutex<HashMap<SessionId, HeldLock>>,
}

struct HeldLock {
    /// Open while the lock is held.
    _file: File,
    /// The run that holds it; none while the lease is being acquired.
    run: Option<Run>,
}

/// What an attempt to lock a session did.
pub(super) enum Attempt<'a> {
    /// This store holds the lock now, until the guard is dropped.
    Locked(LockGuard<'a>),
    /// A run of this store holds the lock already.
    AlreadyHeld,
    /// Another process, another store of this process, or another operation of this store holds
    /// it.
    Busy,
}

/// Holds the lock of a session during one operation. Dropping it unlocks the session, also when the
/// operation's future is dropped before its end.
pub(super) struct LockGuard<'a> {
    locks: &'a OwnerLocks,
    session: SessionId,
    is_kept: bool,
}

impl LockGuard<'_> {
    /// Keeps the lock for a run that this process continues with.
    pub(super) fn keep(mut self, run: Run) {
        self.locks.assign(self.session, run);
        self.is_kept = true;
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.locks.unlock(self.session);
        }
    }
}

impl OwnerLocks {
    pub(super) fn new(home: Home) -> Self {
        Self {
            is_reliable: home.network_file_system().is_none(),
            home,
            held: Mutex::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, HeldLock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path(&self, session: SessionId) -> PathBuf {
        self.home.session_folder(session).join("lock")
    }

    /// Tries to lock a session whose folder exists. Does not wait.
    ///
    /// A file system without locks refuses every attempt with an error. The session is used without
    /// one there: the lease's expiry and the run number remain.
    pub(super) fn try_lock(&self, session: SessionId) -> io::Result<Attempt<'_>> {
        let mut held = self.held();
        match held.get(&session) {
            Some(HeldLock { run: Some(_), .. }) => return Ok(Attempt::AlreadyHeld),
            Some(HeldLock { run: None, .. }) => return Ok(Attempt::Busy),
            None => {}
        }
        let path = self.path(session);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Busy),
            Err(TryLockError::Error(error)) if !is_unsupported(&error) => return Err(error),
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // The session may have been destroyed, and its lock file replaced, in between.
        if !is_same_file(&file, &path) {
            return Ok(Attempt::Busy);
        }
        let lock = HeldLock {
            _file: file,
            run: None,
        };
        held.insert(session, lock);
        Ok(Attempt::Locked(LockGuard {
            locks: self,
            session,
            is_kept: false,
        }))
    }

    /// Whether this store holds the lock.
    pub(super) fn is_held(&self, session: SessionId) -> bool {
        self.held().contains_key(&session)
    }

    /// Says which run of this process the lock is held for from now on.
    pub(super) fn assign(&self, session: SessionId, run: Run) {
        if let Some(lock) = self.held().get_mut(&session) {
            lock.run = Some(run);
        }
    }

    /// Releases the lock if it is held for this run, and not for a newer one of this process.
    pub(super) fn unlock_run(&self, session: SessionId, run: Run) {
        let mut held = self.held();
        if held.get(&session).is_some_and(|lock| lock.run == Some(run)) {
            held.remove(&session);
        }
    }

    pub(super) fn unlock(&self, session: SessionId) {
        self.held().remove(&session);
    }

    /// Whether anyone holds the lock, this store included. Nobody holds a missing lock.
    pub(super) fn state(&self, session: SessionId) -> OwnerLock {
        if self.held().contains_key(&session) {
            return OwnerLock::Held;
        }
        if !self.is_reliable {
            return OwnerLock::Unknown;
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(self.path(session));
        match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => OwnerLock::Free,
            Err(_) => OwnerLock::Unknown,
            // A shared lock for a moment does not disturb other readers, and an acquirer tries again.
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => OwnerLock::Free,
                Err(TryLockError::WouldBlock) => OwnerLock::Held,
                Err(TryLockError::Error(_)) => OwnerLock::Unknown,
            },
        }
    }
}

/// Whether an error of a lock says that the file system has none.
fn is_unsupported(error: &io::Error) -> bool {
    let number = rustix::io::Errno::from_io_error(error);
    matches!(
        number,
        Some(rustix::io::Errno::NOLCK | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP)
    )
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
