//! What a store can do, cut by ability. Every implementation passes the conformance suite of
//! `segno-testkit`; what is written here is what that suite checks.

use crate::checkpoint::Manifest;
use crate::digest::Digest;
use crate::error::{Diagnose, Kind};
use crate::id::{CheckpointId, Name, SessionId};
use crate::journal::{Entry, Head, MemoWithdrawn, MemosWritten, Record, Run, Seq, StopRequested};
use crate::lease::{Lease, Owner};
use crate::ports::Boxed;
use crate::session::{self, Status, Summary};
use crate::step::Path;
use crate::time::Timestamp;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// What a store answers, in its own time.
pub type Reply<'a, T> = Boxed<'a, Result<T, Error>>;

/// Why a store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such session.
    #[error("session {0} does not exist")]
    NoSession(SessionId),
    /// There is no such blob.
    #[error("blob {0} does not exist")]
    NoBlob(Digest),
    /// A session of that name exists.
    #[error("the name `{0}` is taken")]
    NameTaken(Name),
    /// The id is in use, in the trash perhaps. Nothing was written.
    #[error("session {0} exists already")]
    Exists(SessionId),
    /// A newer run was granted. The writer must stop for good; nothing was written.
    #[error("session {session} was taken over: this is run {run}, and run {newest} has begun")]
    Fenced {
        /// The session.
        session: SessionId,
        /// The run that tried.
        run: Run,
        /// The newest run.
        newest: Run,
    },
    /// The lease changed between looking and asking. Look again.
    #[error("session {0} was granted to someone else in the same moment")]
    Outrun(SessionId),
    /// The journal does not end where the writer thinks. A fault of the writer.
    #[error("the journal of session {session} ends at record {found}, not {expected}")]
    WrongHead {
        /// The session.
        session: SessionId,
        /// Where the writer thinks it ends.
        expected: Seq,
        /// Where it ends.
        found: Seq,
    },
    /// A step would have been finished twice (P7). Nothing was written.
    #[error("a step of session {0} is finished already")]
    FinishedTwice(SessionId),
    /// An entry that cannot follow what came before it. A fault of the writer; nothing was written.
    #[error("an entry for session {session} makes no sense: {reason}")]
    Senseless {
        /// The session.
        session: SessionId,
        /// What is wrong.
        reason: String,
    },
    /// No room. Nothing was written; it works again when there is room.
    #[error("no space left in {place}")]
    Full {
        /// Where.
        place: String,
    },
    /// It did not work now and may work later. Nothing was written.
    #[error("{place} cannot be used: {reason}")]
    Unavailable {
        /// What.
        place: String,
        /// Why.
        reason: String,
    },
    /// Stored data is not what was written (P9).
    #[error("{object} is damaged: {reason}")]
    Damaged {
        /// What is damaged; names the session where there is one.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// The store was written by a newer program.
    #[error("{place} has format {found}, and this program knows formats up to {known}")]
    Newer {
        /// Which store.
        place: String,
        /// Its format.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// The place is not safe to keep sessions in.
    #[error("{place} is not safe: {reason}")]
    Unsafe {
        /// Where.
        place: String,
        /// Why.
        reason: String,
    },
}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::NoSession(_) | Error::NoBlob(_) => Kind::NotFound,
            Error::NameTaken(_) | Error::Exists(_) | Error::Outrun(_) => Kind::Conflict,
            Error::Fenced { .. } => Kind::Fenced,
            Error::WrongHead { .. } | Error::FinishedTwice(_) | Error::Senseless { .. } => {
                Kind::Internal
            }
            Error::Full { .. } | Error::Unavailable { .. } => Kind::Unavailable,
            Error::Damaged { .. } => Kind::Damaged,
            Error::Newer { .. } => Kind::Invalid,
            Error::Unsafe { .. } => Kind::Forbidden,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Error::NoSession(_) => "S0101",
            Error::NameTaken(_) => "S0102",
            Error::Exists(_) => "S0113",
            Error::Outrun(_) => "S0103",
            Error::Fenced { .. } => "S0104",
            Error::WrongHead { .. } => "J0101",
            Error::FinishedTwice(_) => "J0102",
            Error::NoBlob(_) => "J0103",
            Error::Senseless { .. } => "J0106",
            Error::Damaged { .. } => "J0104",
            Error::Full { .. } => "F0101",
            Error::Unavailable { .. } => "F0102",
            Error::Newer { .. } => "F0103",
            Error::Unsafe { .. } => "F0104",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Full { .. } => Some("make room, then `segno resume`".into()),
            Error::NameTaken(name) => Some(format!(
                "choose another `--name`; `segno sessions show {name}` shows the one that has it"
            )),
            Error::Damaged { .. } => Some(
                "`segno doctor` names everything that is damaged; the other sessions stay usable"
                    .into(),
            ),
            Error::Newer { .. } => Some("use the newer segno that wrote it".into()),
            Error::Fenced { session, .. } => Some(format!(
                "`segno sessions show {session}` tells who has it now"
            )),
            Error::Unsafe { place, .. } => Some(format!(
                "`chmod go-w {place}` or point SEGNO_HOME at a folder of your own"
            )),
            _ => None,
        }
    }
}

