//! Sessions in memory, with the same contract: for simulations, tests, and runs that the user does
//! not want to store.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::id::{CheckpointId, Name, SessionId};
use segno_core::journal::{Head, JournalEvent, Record, Run, Seq};
use segno_core::lease::{Lease, Owner, OwnerLock};
use segno_core::ports::{Boxed, Clock};
use segno_core::preview::Preview;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::store::{
    Batch, Blobs, CachedState, Changed, Changes, Checkpoints, DiskSpace, Error, Examine, Filter,
    Finding, Inbox, InboxMessage, Journal, LeaseUpdate, Leases, NewSession, Previews, Reply,
    Sessions, Swept, Trash, TrashedSession, Watch,
};
use segno_core::time::Timestamp;
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};

/// How many changes a watch may be behind before it reports that some were lost.
const MAX_CHANGES: usize = 256;

/// A store that ends with its process.
pub struct Memory {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changes: broadcast::Sender<SessionId>,
    preview_changes: broadcast::Sender<SessionId>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, StoredSession>,
    /// The bytes, and when they were last put.
    blobs: BTreeMap<Digest, (Vec<u8>, Timestamp)>,
    messages: u64,
    previews: BTreeMap<SessionId, Preview>,
    checkpoints: BTreeMap<(SessionId, CheckpointId), Manifest>,
}

struct StoredSession {
    summary: Summary,
    owner: Option<Owner>,
    since: Timestamp,
    until: Timestamp,
    records: Vec<Record>,
    finished: HashSet<(Option<String>, u32)>,
    folded: Option<CachedState>,
    inbox: BTreeMap<u64, InboxMessage>,
    /// When the session was moved to the trash.
    discarded: Option<Timestamp>,
}

impl State {
    /// The session that uses a name.
    fn using(&self, name: &Name) -> Option<SessionId> {
        let has_it =
            |stored: &&StoredSession| stored.discarded.is_none() && stored.summary.name == *name;
        let stored = self.sessions.values().find(has_it);
        stored.map(|stored| stored.summary.id)
    }
}

impl Memory {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            changes: broadcast::Sender::new(MAX_CHANGES),
            preview_changes: broadcast::Sender::new(MAX_CHANGES),
        }
    }

    /// Tells the watches, of which there may be none.
    fn report_change(&self, session: SessionId) {
        let _ = self.changes.send(session);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        session: SessionId,
        act: impl FnOnce(&mut StoredSession) -> Result<T, Error>,
    ) -> Reply<'_, T>
    where
        T: Send + 'static,
    {
        let mut state = self.state();
        let stored = state
            .sessions
            .get_mut(&session)
            .ok_or(Error::NoSession(session));
        let result = stored.and_then(act);
        Box::pin(std::future::ready(result))
    }
}

impl StoredSession {
    fn lease(&self, now: Timestamp) -> Lease {
        Lease {
            session: self.summary.id,
            run: self.summary.run,
            owner: self.owner.clone(),
            since: self.since,
            until: self.until,
            remaining: self.until.since(now),
            lock: OwnerLock::Unknown,
        }
    }

    /// Refuses a session that is in the trash.
    fn check_not_trashed(&self) -> Result<(), Error> {
        match self.discarded {
            None => Ok(()),
            Some(_) => Err(Error::NoSession(self.summary.id)),
        }
    }

    fn matches_lease(&self, seen: &Lease) -> bool {
        (self.summary.run, &self.owner, self.until) == (seen.run, &seen.owner, seen.until)
    }

    fn fence(&self, run: Run) -> Result<(), Error> {
        let (session, newest) = (self.summary.id, self.summary.run);
        if run == newest {
            Ok(())
        } else {
            Err(Error::Fenced {
                session,
                run,
                newest,
            })
        }
    }

    fn read(&self, after: Head, limit: usize) -> Result<Vec<(&Record, JournalEvent)>, Error> {
        let (session, mut head) = (self.summary.id, after);
        let skipped = usize::try_from(after.seq.0).unwrap_or(usize::MAX);
        let mut read = Vec::new();
        for record in self.records.iter().skip(skipped).take(limit) {
            let entry = head
                .open(record)
                .map_err(|broken| damaged(session, &broken))?;
            head = entry.head();
            read.push((record, entry));
        }
        if read.len() < limit && head != self.summary.head {
            return Err(damaged(session, &"it does not continue the given head"));
        }
        Ok(read)
    }

