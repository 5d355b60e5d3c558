//! How an unfinished step continues.
//!
//! | file | what it does |
//! |---|---|
//! | `conversation` | reads what was said in the step so far, from the journal |
//! | `evidence` | finds what is left of the agent's own conversation |
//! | `missing` | finds what the agent's transcript lacks of what the journal has |
//! | [`segno_core::resume`] | chooses the first resume strategy whose conditions hold |
//! | `strategy/` | opens the conversation, one file per strategy |
//! | `context/` | everything that the agent is told |
//! | `drift` | what others changed in the workspace since the session's last run |
//!
//! The step runner ([`crate::steps`]) calls them in this order when a CLI agent is about to continue
//! a step. An API model needs no strategy: its conversation is in the journal.

pub mod context;
pub mod conversation;
pub mod drift;
pub mod evidence;
pub(crate) mod missing;
pub(crate) mod strategy;

use std::collections::HashMap;
use std::sync::Arc;

use segno_core::cli_agent::CliAgent;
use segno_core::journal::StepResolved;
use segno_core::resume::Strategy;
use segno_core::step::Path;

/// How to resume unfinished steps where the user wants something other than the default.
#[derive(Clone, Default)]
pub struct Overrides {
    /// Who continues.
    pub agent: Option<Replacement>,
    /// The best resume strategy that may be used, if the user chose one. The native one, chosen
    /// explicitly, goes back to a conversation that was not started from a summary.
    pub best_strategy: Option<Strategy>,
    /// Whether to end a process that has the conversation open.
    pub take_over: bool,
    /// An additional message to the agent.
    pub message: Option<String>,
    /// Whether to ignore the rest of an earlier run's wait for a rate limit.
    pub skip_earlier_wait: bool,
    /// What users said about attempts whose outcome was unknown.
    pub resolved: HashMap<Path, StepResolved>,
}

/// Who continues a step instead of the agent that had it.
#[derive(Clone)]
pub enum Replacement {
    /// Another agent of the spec.
    Agent(String),
    /// A CLI agent that the spec does not name.
    Program(Arc<dyn CliAgent>),
}

/// The resume strategies that are better than the best one allowed.
pub fn strategies_above(best: Option<Strategy>) -> Vec<Strategy> {
    let best = best.unwrap_or(Strategy::Native);
    let above = Strategy::ALL.iter().copied();
    above.take_while(|strategy| *strategy != best).collect()
}