/// A session to be made.
#[derive(Debug, Clone)]
pub struct New {
    /// Its identifier.
    pub id: SessionId,
    /// What people call it.
    pub name: Name,
    /// What it does.
    pub kind: session::Kind,
    /// The folder it works in.
    pub workspace: String,
    /// Who gets the lease, as run 1.
    pub owner: Owner,
    /// For how long.
    pub ttl: Duration,
    /// The first entries. Their `expected` head is the genesis.
    pub batch: Batch,
}

/// Entries to be appended in one transaction.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The session.
    pub session: SessionId,
    /// The run that appends.
    pub run: Run,
    /// Where the journal ends before it.
    pub expected: Head,
    /// The records, sealed one after the other from `expected`.
    pub records: Vec<Record>,
    /// Where the session stands after it.
    pub status: Status,
    /// The digest of the spec in force after it.
    pub spec_digest: Option<Digest>,
    /// The folder that the session works in from here on, if these entries move it.
    pub workspace: Option<String>,
    /// What becomes of the lease.
    pub lease: Hold,
    /// The folded state at the end of the batch, where it is worth keeping.
    pub folded: Option<Folded>,
    /// Messages of the inbox that these entries answer; they leave it in the same transaction.
    pub taken: Vec<u64>,
}

impl Batch {
    /// Where the journal ends after it.
    pub fn head(&self) -> Head {
        self.records.last().map_or(self.expected, Record::head)
    }
}

/// What an append does to the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Renews it.
    Renew(Duration),
    /// Gives it up.
    Release,
}

/// What is left of the disk after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Enough.
    Plenty,
    /// Only what was set aside; it is being used up.
    Reserve,
}

/// A folded state: a cache that may be thrown away at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The journal's end when it was folded.
    pub head: Head,
    /// The version of the fold.
    pub version: u16,
    /// The state as JSON.
    pub body: String,
}

/// Making and finding sessions.
pub trait Sessions: Send + Sync {
    /// Makes a session with its first entries and its lease: all of it durable when this returns,
    /// or nothing of it. `Exists` if the id is in use.
    fn create(&self, new: New) -> Reply<'_, Lease>;

    /// What is known of one.
    fn summary(&self, session: SessionId) -> Reply<'_, Summary>;

    /// All of them that are not in the trash, newest first. Damage to one does not hide the others.
    fn list(&self) -> Reply<'_, Vec<Result<Summary, Error>>>;
}

/// Throwing sessions away, having them back, and destroying them. Only what is in the trash can be
/// destroyed (P8).
pub trait Trash: Send + Sync {
    /// Throws a session away, if its lease is still as `seen`; otherwise `Outrun`. From then on it is
    /// not listed, its name is free, nobody gets its lease or posts to it, and whoever had the lease
    /// is fenced. What is kept of it can still be read by its id.
    ///
    /// Without `seen` nothing is compared: for a damaged session, whose lease cannot be read.
    fn discard(&self, session: SessionId, seen: Option<Lease>) -> Reply<'_, ()>;

    /// What is in the trash, newest first. Damage to one does not hide the others.
    fn discarded(&self) -> Reply<'_, Vec<Result<Discarded, Error>>>;

    /// Takes a session out of the trash, under `name` or the one that it had; `NameTaken` if another
    /// has it now. `NoSession` if it is not in the trash.
    fn restore(&self, session: SessionId, name: Option<Name>) -> Reply<'_, ()>;

    /// Destroys a session in the trash with its journal; `NoSession` if it is not there. Blobs stay
    /// until they are swept.
    fn destroy(&self, session: SessionId) -> Reply<'_, ()>;
}

/// A session in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// The session.
    pub session: SessionId,
    /// What it was called; absent if that could not be read.
    pub name: Option<Name>,
    /// When it was thrown away.
    pub at: Timestamp,
}

/// Appending to and reading journals.
pub trait Journal: Send + Sync {
    /// Appends a batch. In one transaction: compares the run with the newest granted (P3) and
    /// the head with the expected one, writes the records, moves the head, sets the status and the
    /// folder, renews or releases the lease, takes messages off the inbox. Durable when it returns (P1).
    ///
    /// Repeating a batch that was appended, as after an unknown outcome, is no error and changes
    /// nothing: the head's hash tells that it is there.
    ///
    /// If the disk is full, the store falls back on room that it set aside, so that an answer which
    /// was paid for is not lost; [`Room::Reserve`] then says that nothing new should be begun.
    fn append(&self, batch: Batch) -> Reply<'_, Room>;

