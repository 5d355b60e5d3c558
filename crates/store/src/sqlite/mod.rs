//! Sessions in SQLite databases, one for each, for one machine and any number of processes on it.
//!
//! A session is its own fault domain: no session waits for another's lock, and damage or a stopped
//! process concerns one session. One connection per process writes to a session's database: the
//! caller that gets it commits all queued batches in one transaction ([`writer`]). Correctness comes
//! from the transaction, not from there being one process: run and head are compared inside it (P3).
//! Readers have a connection of their own and never wait.
//!
//! Whether a run is alive is told by the lock that its process holds ([`owner_lock`]). Lists come
//! from an index that may lag and may be deleted ([`index`]).

mod changes;
mod commit;
mod connection;
mod examine;
mod index;
mod lifecycle;
mod migrate;
mod names;
mod owner_lock;
mod read;
mod row;
mod schema;
mod session_db;
mod trash_mark;
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
use segno_core::preview::Preview;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::store::{
    Batch, Blobs, CachedState, Changes, Checkpoints, DiskSpace, Error, Examine, Filter, Finding,
    Inbox, InboxMessage, Journal, LeaseUpdate, Leases, NewSession, Previews, Reply, Sessions,
    Swept, Trash, TrashedSession, Watch,
};
use segno_core::time::Timestamp;

use crate::ack_marker::{AckMarker, AckMarkers, MarkerChange};
use crate::blobs::BlobFolder;
use crate::checkpoint_files::CheckpointFiles;
use crate::home::{Home, io_error};
use crate::preview_files::PreviewFiles;
use changes::FolderWatch;
use commit::Answer;
use connection::BUSY_TIMEOUT;
use index::Index;
use names::Names;
use owner_lock::{Attempt, OwnerLocks};
use read::Reader;
use session_db::{SessionDb, SessionDbs};
use write::Tx;

/// With less free space than this, no database can be opened.
const MIN_FREE: usize = 256 * 1024;

/// The longest write-ahead log that is copied before SQLite discards it.
const MAX_SAVED_LOG: u64 = 256 * 1024 * 1024;

/// How long a list waits for a database that another process is recovering.
const LIST_PATIENCE: Duration = Duration::from_millis(250);

/// A store in a home folder.
pub struct Sqlite {
    home: Home,
    clock: Arc<dyn Clock>,
    databases: SessionDbs,
    locks: Arc<OwnerLocks>,
    names: Names,
    index: Index,
    blobs: BlobFolder,
    checkpoint_files: CheckpointFiles,
    ack_markers: AckMarkers,
    previews: PreviewFiles,
    /// The last field, so that it is dropped after the databases are closed.
    restore_reserve: Mutex<Option<RestoreReserve>>,
}

