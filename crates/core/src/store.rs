//! The traits of a store, one per capability. Every implementation passes the conformance suite of
//! `segno-testkit`, which checks what the docs here promise.

use crate::agent_state::Expected;
use crate::checkpoint::Manifest;
use crate::digest::Digest;
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::id::{CheckpointId, Name, SessionId};
use crate::journal::{
    AgentStateChanged, Head, JournalEvent, NoteWithdrawn, NotesWritten, Record, Run, Seq,
    StopRequested,
};
use crate::lease::{Lease, Owner};
use crate::ports::Boxed;
use crate::preview::Preview;
use crate::session::{self, Status};
use crate::step::Path;
use crate::time::Timestamp;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// What the store knows about a session without reading its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub id: SessionId,
    pub name: Name,
    pub kind: session::Kind,
    /// The status according to the journal. Whether the owner process is alive is the lease's business.
    pub status: Status,
    pub workspace: String,
    /// The digest of the session's spec, if it has one.
    pub spec_digest: Option<Digest>,
    /// The time of the first event.
    pub created_at: Timestamp,
    /// The time of the last event. For an imported conversation, that of its last message.
    pub updated_at: Timestamp,
    /// The newest run.
    pub run: Run,
    /// The journal's head.
    pub head: Head,
}

/// The future that every store method returns.
pub type Reply<'a, T> = Boxed<'a, Result<T, Error>>;

/// Why a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("session {0} does not exist")]
    NoSession(SessionId),
    #[error("blob {0} does not exist")]
    NoBlob(Digest),
    #[error("the name `{0}` is already in use")]
    NameTaken(Name),
    /// The error does not contain the name (P12).
    #[error("the session's name looks like a secret")]
    SecretName,
    /// The id is in use, possibly by a session in the trash. Nothing was written.
    #[error("session {0} already exists")]
    Exists(SessionId),
    /// A newer run was granted. The writer must stop permanently; nothing was written.
    #[error("session {session} was taken over: run {newest} has started, and this is run {run}")]
    Fenced {
        session: SessionId,
        /// The run that tried to write.
        run: Run,
        newest: Run,
    },
    /// The lease changed between the read and the request. Read it again.
    #[error("another process acquired session {0} at the same time")]
    LeaseChanged(SessionId),
    /// The journal does not end where the writer expects. A bug in the writer.
    #[error("the journal of session {session} ends at event {found}, not {expected}")]
    WrongHead {
        session: SessionId,
        expected: Seq,
        found: Seq,
    },
    /// A step would have been finished twice (P7). Nothing was written.
    #[error("a step of session {0} is already finished")]
    FinishedTwice(SessionId),
    /// An event that cannot follow the events before it. A bug in the writer; nothing was written.
    #[error("an event cannot be appended to session {session}: {reason}")]
    IllegalEvent { session: SessionId, reason: String },
    /// The disk is full. Nothing was written; the operation works again when space is free.
    #[error("no space left in {place}")]
    DiskFull { place: String },
    /// The operation failed and may succeed later. Nothing was written.
    #[error("{place} cannot be used: {reason}")]
    Unavailable { place: String, reason: String },
    /// Stored data is not what was written (P9).
    #[error("{object} is damaged: {reason}")]
    Damaged {
        /// The damaged object; includes the session where there is one.
        object: String,
        reason: String,
    },
    /// A newer version of the program wrote the store.
    #[error("{place} has format {found}; this version of Segno reads formats up to {known}")]
    Newer {
        place: String,
        /// The store's format.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// The folder is not safe to store sessions in.
    #[error("{place} is not safe: {reason}")]
    Unsafe { place: String, reason: String },
    /// The store is behind a server, which gives this reason.
    #[error("{message}")]
    Elsewhere {
        message: String,
        diagnosis: Box<Diagnosis>,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoSession(_) => Diagnosis::new(Kind::NotFound, "S0101"),
            Self::NoBlob(_) => Diagnosis::new(Kind::NotFound, "J0103"),
            Self::NameTaken(name) => Diagnosis::new(Kind::Conflict, "S0102").hint(format!(
                "choose another `--name`; `segno show {name}` shows the session that has it"
            )),
            Self::SecretName => Diagnosis::new(Kind::Invalid, "S0119")
                .hint("names are stored and shown; choose another `--name`"),
            Self::Exists(_) => Diagnosis::new(Kind::Conflict, "S0113"),
            Self::Fenced { session, .. } => Diagnosis::new(Kind::Fenced, "S0104").hint(format!(
                "`segno show {session}` shows which process runs it now"
            )),
            Self::LeaseChanged(_) => Diagnosis::new(Kind::Locked, "S0103"),
            Self::WrongHead { .. } => Diagnosis::new(Kind::Internal, "J0101"),
            Self::FinishedTwice(_) => Diagnosis::new(Kind::Internal, "J0102"),
            Self::IllegalEvent { .. } => Diagnosis::new(Kind::Internal, "J0106"),
            Self::DiskFull { .. } => Diagnosis::new(Kind::Unavailable, "F0101")
                .hint("free disk space, then `segno resume`"),
            Self::Unavailable { .. } => Diagnosis::new(Kind::Unavailable, "F0102"),
            Self::Damaged { .. } => Diagnosis::new(Kind::Damaged, "J0104")
                .hint("`segno doctor` lists all damage; the other sessions remain usable"),
            Self::Newer { .. } => Diagnosis::new(Kind::Unusable, "F0103")
                .hint("use the newer version of Segno that wrote it"),
            Self::Unsafe { place, .. } => Diagnosis::new(Kind::Forbidden, "F0104").hint(format!(
                "run `chmod go-w {place}`, or set SEGNO_HOME to a folder of your own"
            )),
            Self::Elsewhere { diagnosis, .. } => (**diagnosis).clone(),
        }
    }
}

