//! The sessions of a server as a store that can be read.
//!
//! Records are verified against the hash chain as they arrive (P9), and blobs against their digest:
//! what a command shows is what the server's journal has. Everything that writes is refused: a
//! server's sessions are changed by requests, with [`RemoteControl`](crate::RemoteControl).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::error::Kind;
use segno_core::id::{CheckpointId, Name, SessionId};
use segno_core::journal::{Event, Head, JournalEvent, Record, Run, Seq};
use segno_core::lease::{Lease, Owner};
use segno_core::preview::Preview;
use segno_core::step::Path;
use segno_core::store::{
    Batch, Blobs, CachedState, Changes, Checkpoints, DiskSpace, Error as StoreError, Examine,
    Filter, Finding, Inbox, InboxMessage, Journal, Leases, NewSession, Previews, Reply, Sessions,
    Summary, Swept, Trash, TrashedSession, Watch,
};
use segno_core::time::Timestamp;
use segno_sessions::stored::{StoredRecord, StoredSession, StoredSummary, StoredTrash};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::connection::{Connection, encoded};
use crate::error::Error;
use crate::owners::RemoteOwners;
use crate::watch::RemoteWatch;

/// How many sessions or records are read at a time.
const PAGE: usize = 2000;

/// The sessions of a server.
pub struct RemoteStore {
    connection: Arc<Connection>,
    owners: Arc<RemoteOwners>,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T, N = Option<SessionId>> {
    items: Vec<T>,
    #[serde(default)]
    damaged: Vec<DamagedItem>,
    next: N,
}

/// A list that has no pages.
#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
    #[serde(default)]
    damaged: Vec<DamagedItem>,
}

#[derive(Deserialize)]
struct DamagedItem {
    problem: String,
}

impl DamagedItem {
    fn error(self) -> StoreError {
        let message = self.problem;
        let diagnosis = segno_core::error::Diagnosis::new(Kind::Damaged, "J0104")
            .hint("`segno doctor` on the machine of the server lists all damage");
        StoreError::Elsewhere {
            message,
            diagnosis: Box::new(diagnosis),
        }
    }
}

impl RemoteStore {
    pub(crate) fn new(connection: Arc<Connection>, owners: Arc<RemoteOwners>) -> Self {
        Self { connection, owners }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, StoreError> {
        Ok(self.connection.get(path).await?)
    }

    /// What the server has about one session, whatever its name is.
    async fn stored(&self, session: SessionId) -> Result<StoredSession, StoreError> {
        let path = format!("/api/v1/stored/{session}");
        match self.connection.get(&path).await {
            Err(Error::Refused(problem)) if problem.kind() == Kind::NotFound => {
                Err(StoreError::NoSession(session))
            }
            found => Ok(found?),
        }
    }

    /// The page of records after an event.
    async fn page_after(
        &self,
        session: SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let path = format!("/api/v1/stored/{session}/records?after={after}&limit={limit}");
        let page: Page<StoredRecord, Option<Seq>> = self.get(&path).await?;
        Ok(page.items.into_iter().map(Record::from).collect())
    }

    /// Up to `limit` records after `head`.
    async fn records_after(
        &self,
        session: SessionId,
        mut head: Head,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        loop {
            let wanted = (limit - records.len()).min(PAGE);
            if wanted == 0 {
                return Ok(records);
            }
            let page = self.page_after(session, head.seq, wanted).await?;
            let is_last = page.len() < wanted;
            head = page.last().map_or(head, Record::head);
            records.extend(page);
            if is_last {
                return Ok(records);
            }
        }
    }

    fn opened(
        &self,
        session: SessionId,
        head: Head,
        record: &Record,
    ) -> Result<JournalEvent, StoreError> {
        let opened = head.open(record);
        opened.map_err(|broken| self.damaged(session, broken.to_string()))
    }

    fn damaged(&self, session: SessionId, reason: String) -> StoreError {
        let address = self.connection.address();
        StoreError::Damaged {
            object: format!("the journal of session {session} as {address} sent it"),
            reason,
        }
    }

    /// What a store does that is written to.
    fn refused<T: Send + 'static>(&self) -> Reply<'_, T> {
        let place = self.connection.address().to_string();
        let reason = "only the server writes its sessions".to_owned();
        Box::pin(std::future::ready(Err(StoreError::Unavailable {
            place,
            reason,
        })))
    }
}

fn words<T: ToString>(name: &str, words: Option<&[T]>) -> String {
    let Some(words) = words else {
        return String::new();
    };
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    format!("&{name}={}", encoded(&words.join(",")))
}

fn word(name: &str, word: Option<&str>) -> String {
    word.map_or(String::new(), |word| format!("&{name}={}", encoded(word)))
}

impl Sessions for RemoteStore {
    fn create(&self, _: NewSession) -> Reply<'_, Lease> {
        self.refused()
    }