impl Sqlite {
    /// Opens the store of `home`, and migrates an older one first.
    pub fn open(home: Home, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let ack_markers = AckMarkers::new(&home);
        let previews = PreviewFiles::new(&home);
        let locks = Arc::new(OwnerLocks::new(home.clone()));
        let store = Self {
            databases: SessionDbs::new(
                home.clone(),
                ack_markers.clone(),
                Arc::clone(&clock),
                Arc::clone(&locks),
            ),
            locks,
            names: Names::new(&home),
            index: Index::new(home.clone()),
            blobs: BlobFolder::new(&home, Arc::clone(&clock)),
            checkpoint_files: CheckpointFiles::new(&home),
            ack_markers,
            previews,
            clock,
            home,
            restore_reserve: Mutex::default(),
        };
        migrate::run(&store.home)?;
        store.link_names()?;
        store.home.fill_reserve();
        Ok(store)
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Gives every session its name again, after someone removed the folder of names.
    fn link_names(&self) -> Result<(), Error> {
        if self.names.is_complete() {
            return Ok(());
        }
        let failed = |error: io::Error| io_error(&self.home.names(), &error);
        for summary in self.list_now(&Filter::default()).into_iter().flatten() {
            // Of two sessions with one name, the newer one gets it.
            self.names
                .reserve(&summary.name, summary.id)
                .map_err(failed)?;
        }
        match self.names.set_complete() {
            // A home that cannot be written has its sessions, too.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            other => other.map_err(failed),
        }
    }

    /// Opens a session's database.
    fn database(&self, session: SessionId) -> Result<Arc<SessionDb>, Error> {
        self.database_within(session, BUSY_TIMEOUT)
    }

    /// Opens a session's database; waits at most this long for a process that recovers it.
    fn database_within(
        &self,
        session: SessionId,
        patience: Duration,
    ) -> Result<Arc<SessionDb>, Error> {
        let opened = self.with_room(|| self.databases.get_within(session, patience))?;
        opened.ok_or_else(|| self.missing(session))
    }

    /// Opens something on a disk that may be full: even reading needs some space, for SQLite's index
    /// of its log. Uses the reserve for that, until this store is closed.
    fn with_room<T>(&self, open: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        let opened = open();
        if !matches!(
            opened,
            Err(Error::DiskFull { .. } | Error::Unavailable { .. })
        ) || self.home.free() >= MIN_FREE
        {
            return opened;
        }
        let opened = if self.home.use_reserve() {
            let restore = RestoreReserve(self.home.clone());
            let kept = self.restore_reserve.lock();
            *kept.unwrap_or_else(PoisonError::into_inner) = Some(restore);
            open()
        } else {
            opened
        };
        match opened {
            Err(Error::Unavailable { place, .. }) => Err(Error::DiskFull { place }),
            opened => opened,
        }
    }

    /// The error for a session without a database: it does not exist, or it was lost.
    fn missing(&self, session: SessionId) -> Error {
        match self.ack_markers.read(session) {
            AckMarker::Acknowledged(head) => read::lost_events(session, head, Seq(0)),
            AckMarker::Absent | AckMarker::Unreadable => Error::NoSession(session),
        }
    }

    fn read<T>(
        &self,
        session: SessionId,
        query: impl FnOnce(&Reader<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let database = self.database(session)?;
        self.query(session, &database.reader(), query)
    }

    /// Reads a session's summary for a list, without keeping its database open.
    fn read_once(&self, session: SessionId) -> Result<Summary, Error> {
        let path = self.home.journal(session);
        if std::fs::symlink_metadata(&path).is_err() {
            return Err(self.missing(session));
        }
        let connection = self.with_room(|| connection::open_reader(&path, LIST_PATIENCE))?;
        let connection = connection.ok_or_else(|| self.missing(session))?;
        self.query_summary(session, &connection)
    }

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method itself is not general over the lifetime of its reader"
    )]
    fn query_summary(&self, session: SessionId, connection: &Connection) -> Result<Summary, Error> {
        self.query(session, connection, |reader| reader.summary())
    }

    fn query<T>(
        &self,
        session: SessionId,
        connection: &Connection,
        query: impl FnOnce(&Reader<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let reader = Reader {
            session,
            connection,
            ack_markers: &self.ack_markers,
            lost: Cell::new(false),
        };
        let answer = query(&reader);
        if reader.lost.get() {
            self.save_log(session);
        }
        answer
    }

    fn list_now(&self, filter: &Filter) -> Vec<Result<Summary, Error>> {
        let (trashed, _) = trash_mark::list(&self.home);
        let read = |session| self.read_once(session);
        self.index.list(filter, &trashed, self.clock.now(), &read)
    }

    async fn write<T: Send + 'static>(
        &self,
        session: SessionId,
        marker: MarkerChange,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<T> {
        let database = self.database(session)?;
        database.writer.write(marker, work).await
    }

    fn lease_now(&self, session: SessionId) -> Result<Lease, Error> {
        let row = self.read(session, |reader: &Reader<'_>| reader.lease_row())?;
        Ok(row.lease(self.clock.now(), self.locks.state(session)))
    }

    /// Copies the write-ahead log before SQLite discards it: it may still contain what SQLite could
    /// not read.
    fn save_log(&self, session: SessionId) {
        let disk = self.home.disk();
        let log = self.home.session_folder(session).join("journal.db-wal");
        if let Ok(bytes) = disk.read(&log, MAX_SAVED_LOG)
            && !bytes.is_empty()
        {
            let name = format!("lost-{}.wal", Digest::of(&bytes).short());
            let _ = disk.create(&self.home.backups().join(name), &bytes, Access::Private);
        }
    }

    fn try_lock(&self, session: SessionId) -> Result<Attempt<'_>, Error> {
        self.locks.try_lock(session).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                self.missing(session)
            } else {
                io_error(&self.locks.path(session), &error)
            }
        })
    }
}

/// Restores the disk reserve after it was used only to open a database on a full disk.
struct RestoreReserve(Home);

