//! The journal: the ordered list of events of a session, and the only source of truth about what was
//! done.
//!
//! Events are closed, versioned types ([`Event`]). The store keeps each as a [`Record`] that carries the
//! hash of everything before it, so that every reader notices a missing, moved or altered record (P2,
//! P9).

mod chain;
mod event;

pub use chain::{Broken, Head, Record};
pub use event::{
    AgentMessages, AgentStateChanged, ArtifactWritten, ChatCleared, ChatOpened,
    ConversationCompacted, ConversationOpened, Ending, Event, ExchangeEnded, Failure, InFlight,
    Limit, LimitNeared, ModelReplied, NoteWithdrawn, NotesWritten, OnChange, OnDrift, OnLimit,
    QuestionAnswered, QuestionAsked, ResumeContextEdited, RunEnded, RunLost, RunOptions,
    RunPurpose, RunRequested, RunStarted, RunWithdrawn, SessionCreated, SessionForked,
    SessionMoved, SpecChanged, StepDiscarded, StepFailed, StepFinished, StepOutcome, StepPaused,
    StepResolved, StepStarted, StepUnknown, StopMode, StopRequested, Suspension, Text,
    ToolFinished, ToolRefused, ToolStarted, TranscriptImported, WorkspaceStatusRecorded,
};

use crate::digest::Digest;
pub use crate::id::{Run, Seq};
use crate::time::Timestamp;

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
