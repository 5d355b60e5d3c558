//! Sessions in an SQLite database, for one machine and any number of processes on it.
//!
//! One connection per process writes: the caller that gets it commits all queued batches in one
//! transaction ([`writer`]). The first write opens it. Correctness comes from the transaction, not
//! from there being one process: run and head are compared inside it (P3). Readers have a connection
//! of their own and never wait.

mod commit;
mod connection;
mod examine;
mod read;
mod row;
mod schema;
mod trash;
mod write;
mod writer;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::id::{CheckpointId, Name, SessionId};
use segno_core::journal::{Head, JournalEvent, Record, Run, Seq};
use segno_core::lease::{Lease, Owner};
use segno_core::ports::{Access, Clock};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::store::{
    Batch, Blobs, CachedState, Checkpoints, DiskSpace, Error, Examine, Finding, Inbox,
    InboxMessage, Journal, Leases, NewSession, Reply, Sessions, Swept, Trash, TrashedSession,
};
use segno_core::time::Timestamp;

use crate::ack_marker::{AckMarker, AckMarkers, MarkerChange};
use crate::blobs::BlobFolder;
use crate::checkpoint_files::CheckpointFiles;
use crate::home::{self, Home};
use writer::Writer;

/// With less free space than this, no database can be opened.
const MIN_FREE: usize = 256 * 1024;

/// The longest write-ahead log that is copied before SQLite discards it.
const MAX_SAVED_LOG: u64 = 256 * 1024 * 1024;

/// A store in a home folder.
pub struct Sqlite {
    home: Home,
    clock: Arc<dyn Clock>,
    reader: Mutex<Connection>,
    writer: Writer,
    blobs: BlobFolder,
    checkpoint_files: CheckpointFiles,
    ack_markers: AckMarkers,
    /// The last field, so that it is dropped after the database is closed.
    restore_reserve: Option<RestoreReserve>,
}

impl Sqlite {
    /// Opens the store of `home`, and migrates an older one first.
    pub fn open(home: Home, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let opened = Self::try_open(home.clone(), Arc::clone(&clock));
        // Even reading needs some disk space, for SQLite's index of its log.
        let is_low = home.free() < MIN_FREE;
        match opened {
            Err(Error::DiskFull { .. } | Error::Unavailable { .. })
                if is_low && home.use_reserve() =>
            {
                let mut opened = Self::try_open(home.clone(), clock)?;
                opened.restore_reserve = Some(RestoreReserve(home));
                Ok(opened)
            }
            Err(Error::Unavailable { place, .. }) if is_low => Err(Error::DiskFull { place }),
            other => other,
        }
    }

    fn try_open(home: Home, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let path = home.database();
        let ack_markers = AckMarkers::new(&home);
        create_database_file(&home, &ack_markers)?;
        let mut reading = connection::open(&path)?;
        schema::prepare(&mut reading, &home)?;
        home.fill_reserve();
        connection::set_read_only(&reading, &path)?;
        Ok(Self {
            writer: Writer::new(home.clone(), ack_markers.clone(), Arc::clone(&clock)),
            reader: Mutex::new(reading),
            blobs: BlobFolder::new(&home, Arc::clone(&clock)),
            checkpoint_files: CheckpointFiles::new(&home),
            ack_markers,
            clock,
            home,
            restore_reserve: None,
        })
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&read::Reader<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let connection = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = read::Reader {
            connection: &connection,
            ack_markers: &self.ack_markers,
            now: self.clock.now(),
            lost: Cell::new(false),
        };
        let answer = query(&reader);
        if reader.lost.get() {
            self.save_log();
        }
        answer
    }

    /// Copies the write-ahead log before SQLite discards it: it may still contain what SQLite could
    /// not read.
    fn save_log(&self) {
        let disk = self.home.disk();
        let log = self.home.root().join("segno.db-wal");
        if let Ok(bytes) = disk.read(&log, MAX_SAVED_LOG)
            && !bytes.is_empty()
        {
            let name = format!("lost-{}.wal", Digest::of(&bytes).short());
            let _ = disk.create(&self.home.backups().join(name), &bytes, Access::Private);
        }
    }
}

/// Restores the disk reserve after it was used only to open a database on a full disk.
struct RestoreReserve(Home);

impl Drop for RestoreReserve {
    fn drop(&mut self) {
        self.0.restore_reserve();
    }
}