impl Drop for RestoreReserve {
    fn drop(&mut self) {
        self.0.restore_reserve();
    }
}

impl Sessions for Sqlite {
    fn create(&self, new: NewSession) -> Reply<'_, Lease> {
        Box::pin(async move {
            // No new session is started with the reserve, which is meant for running ones.
            if self.home.disk_space() == DiskSpace::ReserveOnly {
                return Err(self.home.no_reserve());
            }
            point(Point::SessionBeforeCreate);
            let created = self.create_now(new).await;
            point(Point::SessionAfterCreate);
            created
        })
    }

    fn summary(&self, session: SessionId) -> Reply<'_, Summary> {
        Box::pin(async move { self.read(session, |reader: &Reader<'_>| reader.summary()) })
    }

    fn find_named(&self, name: Name) -> Reply<'_, Option<SessionId>> {
        Box::pin(async move {
            let holder = self.names.holder(&name);
            Ok(holder.filter(|session| self.uses_name(*session, &name)))
        })
    }

    fn list(&self, filter: Filter) -> Reply<'_, Vec<Result<Summary, Error>>> {
        Box::pin(async move { Ok(self.list_now(&filter)) })
    }
}

impl Trash for Sqlite {
    fn discard(&self, session: SessionId, seen: Option<Lease>) -> Reply<'_, ()> {
        Box::pin(self.discard_now(session, seen))
    }

    fn list_trash(&self) -> Reply<'_, Vec<Result<TrashedSession, Error>>> {
        Box::pin(async move {
            let (sessions, _) = trash_mark::list(&self.home);
            let mut all: Vec<_> = sessions
                .into_iter()
                .map(|session| trash_mark::read(&self.home, session))
                .collect();
            all.sort_by_key(|trashed| {
                let newest = trashed
                    .as_ref()
                    .ok()
                    .map(|trashed| (trashed.at, trashed.session));
                std::cmp::Reverse(newest)
            });
            Ok(all)
        })
    }

    fn restore(&self, session: SessionId, name: Option<Name>) -> Reply<'_, ()> {
        Box::pin(self.restore_now(session, name))
    }

    fn destroy(&self, session: SessionId) -> Reply<'_, ()> {
        Box::pin(async move { self.destroy_now(session) })
    }
}

impl Journal for Sqlite {
    fn append(&self, batch: Batch) -> Reply<'_, DiskSpace> {
        Box::pin(async move {
            let (now, session, run) = (self.clock.now(), batch.session, batch.run);
            let is_release = batch.lease == LeaseUpdate::Release;
            let is_moved = batch.workspace.is_some();
            let marker = MarkerChange::Write(batch.head());
            let append = move |tx: &mut Tx<'_>| write::append(tx, &batch, now);
            let appended = self.write(session, marker, append).await;
            let is_fenced = matches!(appended, Err(Error::Fenced { .. }));
            if is_fenced || (is_release && appended.is_ok()) {
                self.locks.unlock_run(session, run);
            }
            if appended.is_ok() && is_moved {
                self.index.forget(session);
            }
            appended.map(|((), space)| space)
        })
    }

    fn read(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<JournalEvent>> {
        Box::pin(async move {
            self.read(session, |reader| {
                reader.entries(after, limit, |_, entry| entry)
            })
        })
    }

    fn records(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<Record>> {
        Box::pin(async move {
            self.read(session, |reader| {
                reader.entries(after, limit, |record, _| record)
            })
        })
    }

    fn event(&self, session: SessionId, seq: Seq) -> Reply<'_, JournalEvent> {
        Box::pin(async move { self.read(session, |reader| reader.entry(seq)) })
    }

    fn finished_event(
        &self,
        session: SessionId,
        path: Path,
        revision: u32,
    ) -> Reply<'_, JournalEvent> {
        Box::pin(async move { self.read(session, |reader| reader.finished(&path, revision)) })
    }

    fn cached_state(&self, session: SessionId) -> Reply<'_, Option<CachedState>> {
        Box::pin(async move { self.read(session, |reader| Ok(reader.folded())) })
    }
}

impl Changes for Sqlite {
    fn watch(&self) -> Result<Box<dyn Watch>, Error> {
        let (heads, trash) = (self.home.heads(), self.home.trash());
        match FolderWatch::new(&[&heads, &trash]) {
            Ok(watch) => Ok(Box::new(watch)),
            Err(error) => Err(Error::Unavailable {
                place: format!("the watch on {}", heads.display()),
                reason: error.to_string(),
            }),
        }
    }
}

