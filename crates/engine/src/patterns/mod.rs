//! The patterns: plain functions that run steps one after the other, or several at once. None of
//! them contains resume logic.

mod chain;
mod concurrent;
mod evaluator;
mod graph;
mod orchestrator;
mod parallel;
mod plan;
mod routing;
mod sequence;
mod shape;
mod structured_output;
mod tasks;

use segno_spec::Pattern;

use crate::answers::Answer;
use crate::error::Error;
use crate::scope::Scope;
use crate::steps::Runner;

pub use plan::{
    Decision, MAX_DRAFTS, draft_path, is_git_step, parse_commit, parse_decision, parse_review,
    task_path,
};
pub use shape::check_result;

/// How a pattern ended.
pub struct Ending {
    pub last: Option<Answer>,
    /// What artifact templates see.
    pub scope: Scope,
}

pub(crate) async fn run(runner: &Runner, pattern: &Pattern) -> Result<Ending, Error> {
    match pattern {
        Pattern::Chain(chain) => chain::run(runner, chain).await,
        Pattern::Workflow(tasks) => tasks::run(runner, tasks).await,
        Pattern::Routing(routing) => routing::run(runner, routing).await,
        Pattern::Parallel(parallel) => parallel::run(runner, parallel).await,
        Pattern::Evaluator(evaluator) => evaluator::run(runner, evaluator).await,
        Pattern::Orchestrator(orchestrator) => orchestrator::run(runner, orchestrator).await,
        Pattern::Graph(graph) => graph::run(runner, graph).await,
        Pattern::Plan(plan) => plan::run(runner, plan).await,
    }
}
