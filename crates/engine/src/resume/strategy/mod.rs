//! Opens the conversation with which a CLI agent continues, one file per resume strategy.
//!
//! [`segno_core::resume`] chooses the strategy from the evidence; [`open`] executes it. What the
//! agent is told depends only on the result: an agent that has a transcript of the conversation
//! gets a message ([`super::context::message`]), any other one a resume context
//! ([`super::context::fresh_start`]).

mod handoff;
mod native;
mod repaired;
mod restored;
mod summarized;

use std::path::Path;

use segno_core::agent;
use segno_core::cli_agent::{self, CliAgent, TranscriptCopy};
use segno_core::conversation::ConversationItem;
use segno_core::ports::Random;
use segno_core::resume::Strategy;
use segno_core::state::NativeConversation;

use crate::checkpoint::transcripts::CopySource;

/// The strategies that need the agent's own transcript.
pub(crate) const NEEDS_TRANSCRIPT: [Strategy; 3] =
    [Strategy::Native, Strategy::Repaired, Strategy::Restored];

/// What a strategy starts from.
pub(crate) struct Source<'a> {
    pub(crate) cli_agent: &'a dyn CliAgent,
    pub(crate) workspace: &'a Path,
    /// The agent's newest conversation, if it reported one.
    pub(crate) native: Option<&'a NativeConversation>,
    /// A stored copy of its transcript.
    pub(crate) copy: Option<&'a TranscriptCopy>,
    /// Where the copy comes from.
    pub(crate) copied_from: Option<&'a CopySource>,
    /// Whether the agent refused the conversation under its own id, although it has the transcript.
    pub(crate) refused: bool,
    /// Everything that was said, for an agent that did not say it.
    pub(crate) entries: &'a [ConversationItem],
    /// Whether a transcript may be written for another agent; not if that was tried and failed.
    pub(crate) may_write_transcript: bool,
    pub(crate) random: &'a dyn Random,
    /// Tells the user what was done to a transcript.
    pub(crate) notice: &'a (dyn Fn(&str) + Sync),
}

impl Source<'_> {
    /// The id of the agent's own conversation. Strategies that continue it are chosen only if there
    /// is one.
    fn own_id(&self) -> String {
        self.native
            .map_or_else(|| self.new_id(), |native| native.id.clone())
    }

    fn new_id(&self) -> String {
        cli_agent::new_conversation_id(self.random)
    }
}

/// The conversation with which the agent is called.
pub(crate) struct Opened {
    /// The agent's id for it.
    pub(crate) id: String,
    /// Whether the agent has a transcript of it.
    pub(crate) has_transcript: bool,
}

/// Opens the conversation by a strategy.
pub(crate) async fn open(strategy: Strategy, source: &Source<'_>) -> Result<Opened, agent::Error> {
    match strategy {
        Strategy::Native => Ok(native::open(source)),
        Strategy::Repaired => repaired::open(source).await,
        Strategy::Restored => restored::open(source).await,
        Strategy::Summarized => Ok(summarized::open(source)),
        Strategy::Handoff => handoff::open(source).await,
    }
}
