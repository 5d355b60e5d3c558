//! Finished steps and the positions of their answers: the fold that a run starts with.

use std::collections::HashMap;

use super::agent_states::AgentStateHistory;
use crate::digest::Digest;
use crate::journal::{
    AgentMessages, ConversationCompacted, ConversationOpened, Event, JournalEvent, ModelReplied,
    Seq, ToolFinished, ToolStarted,
};
use crate::step::Path;
use crate::usage::Usage;

/// The finished steps and the positions of their answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FinishedSteps {
    steps: HashMap<Path, FinishedStep>,
    started: HashMap<Path, Started>,
    agent_states: AgentStateHistory,
}

#[derive(Debug, Clone, PartialEq)]
struct Started {
    /// The position of the event that started the step.
    asked: Seq,
    /// The position of the event that first started this revision of it.
    first: Seq,
    agent: String,
    input_digest: Digest,
    revision: u32,
    /// The positions of the events of the step's conversation.
    turns: Vec<Seq>,
    /// The usage of that conversation.
    usage: Usage,
}

/// A finished step.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedStep {
    /// The position of the event that started the step.
    pub started_seq: Seq,
    /// The position of the event that first started this revision of it.
    pub first_started: Seq,
    /// The position of the event that finished it.
    pub seq: Seq,
    pub revision: u32,
    /// The attempt that succeeded.
    pub attempt: u32,
    /// The agent that answered.
    pub agent: String,
    /// The digest of everything that the answer depended on.
    pub input_digest: Digest,
    pub usage: Usage,
}

impl FinishedSteps {
    /// The agent name of answers that a user gave.
    pub const USER: &str = "hitl";

    /// Applies the next event.
    pub fn apply(&mut self, entry: &JournalEvent) {
        match &entry.event {
            Event::StepStarted(event) => {
                let before = self.started.remove(&event.path);
                let before = before.filter(|before| before.revision == event.revision);
                let first = before.as_ref().map_or(entry.seq, |before| before.first);
                // Another attempt with the same input continues the conversation.
                let turns = before.filter(|before| before.input_digest == event.input_digest);
                let (turns, usage) = turns
                    .map(|started| (started.turns, started.usage))
                    .unwrap_or_default();
                let started = Started {
                    asked: entry.seq,
                    first,
                    agent: event.agent.clone(),
                    input_digest: event.input_digest,
                    revision: event.revision,
                    turns,
                    usage,
                };
                self.started.insert(event.path.clone(), started);
            }
            Event::StepFinished(event) => {
                if let Some(started) = self.started.remove(&event.path) {
                    let step = FinishedStep {
                        started_seq: started.asked,
                        first_started: started.first,
                        seq: entry.seq,
                        revision: event.revision,
                        attempt: event.attempt,
                        agent: started.agent,
                        input_digest: started.input_digest,
                        usage: event.usage + started.usage,
                    };
                    self.steps.insert(event.path.clone(), step);
                }
            }
            Event::ModelReplied(ModelReplied { path, usage, .. })
            | Event::ConversationCompacted(ConversationCompacted { path, usage, .. })
            | Event::AgentMessages(AgentMessages { path, usage, .. }) => {
                if let Some(started) = self.started.get_mut(path) {
                    started.turns.push(entry.seq);
                    started.usage += *usage;
                }
            }
            Event::ToolStarted(ToolStarted { path, .. })
            | Event::ToolFinished(ToolFinished { path, .. })
            | Event::ConversationOpened(ConversationOpened { path, .. }) => {
                if let Some(started) = self.started.get_mut(path) {
                    started.turns.push(entry.seq);
                }
            }
            Event::StepDiscarded(event) => self.discard(&event.path),
            Event::AgentStateChanged(event) => self.agent_states.add(event, entry.seq),
            Event::QuestionAnswered(event) => {
                let step = FinishedStep {
                    started_seq: entry.seq,
                    first_started: entry.seq,
                    seq: entry.seq,
                    revision: 0,
                    attempt: 1,
                    agent: Self::USER.to_owned(),
                    input_digest: Digest::of(&[]),
                    usage: Usage::default(),
                };
                self.steps.insert(event.path.clone(), step);
            }
            _ => {}
        }
    }

    /// Forgets a finished step, whose result no longer counts.
    pub fn discard(&mut self, path: &Path) {
        self.steps.remove(path);
        self.started.remove(path);
    }

    /// The position of the event that first started the current revision of a step.
    pub fn first_started(&self, path: &Path) -> Option<Seq> {
        let finished = self.steps.get(path).map(|step| step.first_started);
        finished.or_else(|| Some(self.started.get(path)?.first))
    }

    /// Where the values of agents' state are in the journal.
    pub fn agent_states(&self) -> &AgentStateHistory {
        &self.agent_states
    }

    /// The step at `path`, if it is finished.
    pub fn get(&self, path: &Path) -> Option<&FinishedStep> {
        self.steps.get(path)
    }

    /// The positions of the events of an unfinished step's conversation, if it has the same input.
    pub fn turns(&self, path: &Path, revision: u32, input_digest: Digest) -> &[Seq] {
        match self.started.get(path) {
            Some(started)
                if (started.revision, started.input_digest) == (revision, input_digest) =>
            {
                &started.turns
            }
            _ => &[],
        }
    }

    /// All finished steps, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &FinishedStep)> {
        self.steps.iter()
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