    fn append(&mut self, batch: Batch, now: Timestamp) -> Result<DiskSpace, Error> {
        self.fence(batch.run)?;
        let (found, after) = (self.summary.head, batch.head());
        if found == after && !batch.records.is_empty() {
            return Ok(DiskSpace::Sufficient);
        }
        if found != batch.expected {
            return Err(Error::WrongHead {
                session: batch.session,
                expected: batch.expected.seq,
                found: found.seq,
            });
        }
        let mut finished = HashSet::new();
        for record in batch
            .records
            .iter()
            .filter(|record| record.kind == "step_finished")
        {
            let step = (record.path.clone(), record.revision);
            if self.finished.contains(&step) || !finished.insert(step) {
                return Err(Error::FinishedTwice(batch.session));
            }
        }
        self.finished.extend(finished);
        let last = batch.records.last().map(|record| record.at);
        self.records.extend(batch.records);
        for message in batch.handled_messages {
            self.inbox.remove(&message);
        }
        self.folded = batch.cached_state.or(self.folded.take());
        match batch.lease {
            LeaseUpdate::Renew(ttl) => self.until = now.after(ttl),
            LeaseUpdate::Release => (self.owner, self.until) = (None, now),
        }
        if let Some(workspace) = batch.workspace {
            self.summary.workspace = workspace;
        }
        self.summary.status = batch.status;
        self.summary.spec_digest = batch.spec_digest;
        self.summary.head = after;
        self.summary.updated_at = last.unwrap_or(now);
        Ok(DiskSpace::Sufficient)
    }
}

impl Sessions for Memory {
    fn create(&self, new: NewSession) -> Reply<'_, Lease> {
        let now = self.clock.now();
        let mut state = self.state();
        let result = (|| {
            if state.sessions.contains_key(&new.id) {
                return Err(Error::Exists(new.id));
            }
            if state.using(&new.name).is_some() {
                return Err(Error::NameTaken(new.name));
            }
            let first = new.batch.records.first().map(|record| record.at);
            let mut stored = StoredSession {
                summary: Summary {
                    id: new.id,
                    name: new.name,
                    kind: new.kind,
                    status: new.batch.status,
                    workspace: new.workspace,
                    spec_digest: new.batch.spec_digest,
                    created_at: first.unwrap_or(now),
                    updated_at: now,
                    run: new.batch.run,
                    head: new.batch.expected,
                },
                owner: Some(new.owner),
                since: now,
                until: now.after(new.ttl),
                records: Vec::new(),
                finished: HashSet::new(),
                folded: None,
                inbox: BTreeMap::new(),
                discarded: None,
            };
            stored.append(new.batch, now)?;
            let lease = stored.lease(now);
            state.sessions.insert(new.id, stored);
            self.report_change(new.id);
            Ok(lease)
        })();
        Box::pin(std::future::ready(result))
    }

    fn summary(&self, session: SessionId) -> Reply<'_, Summary> {
        self.with(session, |stored| Ok(stored.summary.clone()))
    }

    fn find_named(&self, name: Name) -> Reply<'_, Option<SessionId>> {
        let found = self.state().using(&name);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn list(&self, filter: Filter) -> Reply<'_, Vec<Result<Summary, Error>>> {
        let state = self.state();
        let stored = state.sessions.values().rev();
        let listed = stored
            .filter(|stored| stored.discarded.is_none() && filter.accepts(&stored.summary))
            .take(filter.limit.unwrap_or(usize::MAX))
            .map(|stored| Ok(stored.summary.clone()))
            .collect();
        Box::pin(std::future::ready(Ok(listed)))
    }
}

impl Trash for Memory {
    fn discard(&self, session: SessionId, seen: Option<Lease>) -> Reply<'_, ()> {
        let now = self.clock.now();
        self.with(session, |stored| {
            stored.check_not_trashed()?;
            if seen.is_some_and(|seen| !stored.matches_lease(&seen)) {
                return Err(Error::LeaseChanged(session));
            }
            stored.summary.run = stored.summary.run.next();
            (stored.owner, stored.discarded) = (None, Some(now));
            self.report_change(session);
            Ok(())
        })
    }

    fn list_trash(&self) -> Reply<'_, Vec<Result<TrashedSession, Error>>> {
        let trashed = |stored: &StoredSession| {
            Some(TrashedSession {
                session: stored.summary.id,
                name: Some(stored.summary.name.clone()),
                at: stored.discarded?,
            })
        };
        let mut all: Vec<_> = self.state().sessions.values().filter_map(trashed).collect();
        all.sort_by_key(|discarded| std::cmp::Reverse((discarded.at, discarded.session)));
        Box::pin(std::future::ready(Ok(all.into_iter().map(Ok).collect())))
    }

    fn restore(&self, session: SessionId, name: Option<Name>) -> Reply<'_, ()> {
        let mut state = self.state();
        let result = (|| {
            let stored = state.sessions.get(&session);
            let stored = stored.filter(|stored| stored.discarded.is_some());
            let stored = stored.ok_or(Error::NoSession(session))?;
            let name = name.unwrap_or_else(|| stored.summary.name.clone());
            if state.using(&name).is_some() {
                return Err(Error::NameTaken(name));
            }
            if let Some(stored) = state.sessions.get_mut(&session) {
                (stored.summary.name, stored.discarded) = (name, None);
                self.report_change(session);
            }
            Ok(())
        })();
        Box::pin(std::future::ready(result))
    }

    fn destroy(&self, session: SessionId) -> Reply<'_, ()> {
        let mut state = self.state();
        let is_there = |stored: &StoredSession| stored.discarded.is_some();
        let result = if state.sessions.get(&session).is_some_and(is_there) {
            state.sessions.remove(&session);
            Ok(())
        } else {
            Err(Error::NoSession(session))
        };
        Box::pin(std::future::ready(result))
    }
}