/// A session to create.
#[derive(Debug, Clone)]
pub struct NewSession {
    pub id: SessionId,
    pub name: Name,
    pub kind: session::Kind,
    pub workspace: String,
    /// The owner of the lease, as run 1.
    pub owner: Owner,
    /// The lease's time to live.
    pub ttl: Duration,
    /// The first events. Their `expected` head is the genesis head.
    pub batch: Batch,
}

/// Events to append in one transaction.
#[derive(Debug, Clone)]
pub struct Batch {
    pub session: SessionId,
    /// The run that appends.
    pub run: Run,
    /// The journal's head before this batch.
    pub expected: Head,
    /// The records, each sealed onto the one before it, starting from `expected`.
    pub records: Vec<Record>,
    /// The session's status after this batch.
    pub status: Status,
    /// The digest of the spec in force after this batch.
    pub spec_digest: Option<Digest>,
    /// The session's new workspace, if these events move it.
    pub workspace: Option<String>,
    /// What the append does to the lease.
    pub lease: LeaseUpdate,
    /// The folded state at the end of the batch, where it is worth caching.
    pub cached_state: Option<CachedState>,
    /// Inbox messages that these events answer; the store deletes them in the same transaction.
    pub handled_messages: Vec<u64>,
}

impl Batch {
    /// The journal's head after this batch.
    pub fn head(&self) -> Head {
        self.records.last().map_or(self.expected, Record::head)
    }
}

/// Whether an append renews or releases the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseUpdate {
    Renew(Duration),
    Release,
}

/// How much disk space is left after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskSpace {
    /// Enough space.
    Sufficient,
    /// Only the reserved space is left, and it is being used up.
    ReserveOnly,
}

/// A folded state: a cache that may be deleted at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedState {
    /// The journal's head when the state was folded.
    pub head: Head,
    /// The version of the fold function.
    pub version: u16,
    /// The state as JSON.
    pub body: String,
}

/// Which sessions to list. The default lists all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only sessions with one of these statuses.
    pub statuses: Option<Vec<Status>>,
    /// Only sessions of one of these kinds.
    pub kinds: Option<Vec<session::Kind>>,
    /// Only sessions with this workspace.
    pub workspace: Option<String>,
    /// Only sessions with this text in their name or workspace, in any case.
    pub text: Option<String>,
    /// Only sessions whose name or id begins with this.
    pub prefix: Option<String>,
    /// Only sessions older than this one.
    pub before: Option<SessionId>,
    /// The newest ones, at most this many.
    pub limit: Option<usize>,
}

