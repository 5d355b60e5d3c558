//! What an API model remembers: its earlier questions and answers on the way to this step. Agents
//! that run as programs have their own memory.
//!
//! A memory belongs to a line of steps: a chain, a branch, a route, a graph, a task and everything
//! before it. Concurrent steps are not in it, so that a model remembers the same whichever step
//! finishes first (P7).

use std::sync::{Arc, Mutex, PoisonError};

use segno_core::journal::Seq;
use segno_core::step::Path;

use crate::answers::Answer;

/// How many exchanges an agent remembers.
const MAX_EXCHANGES: usize = 20;

/// The exchanges in a line of steps. Clones share the memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Vec<Exchange>>>);

/// A question and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    path: Path,
    agent: String,
    pub(crate) question: QuestionText,
    pub(crate) answer: Answer,
}

/// The text of a question.
#[derive(Debug, Clone)]
pub(crate) enum QuestionText {
    /// In memory.
    InMemory(Arc<str>),
    /// In the journal, as the input of this event.
    Journal(Seq),
}

impl Memory {
    /// A new memory that starts with the exchanges of these.
    pub(crate) fn after<'a>(before: impl IntoIterator<Item = &'a Memory>) -> Self {
        let memory = Self::default();
        for other in before {
            let exchanges = other.lock().clone();
            exchanges.into_iter().for_each(|known| memory.push(known));
        }
        memory
    }

    /// Adds a question of an agent and its answer.
    pub(crate) fn add(&self, path: &Path, agent: &str, question: QuestionText, answer: Answer) {
        self.push(Exchange {
            path: path.clone(),
            agent: agent.to_owned(),
            question,
            answer,
        });
    }

    fn push(&self, exchange: Exchange) {
        let mut all = self.lock();
        if all.iter().any(|known| known.path == exchange.path) {
            return;
        }
        let same = |known: &Exchange| known.agent == exchange.agent;
        if all.iter().filter(|known| same(known)).count() == MAX_EXCHANGES
            && let Some(oldest) = all.iter().position(same)
        {
            all.remove(oldest);
        }
        all.push(exchange);
    }

    /// The exchanges of an agent, oldest first.
    pub(crate) fn exchanges_of(&self, agent: &str) -> Vec<Exchange> {
        let all = self.lock();
        let own = all.iter().filter(|known| known.agent == agent);
        own.cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Exchange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