/// Creates the database's file if there is none, private from the start: SQLite would apply the
/// user's umask, and give its log the mode of the database. If there were sessions before, a
/// missing database is damage, and a new one would hide that.
fn create_database_file(home: &Home, ack_markers: &AckMarkers) -> Result<(), Error> {
    let path = home.database();
    let is_empty = || std::fs::metadata(&path).map_or(true, |metadata| metadata.len() == 0);
    if !is_empty() {
        return Ok(());
    }
    // In this order: a marker is written after the database.
    let (marked, _) = ack_markers.list();
    if is_empty() && !marked.is_empty() {
        return Err(Error::Damaged {
            object: format!("the database {}", path.display()),
            reason: format!(
                "it is missing, and heads/ has markers of {} in it; restore it from a backup, or move {} away to start empty",
                if marked.len() == 1 {
                    "1 session".to_owned()
                } else {
                    format!("{} sessions", marked.len())
                },
                home.root().display()
            ),
        });
    }
    match home.disk().create(&path, &[], Access::Private) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(home::io_error(&path, &error))
        }
        _ => Ok(()),
    }
}

impl Sessions for Sqlite {
    fn create(&self, new: NewSession) -> Reply<'_, Lease> {
        Box::pin(async move {
            // No new session is started with the reserve, which is meant for running ones.
            if self.home.disk_space() == DiskSpace::ReserveOnly {
                let place = self.home.root().display().to_string();
                return Err(Error::DiskFull { place });
            }
            point(Point::SessionBeforeCreate);
            let (now, id, head) = (self.clock.now(), new.id, new.batch.head());
            let made = self
                .writer
                .write(MarkerChange::Write(id, head), move |tx| {
                    write::create(tx, &new, now)
                })
                .await;
            point(Point::SessionAfterCreate);
            made.map(|(lease, _)| lease)
        })
    }

    fn summary(&self, session: SessionId) -> Reply<'_, Summary> {
        Box::pin(async move { self.read(|reader| reader.summary(session)) })
    }

    fn list(&self) -> Reply<'_, Vec<Result<Summary, Error>>> {
        Box::pin(async move { self.read(|reader: &read::Reader<'_>| reader.list()) })
    }
}

impl Trash for Sqlite {
    fn discard(&self, session: SessionId, seen: Option<Lease>) -> Reply<'_, ()> {
        Box::pin(async move {
            let marked = matches!(self.ack_markers.read(session), AckMarker::Acknowledged(_));
            let now = self.clock.now();
            self.writer
                .write(MarkerChange::Unchanged, move |tx| {
                    trash::discard(tx, session, seen.as_ref(), marked, now)
                })
                .await?;
            Ok(())
        })
    }

    fn list_trash(&self) -> Reply<'_, Vec<Result<TrashedSession, Error>>> {
        Box::pin(async move { self.read(|reader: &read::Reader<'_>| reader.discarded()) })
    }

    fn restore(&self, session: SessionId, name: Option<Name>) -> Reply<'_, ()> {
        Box::pin(async move {
            self.writer
                .write(MarkerChange::Unchanged, move |tx| {
                    trash::restore(tx, session, name.as_ref())
                })
                .await?;
            Ok(())
        })
    }

    fn destroy(&self, session: SessionId) -> Reply<'_, ()> {
        Box::pin(async move {
            if !self.read(|reader| trash::is_discarded(reader.connection, session))? {
                return Err(Error::NoSession(session));
            }
            // The marker is removed first: a marker without its session would mean that the session
            // was lost.
            self.ack_markers
                .remove(session)
                .map_err(|error| Error::Unavailable {
                    place: self.home.heads().display().to_string(),
                    reason: error.to_string(),
                })?;
            self.writer
                .write(MarkerChange::Close(session), move |tx| {
                    trash::destroy(tx, session)
                })
                .await?;
            Ok(())
        })
    }
}

impl Journal for Sqlite {
    fn append(&self, batch: Batch) -> Reply<'_, DiskSpace> {
        Box::pin(async move {
            let (now, session, head) = (self.clock.now(), batch.session, batch.head());
            let marker = MarkerChange::Write(session, head);
            let appended = self
                .writer
                .write(marker, move |tx| write::append(tx, &batch, now));
            appended.await.map(|((), room)| room)
        })
    }

    fn read(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<JournalEvent>> {
        Box::pin(async move {
            self.read(|reader| reader.entries(session, after, limit, |_, entry| entry))
        })
    }

    fn records(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<Record>> {
        Box::pin(async move {
            self.read(|reader| reader.entries(session, after, limit, |record, _| record))
        })
    }

    fn event(&self, session: SessionId, seq: Seq) -> Reply<'_, JournalEvent> {
        Box::pin(async move { self.read(|reader| reader.entry(session, seq)) })
    }

    fn finished_event(
        &self,
        session: SessionId,
        path: Path,
        revision: u32,
    ) -> Reply<'_, JournalEvent> {
        Box::pin(async move { self.read(|reader| reader.finished(session, &path, revision)) })
    }

    fn cached_state(&self, session: SessionId) -> Reply<'_, Option<CachedState>> {
        Box::pin(async move { self.read(|reader| Ok(reader.folded(session))) })
    }
}

