//! The databases of sessions, as this process uses them: one connection that reads and one that
//! writes for each, opened on first use.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use segno_core::id::SessionId;
use segno_core::ports::Clock;
use segno_core::store::Error;

use super::connection::{self, BUSY_TIMEOUT};
use super::owner_lock::OwnerLocks;
use super::writer::Writer;
use crate::ack_marker::AckMarkers;
use crate::home::{Home, io_error};

/// How many databases stay open that nobody uses at the moment (P10).
pub(super) const MAX_IDLE: usize = 32;

/// One session's database.
pub(super) struct SessionDb {
    /// The file that the connections have open.
    file: FileId,
    reader: Mutex<Connection>,
    pub(super) writer: Writer,
}

impl SessionDb {
    pub(super) fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What distinguishes a file from one that replaced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// The open databases.
pub(super) struct SessionDbs {
    home: Home,
    ack_markers: AckMarkers,
    clock: Arc<dyn Clock>,
    locks: Arc<OwnerLocks>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    databases: HashMap<SessionId, (u64, Arc<SessionDb>)>,
    /// Counts the uses, to find the database that was used least recently.
    uses: u64,
}

impl SessionDbs {
    pub(super) fn new(
        home: Home,
        ack_markers: AckMarkers,
        clock: Arc<dyn Clock>,
        locks: Arc<OwnerLocks>,
    ) -> Self {
        Self {
            home,
            ack_markers,
            clock,
            locks,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session's database. `None` if there is none, or if its creation is not committed.
    pub(super) fn get(&self, session: SessionId) -> Result<Option<Arc<SessionDb>>, Error> {
        self.get_within(session, BUSY_TIMEOUT)
    }

    /// Like [`SessionDbs::get`], and waits at most this long for a process that recovers the database.
    pub(super) fn get_within(
        &self,
        session: SessionId,
        patience: Duration,
    ) -> Result<Option<Arc<SessionDb>>, Error> {
        let path = self.home.journal(session);
        let metadata = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.close(session);
                return Ok(None);
            }
            other => other.map_err(|error| io_error(&path, &error))?,
        };
        let file = FileId::of(&metadata);
        if let Some(database) = self.open().get(session, file) {
            return Ok(Some(database));
        }
        // Not while the table is locked: opening one database must not delay the others.
        let Some(reader) = connection::open_reader(&path, patience)? else {
            return Ok(None);
        };
        reader
            .busy_timeout(BUSY_TIMEOUT)
            .map_err(|error| connection::database_error(&path, &error))?;
        let database = Arc::new(SessionDb {
            file,
            reader: Mutex::new(reader),
            writer: self.writer(session),
        });
        let mut open = self.open();
        // Another thread may have been faster; its writer has the queue.
        if let Some(database) = open.get(session, file) {
            return Ok(Some(database));
        }
        open.insert(session, Arc::clone(&database));
        drop(open);
        self.close_idle();
        Ok(Some(database))
    }

    /// Closes databases that nobody uses, beyond the number that may stay open (P10).
    fn close_idle(&self) {
        let mut open = self.open();
        let closed = open.take_idle(|session| self.locks.is_held(session));
        // Not while the table is locked: closing a database takes time.
        drop(open);
        drop(closed);
    }

    /// How many databases are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.open().databases.len()
    }

    /// A writer of its own, for a database that is being created.
    pub(super) fn writer(&self, session: SessionId) -> Writer {
        Writer::new(
            self.home.clone(),
            session,
            self.ack_markers.clone(),
            Arc::clone(&self.clock),
        )
    }

    /// Keeps the writer of a database that was just created, because its run continues to write.
    pub(super) fn adopt(&self, session: SessionId, writer: Writer) -> Result<(), Error> {
        let path = self.home.journal(session);
        let metadata = std::fs::symlink_metadata(&path).map_err(|error| io_error(&path, &error))?;
        let reader = connection::open_reader(&path, BUSY_TIMEOUT)?;
        if let Some(reader) = reader {
            let database = Arc::new(SessionDb {
                file: FileId::of(&metadata),
                reader: Mutex::new(reader),
                writer,
            });
            self.open().insert(session, database);
            self.close_idle();
        }
        Ok(())
    }

    pub(super) fn close(&self, session: SessionId) {
        self.open().databases.remove(&session);
    }
}

impl Open {
    /// The open database of a session, unless its file was destroyed or replaced since.
    fn get(&mut self, session: SessionId, file: FileId) -> Option<Arc<SessionDb>> {
        self.uses += 1;
        let (used, database) = self.databases.get_mut(&session)?;
        if database.file != file {
            return None;
        }
        *used = self.uses;
        Some(Arc::clone(database))
    }

    fn insert(&mut self, session: SessionId, database: Arc<SessionDb>) {
        self.databases.insert(session, (self.uses, database));
    }

    /// Removes the databases that were used least recently, for the caller to close. Those in use
    /// and those with a run in this process stay open.
    fn take_idle(&mut self, is_held: impl Fn(SessionId) -> bool) -> Vec<Arc<SessionDb>> {
        let mut idle: Vec<_> = self
            .databases
            .iter()
            .filter(|(session, (_, database))| {
                Arc::strong_count(database) == 1 && !is_held(**session)
            })
            .map(|(session, (used, _))| (*used, *session))
            .collect();
        idle.sort_unstable();
        let surplus = idle.len().saturating_sub(MAX_IDLE);
        let surplus = idle.into_iter().take(surplus);
        surplus
            .filter_map(|(_, session)| Some(self.databases.remove(&session)?.1))
            .collect()
    }
}