    /// Up to `limit` entries after `after`, each verified against it (P9). Fewer than `limit` means
    /// that the journal ends there, which is verified too: a journal that ends before the place the
    /// store last acknowledged is damaged, never short.
    fn read(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<Entry>>;

    /// The same as [`Journal::read`], as it is stored.
    fn records(&self, session: SessionId, after: Head, limit: usize) -> Reply<'_, Vec<Record>>;

    /// One entry, verified.
    fn entry(&self, session: SessionId, seq: Seq) -> Reply<'_, Entry>;

    /// The entry that finished a step in a revision, verified. That there is none is damage: whoever
    /// asks has seen it.
    fn finished(&self, session: SessionId, path: Path, revision: u32) -> Reply<'_, Entry>;

    /// The newest folded state, if there is a usable one.
    fn folded(&self, session: SessionId) -> Reply<'_, Option<Folded>>;
}

/// The right to append.
pub trait Leases: Send + Sync {
    /// How a lease stands.
    fn lease(&self, session: SessionId) -> Reply<'_, Lease>;

    /// Grants the next run to `owner` if the lease is still as it was `seen`; otherwise `Outrun`.
    /// Of any number of askers that saw the same, exactly one succeeds. A heartbeat after the look
    /// makes it fail.
    fn acquire(&self, seen: Lease, owner: Owner, ttl: Duration) -> Reply<'_, Lease>;

    /// Renews the lease of `run`; `Fenced` if a newer one was granted.
    fn heartbeat(&self, session: SessionId, run: Run, ttl: Duration) -> Reply<'_, ()>;

    /// Gives up the lease of `run` without an entry. Nothing happens if a newer one was granted.
    fn release(&self, session: SessionId, run: Run) -> Reply<'_, ()>;
}

/// What others want of a session. Anyone may post at any time; the owner takes it into the journal.
pub trait Inbox: Send + Sync {
    /// Posts a message; durable when it returns.
    fn post(&self, session: SessionId, at: Timestamp, message: Message) -> Reply<'_, ()>;

    /// The messages that were not taken, oldest first, with the number that takes them.
    fn pending(&self, session: SessionId) -> Reply<'_, Vec<(u64, Message)>>;
}

/// A wish.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// Stop.
    Stop(StopRequested),
    /// The answer to a question that a step asked.
    Answer {
        /// The step.
        path: Path,
        /// The answer.
        text: String,
        /// Who gives it.
        by: String,
    },
    /// Something that whoever goes on must know.
    Memos(MemosWritten),
    /// A memo no longer holds.
    Withdraw(MemoWithdrawn),
}

/// Values kept by their content.
pub trait Blobs: Send + Sync {
    /// Keeps `bytes`; durable when it returns. Keeping them twice is no error, and makes them young.
    fn put(&self, bytes: Vec<u8>) -> Reply<'_, Digest>;

    /// The bytes of a digest, verified (P9).
    fn get(&self, digest: Digest) -> Reply<'_, Vec<u8>>;

    /// Every digest there is.
    fn digests(&self) -> Reply<'_, Vec<Digest>>;

    /// Removes what is not among `kept` and was last put before `before`. Whoever puts the same
    /// bytes in that moment finds them there afterwards, or puts them anew.
    fn sweep(&self, kept: BTreeSet<Digest>, before: Timestamp) -> Reply<'_, Swept>;
}

/// What a sweep removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many blobs.
    pub blobs: u64,
    /// How long they were together.
    pub bytes: u64,
}

/// Keeping checkpoints. Each is named by its id, and sealed with a key of this installation.
pub trait Checkpoints: Send + Sync {
    /// Keeps one; durable when it returns. Everything that it names is durable before. `key` becomes
    /// that of this installation if it has none.
    fn keep(&self, manifest: Manifest, key: [u8; 32]) -> Reply<'_, ()>;

    /// All of them, oldest first; those of one session if one is given. Damage to one does not hide
    /// the others (P9).
    fn kept(&self, session: Option<SessionId>) -> Reply<'_, Vec<Result<Manifest, Error>>>;

    /// The names of all that may be read, oldest first; those of one session if one is given. None
    /// of them is read, so some may be damaged.
    fn names(&self, session: Option<SessionId>) -> Reply<'_, Vec<(SessionId, CheckpointId)>>;

    /// One of them, verified; none if it is not there.
    fn one(&self, session: SessionId, checkpoint: CheckpointId) -> Reply<'_, Option<Manifest>>;

    /// Lets go of one. What it named stays until it is swept. That it is gone already is no error.
    fn forget(&self, session: SessionId, checkpoint: CheckpointId) -> Reply<'_, ()>;
}

/// Looking for damage that reading one session does not show.
pub trait Examine: Send + Sync {
    /// Everything found, none if all is well.
    fn examine(&self) -> Reply<'_, Vec<Finding>>;
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The session it belongs to, if it belongs to one.
    pub session: Option<SessionId>,
    /// What it is about.
    pub object: String,
    /// What is wrong.
    pub problem: String,
    /// How bad it is.
    pub severity: Severity,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something was lost or cannot be trusted.
    Damage,
    /// Nothing is lost, and it is worth knowing.
    Notice,
}

/// Everything that a session's life needs of a store.
pub trait Store:
    Sessions + Trash + Journal + Leases + Inbox + Blobs + Checkpoints + Examine
{
}

impl<T: Sessions + Trash + Journal + Leases + Inbox + Blobs + Checkpoints + Examine> Store for T {}
