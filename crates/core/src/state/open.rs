//! Open steps: started and not finished.

use serde::{Deserialize, Serialize};

use crate::cli_agent::CliAgentKind;
use crate::journal::{ConversationOpened, Failure, Seq, Suspension};
use crate::resume::Strategy;
use crate::time::Timestamp;
use crate::usage::{ContextUsage, Cost, Usage};

/// A step that was started and is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenStep {
    pub revision: u32,
    /// How many times the step was started.
    pub attempt: u32,
    pub agent: String,
    /// The status of the newest attempt.
    #[serde(rename = "standing")]
    pub status: AttemptStatus,
    /// When the attempt got this status.
    pub since: Timestamp,
    /// Do not call the agent before this time: the provider demanded it.
    pub not_before: Option<Timestamp>,
    /// The provider that set the limit, if it said when the limit is lifted.
    pub limited_by: Option<String>,
    /// How many times the step has waited for a limit since it last made progress.
    pub waits: u32,
    /// The conversation that a CLI agent opened last for this step, if any.
    pub native: Option<NativeConversation>,
    /// The other conversations that CLI agents opened for it, the newest last.
    pub earlier: Vec<NativeConversation>,
    /// The event since which another agent has the step than the one that started it.
    #[serde(rename = "handed")]
    pub handed_over_at: Option<Seq>,
    /// The context usage of the newest call, if an API model has the step.
    pub model_context: Option<ContextUsage>,
    /// The start of this step with the resume context, if its agent got one.
    pub resume_context: Option<Seq>,
}

/// How many earlier conversations of a step, or of a chat, are remembered.
const MAX_EARLIER: usize = 32;

/// Moves `opened` to the end of the conversations of a step or chat.
pub(super) fn set_newest(
    native: &mut Option<NativeConversation>,
    earlier: &mut Vec<NativeConversation>,
    opened: NativeConversation,
) {
    earlier.extend(native.take());
    earlier.retain(|known| known.id != opened.id);
    let excess = earlier.len().saturating_sub(MAX_EARLIER);
    earlier.drain(..excess);
    *native = Some(opened);
}

impl OpenStep {
    /// Records that a CLI agent opened a conversation: a new one, or one that it had before. `in_chat`
    /// is the one that it continues, if that is of an earlier exchange of a chat.
    pub(super) fn open_conversation(
        &mut self,
        event: &ConversationOpened,
        in_chat: Option<&NativeConversation>,
        at: Seq,
    ) {
        let mut known = self.native.iter().chain(&self.earlier);
        let same = known.find(|it| it.id == event.native_id).cloned();
        // A conversation that is new costs nothing yet. A copy continues the count of its original.
        let cost = match (&same, event.strategy) {
            (None, None | Some(Strategy::Summarized | Strategy::Handoff)) => Some(Cost::default()),
            (None, Some(_)) => self.native.as_ref().or(in_chat).and_then(|it| it.cost),
            (Some(same), _) => same.cost,
        };
        let reported_at = same.as_ref().or(in_chat).and_then(|it| it.reported_at);
        let is_new = matches!(
            event.strategy,
            None | Some(Strategy::Summarized | Strategy::Handoff)
        );
        let original = self.native.as_ref().or(in_chat).filter(|_| !is_new);
        let counted = same.as_ref().or(original).map(|it| it.counted);
        let (context, mut strategies, spoke) = same
            .map(|it| (it.context, it.strategies, it.spoke))
            .unwrap_or_default();
        strategies.extend(event.strategy);
        let opened = NativeConversation {
            program: event.program,
            id: event.native_id.clone(),
            folder: event.folder.clone(),
            home: event.home.clone(),
            context,
            strategies,
            spoke,
            cost,
            counted: counted.unwrap_or_default(),
            reported_at,
            opened: at,
        };
        set_newest(&mut self.native, &mut self.earlier, opened);
    }

    /// Counts what the step's newest conversation used.
    pub(super) fn count(&mut self, usage: Usage) {
        if self.current_cli_agent().is_some()
            && let Some(native) = &mut self.native
        {
            native.counted += usage;
        }
    }

    /// The CLI agent that has the step now; `None` if the current agent is not a CLI agent.
    pub fn current_cli_agent(&self) -> Option<CliAgentKind> {
        let native = self.native.as_ref()?;
        let last = self
            .handed_over_at
            .is_none_or(|handed| native.opened > handed);
        last.then_some(native.program)
    }

    /// The context usage of the agent that has the step, as far as it was reported.
    pub fn context_usage(&self) -> Option<ContextUsage> {
        match self.current_cli_agent() {
            Some(_) => self.native.as_ref()?.context,
            None => self.model_context,
        }
    }

    /// The step after the result, or the unfinished work, of a revision was discarded.
    pub fn discarded(revision: u32, at: Timestamp) -> Self {
        Self {
            revision: revision + 1,
            attempt: 0,
            agent: String::new(),
            status: AttemptStatus::Discarded,
            since: at,
            not_before: None,
            limited_by: None,
            waits: 0,
            native: None,
            earlier: Vec::new(),
            handed_over_at: None,
            model_context: None,
            resume_context: None,
        }
    }

    /// Whether nobody knows whether the newest attempt took effect, given that no run is active.
    pub fn is_unknown(&self) -> bool {
        matches!(
            self.status,
            AttemptStatus::InFlight | AttemptStatus::Unknown
        )
    }

    /// Whether a user said what became of the newest attempt, or may say it.
    pub fn can_be_resolved(&self) -> bool {
        self.is_unknown() || matches!(self.status, AttemptStatus::Resolved(_))
    }

    /// The limit that blocks the step at `now`.
    pub fn suspended(&self, now: Timestamp) -> Option<Suspension> {
        let waits = matches!(self.status, AttemptStatus::Failed(_));
        let until = self.not_before.filter(|until| waits && *until > now)?;
        let provider = self.limited_by.clone()?;
        Some(Suspension { provider, until })
    }
}

/// A conversation that a CLI agent stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeConversation {
    pub program: CliAgentKind,
    /// The CLI agent's own id of the conversation.
    pub id: String,
    /// The CLI agent's working directory.
    pub folder: String,
    /// The folder in which the CLI agent keeps its transcripts, if it was recorded.
    pub home: Option<String>,
    /// The usage of the model's context window.
    pub context: Option<ContextUsage>,
    /// The resume strategies that were used on it.
    #[serde(rename = "rungs")]
    pub strategies: Vec<Strategy>,
    /// Whether the agent has said anything in it.
    pub spoke: bool,
    /// What it has cost, as its agent reported it last; `None` if that is unknown.
    pub cost: Option<Cost>,
    /// The usage of the conversation that the journal has.
    pub counted: Usage,
    /// The event of the agent's newest report. The usage of what was said since is not final.
    pub reported_at: Option<Seq>,
    /// The event that last started or resumed it.
    pub opened: Seq,
}

impl NativeConversation {
    /// Whether its newest run did not end with a report.
    pub fn is_interrupted(&self) -> bool {
        self.reported_at.is_none_or(|at| at < self.opened)
    }

    /// Whether it was started with a resume context instead of what was said before.
    pub fn is_from_summary(&self) -> bool {
        self.strategies.first() == Some(&Strategy::Summarized)
    }
}

/// The status of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// Sent to the agent, no answer yet.
    InFlight,
    /// Sent by a run that was lost.
    Unknown,
    /// The outcome was unknown, and this event says what a user said about it.
    Resolved(Seq),
    Failed(Failure),
    /// Stopped between two turns.
    Paused,
    /// The step's result was discarded; the step has not been started again.
    Discarded,
}