impl Journal for Memory {
    fn append(&self, batch: Batch) -> Reply<'_, DiskSpace> {
        let now = self.clock.now();
        let session = batch.session;
        self.with(session, |stored| {
            let appended = stored.append(batch, now)?;
            self.report_change(session);
            Ok(appended)
        })
    }

    fn read(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<JournalEvent>> {
        self.with(session, |stored| {
            let read = stored.read(after, limit)?;
            Ok(read.into_iter().map(|(_, entry)| entry).collect())
        })
    }

    fn records(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<Record>> {
        self.with(session, |stored| {
            let read = stored.read(after, limit)?;
            Ok(read.into_iter().map(|(record, _)| record.clone()).collect())
        })
    }

    fn event(&self, session: SessionId, seq: Seq) -> Reply<'_, JournalEvent> {
        self.with(session, |stored| {
            let index = usize::try_from(seq.0).unwrap_or(usize::MAX).wrapping_sub(1);
            let record = stored
                .records
                .get(index)
                .ok_or_else(|| damaged(session, &format!("event {seq} is missing")))?;
            let before = index
                .checked_sub(1)
                .map_or(Head::genesis(session), |index| stored.records[index].head());
            before
                .open(record)
                .map_err(|broken| damaged(session, &broken))
        })
    }

    fn finished_event(
        &self,
        session: SessionId,
        path: Path,
        revision: u32,
    ) -> Reply<'_, JournalEvent> {
        let seq = self.state().sessions.get(&session).and_then(|stored| {
            let is_it = |record: &&Record| {
                record.kind == "step_finished"
                    && record.path.as_deref() == Some(path.as_str())
                    && record.revision == revision
            };
            stored.records.iter().find(is_it).map(|record| record.seq)
        });
        match seq {
            Some(seq) => self.event(session, seq),
            None => self.with(session, |_| {
                Err(damaged(
                    session,
                    &"the `step_finished` event of a step is missing",
                ))
            }),
        }
    }

    fn cached_state(&self, session: SessionId) -> Reply<'_, Option<CachedState>> {
        self.with(session, |stored| Ok(stored.folded.clone()))
    }
}

impl Changes for Memory {
    fn watch(&self) -> Result<Box<dyn Watch>, Error> {
        Ok(Box::new(MemoryWatch(self.changes.subscribe())))
    }
}

impl Previews for Memory {
    fn put_preview(&self, session: SessionId, preview: Preview) -> Reply<'_, ()> {
        self.state().previews.insert(session, preview);
        let _ = self.preview_changes.send(session);
        Box::pin(std::future::ready(Ok(())))
    }

    fn preview(&self, session: SessionId) -> Reply<'_, Option<Preview>> {
        let preview = self.state().previews.get(&session).cloned();
        Box::pin(std::future::ready(Ok(preview)))
    }

    fn remove_preview(&self, session: SessionId) -> Reply<'_, ()> {
        if self.state().previews.remove(&session).is_some() {
            let _ = self.preview_changes.send(session);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn watch_previews(&self) -> Result<Box<dyn Watch>, Error> {
        Ok(Box::new(MemoryWatch(self.preview_changes.subscribe())))
    }
}

struct MemoryWatch(broadcast::Receiver<SessionId>);

impl Watch for MemoryWatch {
    fn changed(&mut self) -> Boxed<'_, Changed> {
        Box::pin(async move {
            let mut sessions = match self.0.recv().await {
                Ok(session) => BTreeSet::from([session]),
                Err(RecvError::Lagged(_)) => return Changed::Any,
                // The store is gone, so nothing changes any more.
                Err(RecvError::Closed) => std::future::pending().await,
            };
            loop {
                match self.0.try_recv() {
                    Ok(session) => sessions.insert(session),
                    Err(TryRecvError::Lagged(_)) => return Changed::Any,
                    Err(_) => return Changed::Sessions(sessions),
                };
            }
        })
    }
}

