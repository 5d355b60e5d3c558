//! Which steps are done, and where their answers stand: the fold that a run begins with.

use std::collections::HashMap;

use crate::digest::Digest;
use crate::journal::{
    AgentOpened, AgentSaid, Entry, Event, ModelReplied, Seq, TalkShortened, ToolFinished,
    ToolStarted,
};
use crate::step::Path;
use crate::usage::Usage;

/// The steps that are done, and where their answers stand.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finished {
    steps: HashMap<Path, FinishedStep>,
    begun: HashMap<Path, Begun>,
}

#[derive(Debug, Clone, PartialEq)]
struct Begun {
    /// Where it was asked.
    asked: Seq,
    agent: String,
    input_digest: Digest,
    revision: u32,
    /// Where what was said in it stands in the journal.
    turns: Vec<Seq>,
    /// What that took.
    usage: Usage,
}

/// A step that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedStep {
    /// Where the question stands in the journal.
    pub asked: Seq,
    /// Where the answer stands in the journal.
    pub seq: Seq,
    /// The revision.
    pub revision: u32,
    /// The attempt that succeeded.
    pub attempt: u32,
    /// Who answered.
    pub agent: String,
    /// The digest of what the answer depended on.
    pub input_digest: Digest,
    /// What it took.
    pub usage: Usage,
}

impl Finished {
    /// Who answered, where it was a person.
    pub const PERSON: &str = "hitl";

    /// Takes the next entry in.
    pub fn apply(&mut self, entry: &Entry) {
        match &entry.event {
            Event::StepStarted(event) => {
                // Another attempt at the same question goes on with what was said.
                let turns = self.begun.remove(&event.path).filter(|begun| {
                    (begun.revision, begun.input_digest) == (event.revision, event.input_digest)
                });
                let (turns, usage) = turns
                    .map(|begun| (begun.turns, begun.usage))
                    .unwrap_or_default();
                let begun = Begun {
                    asked: entry.seq,
                    agent: event.agent.clone(),
                    input_digest: event.input_digest,
                    revision: event.revision,
                    turns,
                    usage,
                };
                self.begun.insert(event.path.clone(), begun);
            }
            Event::StepFinished(event) => {
                if let Some(begun) = self.begun.remove(&event.path) {
                    let step = FinishedStep {
                        asked: begun.asked,
                        seq: entry.seq,
                        revision: event.revision,
                        attempt: event.attempt,
                        agent: begun.agent,
                        input_digest: begun.input_digest,
                        usage: event.usage + begun.usage,
                    };
                    self.steps.insert(event.path.clone(), step);
                }
            }
            Event::ModelReplied(ModelReplied { path, usage, .. })
            | Event::TalkShortened(TalkShortened { path, usage, .. })
            | Event::AgentSaid(AgentSaid { path, usage, .. }) => {
                if let Some(begun) = self.begun.get_mut(path) {
                    begun.turns.push(entry.seq);
                    begun.usage += *usage;
                }
            }
            Event::ToolStarted(ToolStarted { path, .. })
            | Event::ToolFinished(ToolFinished { path, .. })
            | Event::AgentOpened(AgentOpened { path, .. }) => {
                if let Some(begun) = self.begun.get_mut(path) {
                    begun.turns.push(entry.seq);
                }
            }
            Event::StepDiscarded(event) => {
                self.steps.remove(&event.path);
            }
            Event::QuestionAnswered(event) => {
                let step = FinishedStep {
                    asked: entry.seq,
                    seq: entry.seq,
                    revision: 0,
                    attempt: 1,
                    agent: Self::PERSON.to_owned(),
                    input_digest: Digest::of(&[]),
                    usage: Usage::default(),
                };
                self.steps.insert(event.path.clone(), step);
            }
            _ => {}
        }
    }

    /// The step at `path`, if it is done.
    pub fn get(&self, path: &Path) -> Option<&FinishedStep> {
        self.steps.get(path)
    }

    /// Where what was said in an unfinished step stands, if it was the answer to this question.
    pub fn turns(&self, path: &Path, revision: u32, input_digest: Digest) -> &[Seq] {
        match self.begun.get(path) {
            Some(begun) if (begun.revision, begun.input_digest) == (revision, input_digest) => {
                &begun.turns
            }
            _ => &[],
        }
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &FinishedStep)> {
        self.steps.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
