//! Creates sessions, moves them to the trash and back, and destroys them.
//!
//! Each of these holds the session's owner lock, so that no two of them meet, and is made of steps
//! of which each leaves a state that the next attempt, or another process, can continue from:
//!
//! - A session exists from the commit of its first events on. Its name is linked before; a link to a
//!   session that does not exist is invalid unless someone holds the lock.
//! - A session is in the trash as long as its mark exists. Its name is free from then on.
//! - Destroying removes the ack marker, the folder and the mark, in this order.

use std::io;
use std::time::Duration;

use segno_core::id::{Name, SessionId};
use segno_core::lease::{Lease, OwnerLock};
use segno_core::ports::Access;
use segno_core::store::{Error, LeaseUpdate, NewSession, TrashedSession};

use super::names::Reservation;
use super::owner_lock::{Attempt, LockGuard};
use super::read::Reader;
use super::write::{self, Tx};
use super::{LIST_PATIENCE, Sqlite, trash_mark};
use crate::ack_marker::{AckMarker, MarkerChange};
use crate::home::io_error;

/// How long to wait for another process that creates the same session.
const MOST_WAIT: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_millis(5);

impl Sqlite {
    /// Reserves a name for a session. A name whose session does not use it is free.
    fn reserve_name(&self, name: &Name, session: SessionId) -> Result<(), Error> {
        let failed = |error: io::Error| io_error(&self.home.names(), &error);
        // Of several processes that reclaim a name at the same time, one gets it.
        for _ in 0..8 {
            match self.names.reserve(name, session).map_err(failed)? {
                Reservation::Reserved => return Ok(()),
                Reservation::Blocked => {
                    return Err(Error::Damaged {
                        object: format!(
                            "the entry of name `{name}` in {}",
                            self.home.names().display()
                        ),
                        reason: "it does not lead to a session".into(),
                    });
                }
                Reservation::Taken(holder) => {
                    if self.uses_name(holder, name) {
                        return Err(Error::NameTaken(name.clone()));
                    }
                    let is_invalid = || !self.uses_name(holder, name);
                    self.names
                        .reclaim(name, holder, is_invalid)
                        .map_err(failed)?;
                }
            }
        }
        Err(Error::NameTaken(name.clone()))
    }

    /// Whether a session uses the name that is linked to it, or is about to be created with it.
    pub(super) fn uses_name(&self, session: SessionId, name: &Name) -> bool {
        if trash_mark::exists(&self.home, session) {
            return false;
        }
        // A command that looks a name up reads the session next, so its database stays open.
        let summary = self
            .database_within(session, LIST_PATIENCE)
            .and_then(|database| self.query_summary(session, &database.reader()));
        match summary {
            Ok(summary) => summary.name == *name,
            Err(Error::NoSession(_)) => self.locks.state(session) != OwnerLock::Free,
            // Damage does not free a name.
            Err(_) => true,
        }
    }

    pub(super) async fn create_now(&self, new: NewSession) -> Result<Lease, Error> {
        let (id, run, home) = (new.id, new.batch.run, &self.home);
        let keeps_lease = new.batch.lease != LeaseUpdate::Release;
        let folder = home.session_folder(id);
        let failed = |error: io::Error| io_error(&folder, &error);
        // Two imports may create the same session. The second one waits, to know whether it exists.
        let begun = self.clock.elapsed();
        let guard = loop {
            home.disk()
                .create_folder(&folder, Access::Private)
                .map_err(failed)?;
            if let Attempt::Locked(guard) = self.try_lock(id)? {
                break guard;
            }
            let is_overdue = self.clock.elapsed().saturating_sub(begun) >= MOST_WAIT;
            if is_overdue || !matches!(self.databases.get(id), Ok(None)) {
                return Err(Error::Exists(id));
            }
            self.clock.sleep(WAIT).await;
        };
        // What a killed process left of the same session is created anew.
        let exists = trash_mark::exists(home, id)
            || !matches!(self.databases.get(id), Ok(None))
            || matches!(self.ack_markers.read(id), AckMarker::Acknowledged(_));
        if exists {
            return Err(Error::Exists(id));
        }
        let name = new.name.clone();
        let created = match self.reserve_name(&name, id) {
            Ok(()) => self.create_database(new).await,
            Err(error) => Err(error),
        };
        match created {
            Ok(lease) => {
                if keeps_lease {
                    guard.keep(run);
                }
                Ok(lease)
            }
            Err(error) => {
                // After an error of the commit itself, the session may exist all the same.
                if matches!(self.databases.get(id), Ok(None)) {
                    let _ = self.names.release(&name, id);
                    let _ = self.remove_folder(id);
                }
                Err(error)
            }
        }
    }

    async fn create_database(&self, new: NewSession) -> Result<Lease, Error> {
        let (id, home) = (new.id, &self.home);
        let path = home.journal(id);
        let failed = |error: io::Error| io_error(&path, &error);
        self.remove_database(id).map_err(failed)?;
        // Private from the start: SQLite would apply the user's umask, and gives its log the mode of
        // the database.
        home.disk()
            .create(&path, &[], Access::Private)
            .map_err(failed)?;
        home.disk()
            .sync_folder(&home.session_folder(id))
            .map_err(failed)?;
        home.disk().sync_folder(&home.sessions()).map_err(failed)?;
        let (now, head) = (self.clock.now(), new.batch.head());
        let writer = self.databases.writer(id);
        let create = move |tx: &mut Tx<'_>| write::create(tx, &new, now);
        let (lease, _) = writer.write(MarkerChange::Write(head), create).await?;
        // Whatever is wrong with it now, the session exists; its next use tells.
        let _ = self.databases.adopt(id, writer);
        Ok(lease)
    }

