//! The journal: the ordered list of events of a session, and the only source of truth about what was
//! done.
//!
//! Events are closed, versioned types ([`Event`]). The store keeps each as a [`Record`] that carries the
//! hash of everything before it, so that every reader notices a missing, moved or altered record (P2,
//! P9).

mod chain;
mod event;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use chain::{Broken, Head, Record};
pub use event::{
    AgentMessages, ArtifactWritten, ChatCleared, ChatOpened, ConversationCompacted,
    ConversationOpened, Ending, Event, ExchangeEnded, Failure, InFlight, Limit, LimitNeared,
    ModelReplied, NoteWithdrawn, NotesWritten, OnChange, QuestionAnswered, QuestionAsked,
    ResumeContextEdited, RunEnded, RunLost, RunStarted, SessionCreated, SessionForked,
    SessionMoved, SpecChanged, StepDiscarded, StepFailed, StepFinished, StepPaused, StepStarted,
    StepUnknown, StopMode, StopRequested, Suspension, Text, ToolFinished, ToolStarted,
    TranscriptImported, WorkspaceStatusRecorded,
};

use crate::digest::Digest;
use crate::time::Timestamp;

/// An event's position in its journal, from 1, without gaps.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// The number of a run, from 1. It is also the fencing epoch: the store refuses a write that carries a
/// run older than the newest granted one (P3).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Run(pub u64);

impl Seq {
    /// The next position.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Run {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An event with its position in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEvent {
    pub seq: Seq,
    /// The run that wrote it.
    pub run: Run,
    /// When the event was written, by that run's clock.
    pub at: Timestamp,
    pub event: Event,
    /// The hash of the journal up to and including this event.
    pub hash: Digest,
}