    fn summary(&self, session: SessionId) -> Reply<'_, Summary> {
        Box::pin(async move { Ok(self.stored(session).await?.summary.into()) })
    }

    fn find_named(&self, name: Name) -> Reply<'_, Option<SessionId>> {
        Box::pin(async move {
            let path = format!("/api/v1/stored?name={}", encoded(name.as_str()));
            let page: Page<StoredSummary> = self.get(&path).await?;
            Ok(page.items.first().map(|found| found.session))
        })
    }

    fn list(&self, filter: Filter) -> Reply<'_, Vec<Result<Summary, StoreError>>> {
        Box::pin(async move {
            let wanted = [
                words("status", filter.statuses.as_deref()),
                words("kind", filter.kinds.as_deref()),
                word("workspace", filter.workspace.as_deref()),
                word("text", filter.text.as_deref()),
                word("prefix", filter.prefix.as_deref()),
            ];
            let (mut found, mut before) = (Vec::new(), filter.before);
            loop {
                let left = filter.limit.map_or(PAGE, |limit| limit - found.len());
                if left == 0 {
                    return Ok(found);
                }
                let mut path = format!("/api/v1/stored?limit={}", left.min(PAGE));
                path.extend(wanted.iter().map(String::as_str));
                if let Some(before) = before {
                    path.extend(["&before=", &before.to_string()]);
                }
                let page: Page<StoredSummary> = self.get(&path).await?;
                let is_first = before.is_none();
                found.extend(page.items.into_iter().map(|one| Ok(one.into())));
                // Every page names all damaged sessions.
                if is_first {
                    let damaged = page.damaged.into_iter();
                    found.extend(damaged.map(|one| Err(one.error())));
                }
                match page.next {
                    Some(next) => before = Some(next),
                    None => return Ok(found),
                }
            }
        })
    }
}

impl Trash for RemoteStore {
    fn discard(&self, _: SessionId, _: Option<Lease>) -> Reply<'_, ()> {
        self.refused()
    }

    fn list_trash(&self) -> Reply<'_, Vec<Result<TrashedSession, StoreError>>> {
        Box::pin(async move {
            let list: List<StoredTrash> = self.get("/api/v1/trash").await?;
            let found = list.items.into_iter().map(|one| Ok(one.into()));
            let damaged = list.damaged.into_iter().map(|one| Err(one.error()));
            Ok(found.chain(damaged).collect())
        })
    }

    fn restore(&self, _: SessionId, _: Option<Name>) -> Reply<'_, ()> {
        self.refused()
    }

    fn destroy(&self, _: SessionId) -> Reply<'_, ()> {
        self.refused()
    }
}

impl Journal for RemoteStore {
    fn append(&self, _: Batch) -> Reply<'_, DiskSpace> {
        self.refused()
    }

    fn read(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<JournalEvent>> {
        Box::pin(async move {
            let (mut head, mut events) = (after, Vec::new());
            for record in self.records_after(session, after, limit).await? {
                let event = self.opened(session, head, &record)?;
                head = event.head();
                events.push(event);
            }
            Ok(events)
        })
    }

    fn records(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<Record>> {
        Box::pin(async move {
            let records = self.records_after(session, after, limit).await?;
            let mut head = after;
            for record in &records {
                head = self.opened(session, head, record)?.head();
            }
            Ok(records)
        })
    }

    fn event(&self, session: SessionId, seq: Seq) -> Reply<'_, JournalEvent> {
        Box::pin(async move {
            // With the record before it, whose hash it continues.
            let before = Seq(seq.0.saturating_sub(2));
            let wanted = if seq.0 < 2 { 1 } else { 2 };
            let page = self.page_after(session, before, wanted).await?;
            let head = match &page[..] {
                [before, _] => before.head(),
                _ => Head::genesis(session),
            };
            match page.last() {
                Some(record) if record.seq == seq => self.opened(session, head, record),
                _ => Err(self.damaged(session, format!("event {seq} is missing"))),
            }
        })
    }

    fn finished_event(
        &self,
        session: SessionId,
        path: Path,
        revision: u32,
    ) -> Reply<'_, JournalEvent> {
        Box::pin(async move {
            let mut head = Head::genesis(session);
            loop {
                let page = self.read(session, head, PAGE).await?;
                head = page.last().map_or(head, JournalEvent::head);
                let is_last = page.len() < PAGE;
                let is_wanted = |event: &JournalEvent| {
                    matches!(event.event, Event::StepFinished(_))
                        && event.event.step() == Some((&path, revision))
                };
                if let Some(found) = page.into_iter().find(is_wanted) {
                    return Ok(found);
                }
                if is_last {
                    return Err(self.damaged(session, format!("step {path} is not finished")));
                }
            }
        })
    }

    fn cached_state(&self, session: SessionId) -> Reply<'_, Option<CachedState>> {
        Box::pin(async move { Ok(self.stored(session).await?.state.map(CachedState::from)) })
    }
}

