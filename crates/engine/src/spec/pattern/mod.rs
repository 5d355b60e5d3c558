//! The `pattern` block: what is done, in which order. A file for each pattern.

mod chain;
mod evaluator;
mod graph;
mod orchestrator;
mod parallel;
mod plan;
mod round;
mod routing;
mod step;
mod tasks;

use super::fields::Keys;
use super::place::{Place, shortened};

pub use chain::Chain;
pub use evaluator::Evaluator;
pub use graph::{Choice, Edge, Graph, Node};
pub use orchestrator::Orchestrator;
pub use parallel::{Branch, Parallel};
pub use plan::{Approve, Goal, Plan, Worktree};
pub(crate) use round::round;
pub use routing::{Route, Routing};
pub use step::{AgentStep, Person, Step};
pub use tasks::{Task, Tasks};

const KEYS: Keys = Keys {
    required: &["type", "config"],
    optional: &[],
};

/// What is done, in which order.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// One step after the other.
    Chain(Chain),
    /// Tasks that wait for others.
    Workflow(Tasks),
    /// An agent chooses which steps follow.
    Routing(Routing),
    /// Branches side by side.
    Parallel(Parallel),
    /// Drafts, until one is good enough.
    Evaluator(Evaluator),
    /// An agent that hands out work.
    Orchestrator(Box<Orchestrator>),
    /// From node to node.
    Graph(Graph),
    /// A plan of tasks, with a commit for each.
    Plan(Box<Plan>),
}

impl Default for Pattern {
    fn default() -> Self {
        Self::Chain(Chain::default())
    }
}

impl Pattern {
    /// The name that the format gives it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Chain(_) => "chain",
            Self::Workflow(_) => "workflow",
            Self::Routing(_) => "routing",
            Self::Parallel(_) => "parallel",
            Self::Evaluator(_) => "evaluator_optimizer",
            Self::Orchestrator(_) => "orchestrator_workers",
            Self::Graph(_) => "graph",
            Self::Plan(_) => "plan",
        }
    }
}

/// Reads the `config` of one pattern; `agents` are the names that it may use.
type Read = fn(&Place<'_>, &[&str]) -> Pattern;

const PATTERNS: [(&str, Read); 8] = [
    ("chain", |place, agents| {
        Pattern::Chain(chain::read(place, agents))
    }),
    ("workflow", |place, agents| {
        Pattern::Workflow(tasks::read(place, agents))
    }),
    ("routing", |place, agents| {
        Pattern::Routing(routing::read(place, agents))
    }),
    ("parallel", |place, agents| {
        Pattern::Parallel(parallel::read(place, agents))
    }),
    ("evaluator_optimizer", |place, agents| {
        Pattern::Evaluator(evaluator::read(place, agents))
    }),
    ("orchestrator_workers", |place, agents| {
        Pattern::Orchestrator(Box::new(orchestrator::read(place, agents)))
    }),
    ("graph", |place, agents| {
        Pattern::Graph(graph::read(place, agents))
    }),
    ("plan", |place, agents| {
        Pattern::Plan(Box::new(plan::read(place, agents)))
    }),
];

/// `agents` are the names that steps may use.
pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Pattern {
    let fields = place.fields(&KEYS);
    let Some(kind) = fields.get("type") else {
        return Pattern::default();
    };
    let name = kind.line_of_text();
    let known = PATTERNS.iter().find(|(known, _)| *known == name);
    match (known, fields.get("config")) {
        (Some((_, read)), Some(config)) => return read(&config, agents),
        (None, _) if !name.is_empty() => {
            let message = format!("no such pattern: `{}`", shortened(&name));
            kind.unknown(message, &name, PATTERNS.iter().map(|(known, _)| *known));
        }
        _ => {}
    }
    Pattern::default()
}
