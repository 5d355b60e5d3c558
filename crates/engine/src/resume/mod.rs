//! How an unfinished step continues.
//!
//! A step of an API model continues from the journal. A CLI agent continues by the first resume
//! strategy whose conditions hold: `evidence` collects what is left of its conversation,
//! [`segno_core::resume`] chooses the strategy, and `context` words what the agent is told.
//! `drift` detects what others changed in the workspace meanwhile.

pub mod context;
pub mod drift;
pub mod evidence;

use std::sync::Arc;

use segno_core::cli_agent::CliAgent;
use segno_core::resume::Strategy;

/// How to resume unfinished steps where the user wants something other than the default.
#[derive(Clone, Default)]
pub struct ResumeOverrides {
    /// Who continues.
    pub with: Option<Replacement>,
    /// Resume strategies that must not be used.
    pub skipped: Vec<Strategy>,
    /// An additional message to the agent.
    pub say: Option<String>,
    /// Whether to ignore the rest of an earlier run's wait for a rate limit.
    pub skip_earlier_wait: bool,
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