impl Leases for Memory {
    fn lease(&self, session: SessionId) -> Reply<'_, Lease> {
        let now = self.clock.now();
        self.with(session, |stored| Ok(stored.lease(now)))
    }

    fn acquire(&self, seen: Lease, owner: Owner, ttl: Duration) -> Reply<'_, Lease> {
        let now = self.clock.now();
        self.with(seen.session, |stored| {
            stored.check_not_trashed()?;
            if !stored.matches_lease(&seen) {
                return Err(Error::LeaseChanged(seen.session));
            }
            stored.summary.run = stored.summary.run.next();
            (stored.owner, stored.since, stored.until) = (Some(owner), now, now.after(ttl));
            Ok(stored.lease(now))
        })
    }

    fn heartbeat(&self, session: SessionId, run: Run, ttl: Duration) -> Reply<'_, ()> {
        let now = self.clock.now();
        self.with(session, |stored| {
            stored.fence(run)?;
            stored.until = now.after(ttl);
            Ok(())
        })
    }

    fn release(&self, session: SessionId, run: Run) -> Reply<'_, ()> {
        self.with(session, |stored| {
            if stored.summary.run == run {
                stored.owner = None;
            }
            Ok(())
        })
    }
}

impl Inbox for Memory {
    fn post(&self, session: SessionId, _at: Timestamp, message: InboxMessage) -> Reply<'_, ()> {
        let number = {
            let mut state = self.state();
            state.messages += 1;
            state.messages
        };
        self.with(session, |stored| {
            stored.check_not_trashed()?;
            stored.inbox.insert(number, message);
            Ok(())
        })
    }

    fn pending(&self, session: SessionId) -> Reply<'_, Vec<(u64, InboxMessage)>> {
        self.with(session, |stored| {
            Ok(stored.inbox.clone().into_iter().collect())
        })
    }
}

impl Checkpoints for Memory {
    fn put_checkpoint(&self, manifest: Manifest, _: [u8; 32]) -> Reply<'_, ()> {
        let name = (manifest.session, manifest.id);
        self.state().checkpoints.insert(name, manifest);
        Box::pin(std::future::ready(Ok(())))
    }

    fn list_checkpoints(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<Result<Manifest, Error>>> {
        let state = self.state();
        let wanted = |manifest: &&Manifest| session.is_none_or(|only| manifest.session == only);
        let mut stored: Vec<_> = state.checkpoints.values().filter(wanted).cloned().collect();
        stored.sort_by_key(|manifest| manifest.id);
        Box::pin(std::future::ready(Ok(stored.into_iter().map(Ok).collect())))
    }

    fn list_checkpoint_ids(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<(SessionId, CheckpointId)>> {
        let state = self.state();
        let wanted = |name: &&(SessionId, CheckpointId)| session.is_none_or(|only| name.0 == only);
        let mut names: Vec<_> = state.checkpoints.keys().filter(wanted).copied().collect();
        names.sort_by_key(|(_, checkpoint)| *checkpoint);
        Box::pin(std::future::ready(Ok(names)))
    }

    fn get_checkpoint(
        &self,
        session: SessionId,
        checkpoint: CheckpointId,
    ) -> Reply<'_, Option<Manifest>> {
        let found = self
            .state()
            .checkpoints
            .get(&(session, checkpoint))
            .cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn delete_checkpoint(&self, session: SessionId, checkpoint: CheckpointId) -> Reply<'_, ()> {
        self.state().checkpoints.remove(&(session, checkpoint));
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Blobs for Memory {
    fn put(&self, bytes: Vec<u8>) -> Reply<'_, Digest> {
        let digest = Digest::of(&bytes);
        let now = self.clock.now();
        self.state().blobs.insert(digest, (bytes, now));
        Box::pin(std::future::ready(Ok(digest)))
    }

    fn get(&self, digest: Digest) -> Reply<'_, Vec<u8>> {
        let bytes = self
            .state()
            .blobs
            .get(&digest)
            .map(|(bytes, _)| bytes.clone())
            .ok_or(Error::NoBlob(digest));
        Box::pin(std::future::ready(bytes))
    }

    fn digests(&self) -> Reply<'_, Vec<Digest>> {
        let digests = self.state().blobs.keys().copied().collect();
        Box::pin(std::future::ready(Ok(digests)))
    }

    fn sweep(&self, kept: BTreeSet<Digest>, before: Timestamp) -> Reply<'_, Swept> {
        let mut swept = Swept::default();
        self.state().blobs.retain(|digest, (bytes, at)| {
            let stays = kept.contains(digest) || *at >= before;
            if !stays {
                swept.blobs += 1;
                swept.bytes += bytes.len() as u64;
            }
            stays
        });
        Box::pin(std::future::ready(Ok(swept)))
    }
}

impl Examine for Memory {
    fn examine(&self) -> Reply<'_, Vec<Finding>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

fn damaged(session: SessionId, reason: &dyn std::fmt::Display) -> Error {
    Error::Damaged {
        object: format!("the journal of session {session}"),
        reason: reason.to_string(),
    }
}
