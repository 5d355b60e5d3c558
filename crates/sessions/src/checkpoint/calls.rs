//! Counts the calls of models and tools in a part of a journal.

use std::collections::HashMap;

use segno_core::journal::Event;
use segno_core::state::FinishedSteps;
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_core::usage::Usage;
use segno_engine::{Env, steps};

use crate::reported::Reported;

/// How often models and tools were called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Answers of agents: those of a model one by one, also inside of a CLI agent, as far as the
    /// agent reports them.
    pub model: u64,
    pub tool: u64,
}

/// Collects what [`Calls`] counts.
#[derive(Default)]
pub(super) struct Counter {
    calls: Calls,
    reported: Reported,
    agents: HashMap<Path, String>,
}

impl Counter {
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::StepStarted(event) => {
                self.agents.insert(event.path.clone(), event.agent.clone());
            }
            Event::ModelReplied(_) | Event::ConversationCompacted(_) => self.calls.model += 1,
            Event::ToolFinished(_) => self.calls.tool += 1,
            Event::AgentMessages(event) => self.reported.add(event),
            Event::StepFinished(event) if self.is_answer(&event.path) => self.calls.model += 1,
            // A refused call costs nothing, and is none.
            Event::StepFailed(event) if event.usage != Usage::default() => {
                self.calls.model += u64::from(self.is_answer(&event.path));
            }
            Event::NotesWritten(event) if event.usage != Usage::default() => self.calls.model += 1,
            _ => {}
        }
    }

    /// Whether the end of a step is the answer to a call: git is no agent, and the messages of CLI
    /// agents are counted one by one.
    fn is_answer(&self, path: &Path) -> bool {
        let agent = self.agents.get(path).map(String::as_str);
        let calls = agent.is_some_and(|agent| agent != steps::GIT && agent != FinishedSteps::USER);
        calls && !self.reported.has(path)
    }

    /// Reads what CLI agents reported, and returns the counts.
    pub(super) async fn finish(self, env: &Env) -> Result<Calls, StoreError> {
        let mut calls = self.calls;
        for tally in self.reported.tallies(env).await?.values() {
            calls.model += tally.replies;
            calls.tool += tally.tool_calls;
        }
        Ok(calls)
    }
}