    fn remove_database(&self, session: SessionId) -> io::Result<()> {
        self.databases.close(session);
        let folder = self.home.session_folder(session);
        for file in ["journal.db", "journal.db-wal", "journal.db-shm"] {
            self.home.disk().remove(&folder.join(file))?;
        }
        Ok(())
    }

    /// Removes everything of a session from its folder, and the folder.
    fn remove_folder(&self, session: SessionId) -> io::Result<()> {
        self.remove_database(session)?;
        self.home.disk().remove(&self.locks.path(session))?;
        self.home
            .disk()
            .remove_folder(&self.home.session_folder(session))?;
        self.home.disk().sync_folder(&self.home.sessions())
    }

    pub(super) async fn discard_now(
        &self,
        session: SessionId,
        seen: Option<Lease>,
    ) -> Result<(), Error> {
        let is_marked = matches!(self.ack_markers.read(session), AckMarker::Acknowledged(_));
        let is_known = !matches!(self.databases.get(session), Ok(None));
        if trash_mark::exists(&self.home, session) || !(is_known || is_marked) {
            return Err(Error::NoSession(session));
        }
        // A session whose folder was lost can be moved to the trash, too.
        let folder = self.home.session_folder(session);
        let made = self.home.disk().create_folder(&folder, Access::Private);
        made.map_err(|error| io_error(&folder, &error))?;
        let guard = self.lock_from_others(session)?;
        self.discard_locked(session, seen).await?;
        if guard.is_none() {
            // The run of this process that held the lock is fenced now.
            self.locks.unlock(session);
        }
        Ok(())
    }

    /// Locks a session that no other process holds. A run of this process keeps its lock.
    fn lock_from_others(&self, session: SessionId) -> Result<Option<LockGuard<'_>>, Error> {
        match self.try_lock(session)? {
            Attempt::Locked(guard) => Ok(Some(guard)),
            Attempt::AlreadyHeld => Ok(None),
            Attempt::Busy => Err(Error::LeaseChanged(session)),
        }
    }

    async fn discard_locked(&self, session: SessionId, seen: Option<Lease>) -> Result<(), Error> {
        let fence = move |tx: &mut Tx<'_>| write::fence(tx, session, seen.as_ref());
        match self.write(session, MarkerChange::Unchanged, fence).await {
            Ok(_) => {}
            // Damage must not keep a session from the trash. Nobody else can write to it: this
            // process holds its lock.
            Err(Error::Damaged { .. }) => {
                let fence = move |tx: &mut Tx<'_>| write::fence_damaged(tx, session);
                let _ = self.write(session, MarkerChange::Unchanged, fence).await;
            }
            Err(error) => return Err(error),
        }
        let name = self
            .read(session, |reader: &Reader<'_>| reader.summary())
            .ok();
        let trashed = TrashedSession {
            session,
            name: name.map(|summary| summary.name),
            at: self.clock.now(),
        };
        trash_mark::write(&self.home, &trashed)
            .map_err(|error| io_error(&self.home.trash(), &error))?;
        if let Some(name) = &trashed.name {
            // A link that stays is invalid.
            let _ = self.names.release(name, session);
        }
        Ok(())
    }

    pub(super) async fn restore_now(
        &self,
        session: SessionId,
        name: Option<Name>,
    ) -> Result<(), Error> {
        if !trash_mark::exists(&self.home, session) {
            return Err(Error::NoSession(session));
        }
        let _guard = self.lock_from_others(session)?;
        self.restore_locked(session, name).await
    }

    async fn restore_locked(&self, session: SessionId, name: Option<Name>) -> Result<(), Error> {
        let kept = trash_mark::read(&self.home, session).ok();
        let name = name.or(kept.and_then(|kept| kept.name));
        // A damaged session gets no name and stays damaged.
        let readable = self
            .read(session, |reader: &Reader<'_>| reader.summary())
            .ok();
        if let (Some(name), Some(summary)) = (name, readable) {
            self.reserve_name(&name, session)?;
            if summary.name != name {
                let rename = move |tx: &mut Tx<'_>| write::rename(tx, session, &name);
                self.write(session, MarkerChange::Unchanged, rename).await?;
            }
        }
        trash_mark::remove(&self.home, session)
            .map_err(|error| io_error(&self.home.trash(), &error))
    }

    pub(super) fn destroy_now(&self, session: SessionId) -> Result<(), Error> {
        if !trash_mark::exists(&self.home, session) {
            return Err(Error::NoSession(session));
        }
        let folder = self.home.session_folder(session);
        let failed = |error: io::Error| io_error(&folder, &error);
        let has_folder = std::fs::symlink_metadata(&folder).is_ok();
        let _guard = has_folder
            .then(|| self.lock_from_others(session))
            .transpose()?;
        // P8: checked while nobody can restore the session.
        if !trash_mark::exists(&self.home, session) {
            return Err(Error::NoSession(session));
        }
        // The marker is removed first: a marker without its session would mean that the session was
        // lost. The mark is removed last: until then, destroying can be repeated.
        self.previews.remove(session).map_err(failed)?;
        self.ack_markers.remove(session).map_err(failed)?;
        self.remove_folder(session).map_err(failed)?;
        trash_mark::remove(&self.home, session).map_err(failed)
    }
}