impl Leases for Sqlite {
    fn lease(&self, session: SessionId) -> Reply<'_, Lease> {
        Box::pin(async move { self.read(|reader| reader.lease(session)) })
    }

    fn acquire(&self, seen: Lease, owner: Owner, ttl: Duration) -> Reply<'_, Lease> {
        Box::pin(async move {
            let now = self.clock.now();
            let granted = self
                .writer
                .write(MarkerChange::Unchanged, move |tx| {
                    write::acquire(tx, &seen, &owner, now, ttl)
                })
                .await;
            point(Point::LeaseAfterAcquire);
            granted.map(|(lease, _)| lease)
        })
    }

    fn heartbeat(&self, session: SessionId, run: Run, ttl: Duration) -> Reply<'_, ()> {
        Box::pin(async move {
            let now = self.clock.now();
            self.writer
                .write(MarkerChange::Unchanged, move |tx| {
                    write::heartbeat(tx, session, run, now, ttl)
                })
                .await?;
            Ok(())
        })
    }

    fn release(&self, session: SessionId, run: Run) -> Reply<'_, ()> {
        Box::pin(async move {
            self.writer
                .write(MarkerChange::Unchanged, move |tx| {
                    write::release(tx, session, run)
                })
                .await?;
            Ok(())
        })
    }
}

impl Inbox for Sqlite {
    fn post(&self, session: SessionId, at: Timestamp, message: InboxMessage) -> Reply<'_, ()> {
        Box::pin(async move {
            self.writer
                .write(MarkerChange::Unchanged, move |tx| {
                    write::post(tx, session, at, &message)
                })
                .await?;
            Ok(())
        })
    }

    fn pending(&self, session: SessionId) -> Reply<'_, Vec<(u64, InboxMessage)>> {
        Box::pin(async move { self.read(|reader| reader.pending(session)) })
    }
}

impl Blobs for Sqlite {
    fn put(&self, bytes: Vec<u8>) -> Reply<'_, Digest> {
        self.blobs.put(bytes)
    }

    fn get(&self, digest: Digest) -> Reply<'_, Vec<u8>> {
        self.blobs.get(digest)
    }

    fn digests(&self) -> Reply<'_, Vec<Digest>> {
        self.blobs.digests()
    }

    fn sweep(&self, kept: BTreeSet<Digest>, before: Timestamp) -> Reply<'_, Swept> {
        self.blobs.sweep(kept, before)
    }
}

impl Checkpoints for Sqlite {
    fn put_checkpoint(&self, manifest: Manifest, key: [u8; 32]) -> Reply<'_, ()> {
        Box::pin(std::future::ready(
            self.checkpoint_files.put(&manifest, &key),
        ))
    }

    fn list_checkpoints(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<Result<Manifest, Error>>> {
        Box::pin(std::future::ready(self.checkpoint_files.list(session)))
    }

    fn list_checkpoint_ids(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<(SessionId, CheckpointId)>> {
        Box::pin(std::future::ready(self.checkpoint_files.list_ids(session)))
    }

    fn get_checkpoint(
        &self,
        session: SessionId,
        checkpoint: CheckpointId,
    ) -> Reply<'_, Option<Manifest>> {
        Box::pin(std::future::ready(
            self.checkpoint_files.get(session, checkpoint),
        ))
    }

    fn delete_checkpoint(&self, session: SessionId, checkpoint: CheckpointId) -> Reply<'_, ()> {
        Box::pin(std::future::ready(
            self.checkpoint_files.delete(session, checkpoint),
        ))
    }
}

impl Examine for Sqlite {
    fn examine(&self) -> Reply<'_, Vec<Finding>> {
        Box::pin(async move {
            let mut findings = self.read(examine::database)?;
            findings.extend(self.blobs.examine());
            findings.extend(self.checkpoint_files.examine());
            findings.extend(examine::folder(&self.home));
            Ok(findings)
        })
    }
}