impl Previews for Sqlite {
    fn put_preview(&self, session: SessionId, preview: Preview) -> Reply<'_, ()> {
        let previews = self.previews.clone();
        Box::pin(async move {
            previews
                .put(session, &preview)
                .map_err(|error| preview_error(&error))
        })
    }

    fn preview(&self, session: SessionId) -> Reply<'_, Option<Preview>> {
        let previews = self.previews.clone();
        Box::pin(async move { Ok(previews.get(session)) })
    }

    fn remove_preview(&self, session: SessionId) -> Reply<'_, ()> {
        let previews = self.previews.clone();
        Box::pin(async move {
            previews
                .remove(session)
                .map_err(|error| preview_error(&error))
        })
    }

    fn watch_previews(&self) -> Result<Box<dyn Watch>, Error> {
        let folder = self.home.previews();
        let watch = FolderWatch::new(&[&folder]).map_err(|error| preview_error(&error))?;
        Ok(Box::new(watch))
    }
}

fn preview_error(error: &io::Error) -> Error {
    Error::Unavailable {
        place: "the previews".to_owned(),
        reason: error.to_string(),
    }
}

impl Leases for Sqlite {
    fn lease(&self, session: SessionId) -> Reply<'_, Lease> {
        Box::pin(async move { self.lease_now(session) })
    }

    fn acquire(&self, seen: Lease, owner: Owner, ttl: Duration) -> Reply<'_, Lease> {
        Box::pin(async move {
            let (now, session) = (self.clock.now(), seen.session);
            let guard = match self.try_lock(session)? {
                Attempt::Locked(guard) => Some(guard),
                Attempt::AlreadyHeld => None,
                Attempt::Busy => return Err(Error::LeaseChanged(session)),
            };
            let acquire = move |tx: &mut Tx<'_>| write::acquire(tx, &seen, &owner, now, ttl);
            // Checked while nobody else can move the session to the trash.
            let granted = if trash_mark::exists(&self.home, session) {
                Err(Error::NoSession(session))
            } else {
                self.write(session, MarkerChange::Unchanged, acquire).await
            };
            point(Point::LeaseAfterAcquire);
            let (lease, _) = granted?;
            match guard {
                Some(guard) => guard.keep(lease.run),
                None => self.locks.assign(session, lease.run),
            }
            Ok(lease)
        })
    }

    fn heartbeat(&self, session: SessionId, run: Run, ttl: Duration) -> Reply<'_, ()> {
        Box::pin(async move {
            let now = self.clock.now();
            let renew = move |tx: &mut Tx<'_>| write::heartbeat(tx, session, run, now, ttl);
            let renewed = self.write(session, MarkerChange::Unchanged, renew).await;
            if matches!(renewed, Err(Error::Fenced { .. })) {
                self.locks.unlock_run(session, run);
            }
            renewed.map(|((), _)| ())
        })
    }

    fn release(&self, session: SessionId, run: Run) -> Reply<'_, ()> {
        Box::pin(async move {
            let release = move |tx: &mut Tx<'_>| write::release(tx, session, run);
            let released = self.write(session, MarkerChange::Unchanged, release).await;
            // Also after an error: this process does not run the session any more.
            self.locks.unlock_run(session, run);
            released.map(|((), _)| ())
        })
    }
}

impl Inbox for Sqlite {
    fn post(&self, session: SessionId, at: Timestamp, message: InboxMessage) -> Reply<'_, ()> {
        Box::pin(async move {
            if trash_mark::exists(&self.home, session) {
                return Err(Error::NoSession(session));
            }
            let post = move |tx: &mut Tx<'_>| write::post(tx, session, at, &message);
            self.write(session, MarkerChange::Unchanged, post).await?;
            Ok(())
        })
    }

    fn pending(&self, session: SessionId) -> Reply<'_, Vec<(u64, InboxMessage)>> {
        Box::pin(async move { self.read(session, |reader: &Reader<'_>| reader.pending()) })
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
            let mut findings = examine::sessions(self);
            findings.extend(self.blobs.examine());
            findings.extend(self.checkpoint_files.examine());
            findings.extend(examine::home(&self.home));
            Ok(findings)
        })
    }
}