impl Filter {
    /// Only sessions that may change: those that no run has ended for good.
    pub fn open() -> Self {
        let open = Status::ALL.iter().filter(|status| !status.is_final());
        Self {
            statuses: Some(open.copied().collect()),
            ..Self::default()
        }
    }

    /// Whether a session passes, apart from the limit.
    pub fn accepts(&self, summary: &Summary) -> bool {
        let starts = |prefix: &String| {
            let id = summary.id.to_string();
            summary.name.as_str().starts_with(prefix)
                || id.starts_with(&prefix.to_ascii_uppercase())
        };
        let has_text = |text: &String| {
            let text = text.to_lowercase();
            let places = [summary.name.as_str(), &summary.workspace];
            places.iter().any(|it| it.to_lowercase().contains(&text))
        };
        self.statuses
            .as_ref()
            .is_none_or(|it| it.contains(&summary.status))
            && self
                .kinds
                .as_ref()
                .is_none_or(|it| it.contains(&summary.kind))
            && self.text.as_ref().is_none_or(has_text)
            && self
                .workspace
                .as_ref()
                .is_none_or(|it| *it == summary.workspace)
            && self.prefix.as_ref().is_none_or(starts)
            && self.before.is_none_or(|it| summary.id < it)
    }
}

/// Creates and lists sessions.
pub trait Sessions: Send + Sync {
    /// Creates a session with its first events and its lease. When this returns, all of it is durable,
    /// or nothing was written. `Exists` if the id is in use.
    fn create(&self, new: NewSession) -> Reply<'_, Lease>;

    /// The summary of one session.
    fn summary(&self, session: SessionId) -> Reply<'_, Summary>;

    /// The session that uses a name. Sessions in the trash use none.
    fn find_named(&self, name: Name) -> Reply<'_, Option<SessionId>>;

    /// The sessions that pass the filter and are not in the trash, newest first. Damage to one does
    /// not hide the others: a session that cannot be read may be the one that the caller means, so
    /// it is listed as an error whatever the filter asks for, and does not count for the limit.
    fn list(&self, filter: Filter) -> Reply<'_, Vec<Result<Summary, Error>>>;
}

/// Moves sessions to the trash, restores them and destroys them. Only a session in the trash can be
/// destroyed (P8).
pub trait Trash: Send + Sync {
    /// Moves a session to the trash if its lease still equals `seen`; otherwise `LeaseChanged`. From then on
    /// the session is not listed, its name is free, no process can acquire its lease or post to it, and
    /// the previous lease owner is fenced. Its data can still be read by id.
    ///
    /// Without `seen` the store compares nothing: for a damaged session whose lease cannot be read.
    fn discard(&self, session: SessionId, seen: Option<Lease>) -> Reply<'_, ()>;

    /// The sessions in the trash, newest first. Damage to one does not hide the others.
    fn list_trash(&self) -> Reply<'_, Vec<Result<TrashedSession, Error>>>;

    /// Restores a session from the trash, under `name` or its old name; `NameTaken` if another session
    /// uses that name now. `NoSession` if it is not in the trash.
    fn restore(&self, session: SessionId, name: Option<Name>) -> Reply<'_, ()>;

    /// Destroys a session in the trash with its journal; `NoSession` if it is not there. Blobs stay
    /// until a sweep deletes them.
    fn destroy(&self, session: SessionId) -> Reply<'_, ()>;
}

/// A session in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashedSession {
    pub session: SessionId,
    /// The session's name; absent if it could not be read.
    pub name: Option<Name>,
    /// When the session was moved to the trash.
    pub at: Timestamp,
}

impl TrashedSession {
    /// The name to show; derived from the id if the name could not be read.
    pub fn shown_name(&self) -> Name {
        let like_id = || Name::sanitized(&self.session.to_string());
        self.name.clone().unwrap_or_else(like_id)
    }
}

