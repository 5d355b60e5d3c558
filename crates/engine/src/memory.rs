//! What an agent remembers: the questions that it was asked on the way to this one, and what it
//! answered. Only models need it; an agent that is a program of its own has its own memory.
//!
//! A memory belongs to a line of steps: a chain, a branch, a route, a graph, a task and all before
//! it. What runs beside is not in it, so that the same is remembered whoever finishes first (P7).

use std::sync::{Arc, Mutex, PoisonError};

use segno_core::journal::Seq;
use segno_core::step::Path;

use crate::answers::Answer;

/// How many questions an agent remembers.
const MOST: usize = 20;

/// What was said in a line of steps. Clones are the same memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Vec<Exchange>>>);

/// A question and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    path: Path,
    agent: String,
    pub(crate) question: Words,
    pub(crate) answer: Answer,
}

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) enum Words {
    /// These words.
    Here(Arc<str>),
    /// What this entry of the journal asks.
    Journal(Seq),
}

impl Memory {
    /// A memory of its own that begins with what these hold.
    pub(crate) fn after<'a>(before: impl IntoIterator<Item = &'a Memory>) -> Self {
        let memory = Self::default();
        for other in before {
            let exchanges = other.lock().clone();
            exchanges.into_iter().for_each(|known| memory.take(known));
        }
        memory
    }

    /// Remembers what an agent was asked and answered.
    pub(crate) fn add(&self, path: &Path, agent: &str, question: Words, answer: Answer) {
        self.take(Exchange {
            path: path.clone(),
            agent: agent.to_owned(),
            question,
            answer,
        });
    }

    fn take(&self, exchange: Exchange) {
        let mut all = self.lock();
        if all.iter().any(|known| known.path == exchange.path) {
            return;
        }
        let same = |known: &Exchange| known.agent == exchange.agent;
        if all.iter().filter(|known| same(known)).count() == MOST
            && let Some(oldest) = all.iter().position(same)
        {
            all.remove(oldest);
        }
        all.push(exchange);
    }

    /// What an agent remembers, oldest first.
    pub(crate) fn of(&self, agent: &str) -> Vec<Exchange> {
        let all = self.lock();
        let own = all.iter().filter(|known| known.agent == agent);
        own.cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Exchange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
