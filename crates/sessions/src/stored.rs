//! Sessions as they are stored, for programs that keep or read copies of them: the same on the
//! server that sends them and on the client that receives them.
//!
//! A journal is sent as its records, whose hashes the receiver verifies (P9).

use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Head, Record, Run, Seq};
use segno_core::lease::{Lease, LeaseDecision, Owner, OwnerLock};
use segno_core::session::{Kind, Status};
use segno_core::store::{CachedState, InboxMessage, Summary, TrashedSession};
use segno_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What the store knows about a session without its journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSummary {
    pub session: SessionId,
    pub name: String,
    pub session_kind: Kind,
    /// The status in the journal: `running` also if the run was lost.
    pub status: Status,
    pub workspace: String,
    pub spec_digest: Option<Digest>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub run: Run,
    pub head: Head,
}

impl From<Summary> for StoredSummary {
    fn from(summary: Summary) -> Self {
        Self {
            session: summary.id,
            name: summary.name.to_string(),
            session_kind: summary.kind,
            status: summary.status,
            workspace: summary.workspace,
            spec_digest: summary.spec_digest,
            created_at: summary.created_at,
            updated_at: summary.updated_at,
            run: summary.run,
            head: summary.head,
        }
    }
}

impl From<StoredSummary> for Summary {
    fn from(stored: StoredSummary) -> Self {
        Self {
            id: stored.session,
            name: name(&stored.name, stored.session),
            kind: stored.session_kind,
            status: stored.status,
            workspace: stored.workspace,
            spec_digest: stored.spec_digest,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            run: stored.run,
            head: stored.head,
        }
    }
}

/// A name from elsewhere; one that cannot be a name is replaced by the id.
fn name(text: &str, session: SessionId) -> Name {
    Name::new(text).unwrap_or_else(|_| Name::sanitized(&session.to_string()))
}

/// Who runs a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLease {
    pub run: Run,
    pub owner: Option<Owner>,
    pub since: Timestamp,
    pub until: Timestamp,
    pub remaining_ms: u64,
    /// Whether the owner's process lives, as the machine of the store sees it.
    pub is_held: bool,
    /// Whether that process is stopped (SIGSTOP).
    pub is_stopped: bool,
}

impl StoredLease {
    pub fn new(lease: Lease, decision: LeaseDecision) -> Self {
        Self {
            run: lease.run,
            owner: lease.owner,
            since: lease.since,
            until: lease.until,
            remaining_ms: u64::try_from(lease.remaining.as_millis()).unwrap_or(u64::MAX),
            is_held: decision.is_held(),
            is_stopped: decision == LeaseDecision::HeldByStopped,
        }
    }

    pub fn into_lease(self, session: SessionId) -> Lease {
        Lease {
            session,
            run: self.run,
            owner: self.owner,
            since: self.since,
            until: self.until,
            remaining: Duration::from_millis(self.remaining_ms),
            lock: if self.is_held {
                OwnerLock::Held
            } else {
                OwnerLock::Free
            },
        }
    }
}

/// A folded state. A receiver that folds in another version reads the records instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    pub head: Head,
    pub version: u16,
    pub body: String,
}

impl From<CachedState> for StoredState {
    fn from(state: CachedState) -> Self {
        Self {
            head: state.head,
            version: state.version,
            body: state.body,
        }
    }
}

impl From<StoredState> for CachedState {
    fn from(state: StoredState) -> Self {
        Self {
            head: state.head,
            version: state.version,
            body: state.body,
        }
    }
}

/// A session with its lease and the newest folded state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredSession {
    pub summary: StoredSummary,
    pub lease: StoredLease,
    pub state: Option<StoredState>,
    /// Requests that no run has handled yet, with their numbers.
    pub inbox: Vec<(u64, InboxMessage)>,
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRecord {
    pub seq: Seq,
    pub run: Run,
    pub at: Timestamp,
    pub version: u16,
    pub kind: String,
    pub path: Option<String>,
    pub revision: u32,
    pub body: String,
    pub hash: Digest,
}

impl From<Record> for StoredRecord {
    fn from(record: Record) -> Self {
        Self {
            seq: record.seq,
            run: record.run,
            at: record.at,
            version: record.version,
            kind: record.kind,
            path: record.path,
            revision: record.revision,
            body: record.body,
            hash: record.hash,
        }
    }
}

impl From<StoredRecord> for Record {
    fn from(stored: StoredRecord) -> Self {
        Self {
            seq: stored.seq,
            run: stored.run,
            at: stored.at,
            version: stored.version,
            kind: stored.kind,
            path: stored.path,
            revision: stored.revision,
            body: stored.body,
            hash: stored.hash,
        }
    }
}

/// A session in the trash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTrash {
    pub session: SessionId,
    pub name: Option<String>,
    pub at: Timestamp,
}

impl From<TrashedSession> for StoredTrash {
    fn from(trashed: TrashedSession) -> Self {
        Self {
            session: trashed.session,
            name: trashed.name.map(|name| name.to_string()),
            at: trashed.at,
        }
    }
}

impl From<StoredTrash> for TrashedSession {
    fn from(stored: StoredTrash) -> Self {
        Self {
            session: stored.session,
            name: stored.name.map(|text| name(&text, stored.session)),
            at: stored.at,
        }
    }
}