/// Appends to and reads journals.
pub trait Journal: Send + Sync {
    /// Appends a batch. One transaction compares the run with the newest granted run (P3) and the head
    /// with the expected head, writes the records, moves the head, sets the status and the workspace,
    /// renews or releases the lease, and deletes answered inbox messages. Durable when it returns (P1).
    ///
    /// Repeating a batch that was already appended, for example after an unknown outcome, is not an
    /// error and changes nothing: the head's hash shows that the batch is there.
    ///
    /// If the disk is full, the store falls back to reserved space, so that a model answer that was paid
    /// for is not lost; [`DiskSpace::ReserveOnly`] then tells the caller to start nothing new.
    fn append(&self, batch: Batch) -> Reply<'_, DiskSpace>;

    /// Up to `limit` events after `after`, each verified against the hash chain (P9). Fewer than `limit`
    /// means that the journal ends there, which is verified too: a journal that ends before the position
    /// that the store last acknowledged is damaged, never merely short.
    fn read(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<JournalEvent>>;

    /// The same as [`Journal::read`], as stored records.
    fn records(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<Record>>;

    /// One event, verified.
    fn event(&self, session: SessionId, seq: Seq) -> Reply<'_, JournalEvent>;

    /// The event that finished a step in a revision, verified. A missing event is damage: the caller has
    /// already seen it.
    fn finished_event(
        &self,
        session: SessionId,
        path: Path,
        revision: u32,
    ) -> Reply<'_, JournalEvent>;

    /// The newest folded state, if a usable one exists.
    fn cached_state(&self, session: SessionId) -> Reply<'_, Option<CachedState>>;
}

/// Tells when journals grow, whichever process appends.
pub trait Changes: Send + Sync {
    /// Starts to watch all sessions. Needs a runtime that drives I/O. `Unavailable` if the machine cannot
    /// watch any more; then the caller reads at intervals.
    fn watch(&self) -> Result<Box<dyn Watch>, Error>;
}

/// Shows other processes of this machine what running answers say so far. Nothing of it is durable, and
/// nothing may depend on it.
pub trait Previews: Send + Sync {
    /// Replaces the preview of a session. Readers see the old one or the new one. Only the owner of the
    /// lease may call it.
    fn put_preview(&self, session: SessionId, preview: Preview) -> Reply<'_, ()>;

    /// The preview of a session, if there is one. It may be of a run that was killed.
    fn preview(&self, session: SessionId) -> Reply<'_, Option<Preview>>;

    /// Removes the preview of a session; a missing one is not an error.
    fn remove_preview(&self, session: SessionId) -> Reply<'_, ()>;

    /// Starts to watch the previews of all sessions, as [`Changes::watch`] does for journals.
    fn watch_previews(&self) -> Result<Box<dyn Watch>, Error>;
}

/// A watch on all sessions. Dropping it ends it.
pub trait Watch: Send {
    /// Waits until something was appended, created, moved to the trash or restored since the watch
    /// started or since the last call returned. What is reported can be read. Nothing is missed, but a
    /// change may be reported twice; and what a process appended that was killed before it could report
    /// is reported with the session's next change.
    fn changed(&mut self) -> Boxed<'_, Changed>;
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    Sessions(BTreeSet<SessionId>),
    /// Reports were lost: any session may have changed.
    Any,
}

/// Grants the right to append.
pub trait Leases: Send + Sync {
    /// The lease's current state.
    fn lease(&self, session: SessionId) -> Reply<'_, Lease>;

    /// Grants the next run to `owner` if the lease still equals `seen`; otherwise `LeaseChanged`. Of
    /// any number of callers that saw the same lease, exactly one succeeds. A heartbeat after the read
    /// makes the call fail, and so does a living process that holds the owner's lock.
    fn acquire(&self, seen: Lease, owner: Owner, ttl: Duration) -> Reply<'_, Lease>;

    /// Renews the lease of `run`; `Fenced` if a newer run was granted.
    fn heartbeat(&self, session: SessionId, run: Run, ttl: Duration) -> Reply<'_, ()>;

    /// Releases the lease of `run` without an event. Does nothing if a newer run was granted.
    fn release(&self, session: SessionId, run: Run) -> Reply<'_, ()>;
}

/// Requests to a session. Any process may post at any time; the lease owner moves them into the journal.
pub trait Inbox: Send + Sync {
    /// Posts a message; durable when it returns.
    fn post(&self, session: SessionId, at: Timestamp, message: InboxMessage) -> Reply<'_, ()>;

    /// The messages that no run has handled yet, oldest first, each with the number that
    /// [`Batch::handled_messages`] refers to.
    fn pending(&self, session: SessionId) -> Reply<'_, Vec<(u64, InboxMessage)>>;
}

/// A request to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum InboxMessage {
    Stop(StopRequested),
    /// The answer to a question that a step asked.
    Answer {
        path: Path,
        text: String,
        by: String,
    },
    /// Notes for the next run.
    #[serde(rename = "memos")]
    Notes(NotesWritten),
    /// A withdrawn note.
    #[serde(rename = "withdraw")]
    WithdrawNote(NoteWithdrawn),
    /// A change of an agent's state, and the value that must be there for it, if it needs one.
    AgentState {
        change: AgentStateChanged,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<Expected>,
    },
}

/// Content-addressed values.
pub trait Blobs: Send + Sync {
    /// Stores `bytes`; durable when it returns. Storing them again is not an error and resets their age.
    fn put(&self, bytes: Vec<u8>) -> Reply<'_, Digest>;

