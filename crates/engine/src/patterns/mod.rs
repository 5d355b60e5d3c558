//! The patterns: plain functions that ask one step after the other, or several at once. None of
//! them knows anything about resuming.

mod chain;
mod evaluator;
mod graph;
mod insist;
mod orchestrator;
mod parallel;
mod plan;
mod routing;
mod sequence;
mod tasks;
mod together;

pub(crate) use insist::find;
pub(crate) use plan::{
    Decision, MOST_DRAFTS, decide, drafted, is_looked_up, made, review_in, task_place,
};

use crate::answers::Answer;
use crate::error::Error;
use crate::flow::Flow;
use crate::scope::Scope;
use crate::spec::Pattern;

/// How a pattern ended.
pub struct Ending {
    /// The workflow's result.
    pub last: Option<Answer>,
    /// What artifacts see.
    pub scope: Scope,
}

/// Runs a workflow's pattern.
pub(crate) async fn run(flow: &Flow, pattern: &Pattern) -> Result<Ending, Error> {
    match pattern {
        Pattern::Chain(chain) => chain::run(flow, chain).await,
        Pattern::Workflow(tasks) => tasks::run(flow, tasks).await,
        Pattern::Routing(routing) => routing::run(flow, routing).await,
        Pattern::Parallel(parallel) => parallel::run(flow, parallel).await,
        Pattern::Evaluator(evaluator) => evaluator::run(flow, evaluator).await,
        Pattern::Orchestrator(orchestrator) => orchestrator::run(flow, orchestrator).await,
        Pattern::Graph(graph) => graph::run(flow, graph).await,
        Pattern::Plan(plan) => plan::run(flow, plan).await,
    }
}