impl Changes for RemoteStore {
    fn watch(&self) -> Result<Box<dyn Watch>, StoreError> {
        Ok(Box::new(RemoteWatch::new(Arc::clone(&self.connection))))
    }
}

impl Previews for RemoteStore {
    fn put_preview(&self, _: SessionId, _: Preview) -> Reply<'_, ()> {
        self.refused()
    }

    /// None: a server sends previews in its event streams only.
    fn preview(&self, _: SessionId) -> Reply<'_, Option<Preview>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn remove_preview(&self, _: SessionId) -> Reply<'_, ()> {
        self.refused()
    }

    fn watch_previews(&self) -> Result<Box<dyn Watch>, StoreError> {
        Err(StoreError::Unavailable {
            place: self.connection.address().to_string(),
            reason: "a server sends previews in its event streams only".to_owned(),
        })
    }
}

impl Leases for RemoteStore {
    fn lease(&self, session: SessionId) -> Reply<'_, Lease> {
        Box::pin(async move {
            let stored = self.stored(session).await?.lease;
            if let Some(owner) = &stored.owner {
                self.owners.note(owner, stored.is_stopped);
            }
            Ok(stored.into_lease(session))
        })
    }

    fn acquire(&self, _: Lease, _: Owner, _: Duration) -> Reply<'_, Lease> {
        self.refused()
    }

    fn heartbeat(&self, _: SessionId, _: Run, _: Duration) -> Reply<'_, ()> {
        self.refused()
    }

    fn release(&self, _: SessionId, _: Run) -> Reply<'_, ()> {
        self.refused()
    }
}

impl Inbox for RemoteStore {
    fn post(&self, _: SessionId, _: Timestamp, _: InboxMessage) -> Reply<'_, ()> {
        self.refused()
    }

    fn pending(&self, session: SessionId) -> Reply<'_, Vec<(u64, InboxMessage)>> {
        Box::pin(async move { Ok(self.stored(session).await?.inbox) })
    }
}

impl Blobs for RemoteStore {
    fn put(&self, _: Vec<u8>) -> Reply<'_, Digest> {
        self.refused()
    }

    fn get(&self, digest: Digest) -> Reply<'_, Vec<u8>> {
        Box::pin(async move {
            let path = format!("/api/v1/blobs/{digest}");
            let bytes = match self.connection.bytes(&path).await {
                Err(Error::Refused(problem)) if problem.code() == "J0103" => {
                    return Err(StoreError::NoBlob(digest));
                }
                bytes => bytes?,
            };
            if Digest::of(&bytes) == digest {
                return Ok(bytes);
            }
            Err(StoreError::Damaged {
                object: format!("blob {digest} as {} sent it", self.connection.address()),
                reason: "it has another digest".to_owned(),
            })
        })
    }

    fn digests(&self) -> Reply<'_, Vec<Digest>> {
        self.refused()
    }

    fn sweep(&self, _: BTreeSet<Digest>, _: Timestamp) -> Reply<'_, Swept> {
        self.refused()
    }
}

impl Checkpoints for RemoteStore {
    fn put_checkpoint(&self, _: Manifest, _: [u8; 32]) -> Reply<'_, ()> {
        self.refused()
    }

    fn list_checkpoints(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<Result<Manifest, StoreError>>> {
        Box::pin(async move {
            let path = match session {
                Some(session) => format!("/api/v1/manifests?session={session}"),
                None => "/api/v1/manifests".to_owned(),
            };
            let list: List<Manifest> = self.get(&path).await?;
            let damaged = list.damaged.into_iter().map(|one| Err(one.error()));
            Ok(list.items.into_iter().map(Ok).chain(damaged).collect())
        })
    }

    fn list_checkpoint_ids(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<(SessionId, CheckpointId)>> {
        Box::pin(async move {
            let found = self.list_checkpoints(session).await?.into_iter().flatten();
            Ok(found.map(|one| (one.session, one.id)).collect())
        })
    }

    fn get_checkpoint(
        &self,
        session: SessionId,
        checkpoint: CheckpointId,
    ) -> Reply<'_, Option<Manifest>> {
        Box::pin(async move {
            let found = self.list_checkpoints(Some(session)).await?;
            Ok(found.into_iter().flatten().find(|one| one.id == checkpoint))
        })
    }

    fn delete_checkpoint(&self, _: SessionId, _: CheckpointId) -> Reply<'_, ()> {
        self.refused()
    }
}

impl Examine for RemoteStore {
    fn examine(&self) -> Reply<'_, Vec<Finding>> {
        self.refused()
    }
}