    /// The bytes of a digest, verified (P9).
    fn get(&self, digest: Digest) -> Reply<'_, Vec<u8>>;

    /// Every digest in the store.
    fn digests(&self) -> Reply<'_, Vec<Digest>>;

    /// Deletes blobs that are not in `kept` and were last put before `before`. A concurrent `put` of the
    /// same bytes finds them afterwards, or stores them again.
    fn sweep(&self, kept: BTreeSet<Digest>, before: Timestamp) -> Reply<'_, Swept>;
}

/// What a sweep deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub blobs: u64,
    /// The blobs' total size.
    pub bytes: u64,
}

/// Stores checkpoints. Each is named by its id and sealed with this installation's key.
pub trait Checkpoints: Send + Sync {
    /// Stores a checkpoint; durable when it returns. The caller makes everything that the manifest
    /// references durable before. `key` becomes the installation's key if there is none yet.
    fn put_checkpoint(&self, manifest: Manifest, key: [u8; 32]) -> Reply<'_, ()>;

    /// All checkpoints, or those of one session, oldest first. Damage to one does not hide the others
    /// (P9).
    fn list_checkpoints(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<Result<Manifest, Error>>>;

    /// The ids of all checkpoints, or of those of one session, oldest first. The store reads none of the
    /// manifests, so some may be damaged.
    fn list_checkpoint_ids(
        &self,
        session: Option<SessionId>,
    ) -> Reply<'_, Vec<(SessionId, CheckpointId)>>;

    /// One checkpoint, verified; `None` if it does not exist.
    fn get_checkpoint(
        &self,
        session: SessionId,
        checkpoint: CheckpointId,
    ) -> Reply<'_, Option<Manifest>>;

    /// Deletes a checkpoint. The data that it references stays until a sweep deletes it. Deleting a
    /// missing checkpoint is not an error.
    fn delete_checkpoint(&self, session: SessionId, checkpoint: CheckpointId) -> Reply<'_, ()>;
}

/// Looks for damage that reading one session does not show.
pub trait Examine: Send + Sync {
    /// All findings; empty if the store is healthy.
    fn examine(&self) -> Reply<'_, Vec<Finding>>;
}

/// A problem that an examination found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The affected session, if the finding belongs to one.
    pub session: Option<SessionId>,
    /// The affected object.
    pub object: String,
    pub problem: String,
    pub severity: Severity,
}

/// How severe a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Data was lost or cannot be trusted.
    Damage,
    /// Nothing is lost, but the user should know.
    Notice,
}

/// Everything that the engine needs of a store.
pub trait Store:
    Sessions + Trash + Journal + Changes + Previews + Leases + Inbox + Blobs + Checkpoints + Examine
{
}

impl<
    T: Sessions
        + Trash
        + Journal
        + Changes
        + Previews
        + Leases
        + Inbox
        + Blobs
        + Checkpoints
        + Examine,
> Store for T
{
}
