//! What a session is, and the one table that says how its status may change.

use crate::digest::Digest;
use crate::id::{Name, SessionId};
use crate::journal::{Head, Run};
use crate::time::Timestamp;

/// Words of a closed set, which are written down and typed.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every one there is.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word for it, in the journal and on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::session::UnknownWord;

            fn from_str(word: &str) -> Result<Self, $crate::session::UnknownWord> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word).ok_or($crate::session::UnknownWord)
            }
        }
    };
}

pub(crate) use words;

/// The word means nothing here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;

words! {
    /// What a session does.
    Kind {
        /// A spec, run by the engine.
        Workflow = "workflow",
        /// A real agent program in a terminal.
        Agent = "agent",
        /// A conversation, turn by turn.
        Chat = "chat",
    }
}

words! {
    /// Where a session stands.
    Status {
        /// Made, never run.
        Pending = "pending",
        /// A run holds its lease.
        Running = "running",
        /// Waits for a person.
        Waiting = "waiting",
        /// Stopped on purpose; goes on when asked.
        Paused = "paused",
        /// Its run was lost; goes on when asked.
        Interrupted = "interrupted",
        /// Done.
        Completed = "completed",
        /// A step failed for good; goes on when asked.
        Failed = "failed",
        /// Given up by a person.
        Cancelled = "cancelled",
        /// A chat in which nothing was said for long: archived, and goes on when asked.
        Expired = "expired",
    }
}

use Status::{
    Cancelled, Completed, Expired, Failed, Interrupted, Paused, Pending, Running, Waiting,
};

/// Which status may follow which. Everything else about statuses is derived from here.
const TRANSITIONS: &[(Status, &[Status])] = &[
    (Pending, &[Running, Cancelled, Expired]),
    (
        Running,
        &[
            Waiting,
            Paused,
            Interrupted,
            Completed,
            Failed,
            Cancelled,
            Expired,
        ],
    ),
    (Waiting, &[Running, Paused, Interrupted, Cancelled, Expired]),
    (Paused, &[Running, Cancelled, Expired]),
    (Interrupted, &[Running, Cancelled, Expired]),
    (Failed, &[Running, Cancelled, Expired]),
    (Completed, &[]),
    (Cancelled, &[]),
    (Expired, &[Running, Cancelled]),
];

impl Status {
    /// Whether `next` may follow. Setting the same status again changes nothing and is allowed.
    pub fn may_become(self, next: Status) -> bool {
        self == next || self.successors().contains(&next)
    }

    /// Whether it is put away until somebody asks for it by name.
    pub fn is_archived(self) -> bool {
        self == Expired
    }

    /// Whether nothing can follow.
    pub fn is_final(self) -> bool {
        self.successors().is_empty()
    }

    /// Whether a person may ask for it to go on. A session that says `running` counts: if its
    /// owner is gone it was interrupted, and if not, the lease refuses.
    pub fn is_resumable(self) -> bool {
        self == Running || self.may_become(Running)
    }

    fn successors(self) -> &'static [Status] {
        TRANSITIONS
            .iter()
            .find_map(|(from, to)| (*from == self).then_some(*to))
            .expect("the table has a row for every status")
    }
}

/// What is known of a session without reading its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its identifier.
    pub id: SessionId,
    /// What people call it.
    pub name: Name,
    /// What it does.
    pub kind: Kind,
    /// Where its journal says it stands. Whether its owner still lives is the lease's business.
    pub status: Status,
    /// The folder it works in.
    pub workspace: String,
    /// The digest of the spec it runs, if it runs one.
    pub spec_digest: Option<Digest>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its journal last grew.
    pub updated_at: Timestamp,
    /// Its newest run.
    pub run: Run,
    /// The end of its journal.
    pub head: Head,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_row_and_a_word() {
        for status in Status::ALL {
            assert!(
                TRANSITIONS.iter().any(|(from, _)| from == status),
                "{status}"
            );
            assert_eq!(status.as_str().parse(), Ok(*status));
        }
    }

    #[test]
    fn what_is_over_stays_over() {
        let over: Vec<_> = Status::ALL
            .iter()
            .filter(|status| status.is_final())
            .collect();
        assert_eq!(over, [&Completed, &Cancelled]);
    }

    #[test]
    fn what_failed_or_expired_goes_on_when_asked_and_what_is_completed_does_not() {
        let resumable: Vec<_> = Status::ALL.iter().filter(|s| s.is_resumable()).collect();
        assert_eq!(
            resumable,
            [
                &Pending,
                &Running,
                &Waiting,
                &Paused,
                &Interrupted,
                &Failed,
                &Expired
            ]
        );
    }

    #[test]
    fn the_same_status_again_is_allowed() {
        assert!(Status::ALL.iter().all(|status| status.may_become(*status)));
    }
}
