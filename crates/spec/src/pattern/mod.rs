//! The `pattern` block: which steps run, and in which order. One file per pattern.

mod chain;
mod cycle;
mod evaluator;
mod graph;
mod orchestrator;
mod parallel;
mod plan;
mod routing;
mod step;
mod tasks;

use segno_core::session::PatternKind;

use super::cursor::{Cursor, shortened};
use super::fields::Keys;

pub use chain::Chain;
pub use cycle::find_cycle;
pub use evaluator::Evaluator;
pub use graph::{Choice, Edge, Graph, Node};
pub use orchestrator::Orchestrator;
pub use parallel::{Branch, Parallel};
pub use plan::{Approve, Goal, Plan, Worktree};
pub use routing::{Route, Routing};
pub use step::{AgentStep, HumanQuestion, ListStep, Step};
pub use tasks::{Task, Tasks};

const KEYS: Keys = Keys {
    required: &["type", "config"],
    optional: &[],
};

#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    Chain(Chain),
    /// Tasks with dependencies.
    Workflow(Tasks),
    Routing(Routing),
    Parallel(Parallel),
    Evaluator(Evaluator),
    Orchestrator(Box<Orchestrator>),
    Graph(Graph),
    Plan(Box<Plan>),
}

impl Default for Pattern {
    fn default() -> Self {
        Self::Chain(Chain::default())
    }
}

impl Pattern {
    /// Which pattern it is.
    pub const fn kind(&self) -> PatternKind {
        match self {
            Self::Chain(_) => PatternKind::Chain,
            Self::Workflow(_) => PatternKind::Workflow,
            Self::Routing(_) => PatternKind::Routing,
            Self::Parallel(_) => PatternKind::Parallel,
            Self::Evaluator(_) => PatternKind::EvaluatorOptimizer,
            Self::Orchestrator(_) => PatternKind::OrchestratorWorkers,
            Self::Graph(_) => PatternKind::Graph,
            Self::Plan(_) => PatternKind::Plan,
        }
    }

    /// Its name in the format.
    pub const fn name(&self) -> &'static str {
        self.kind().as_str()
    }
}

/// Reads the `config` of one pattern; `agents` are the names that it may use.
type Read = fn(&Cursor<'_>, &[&str]) -> Pattern;

const PATTERNS: [(&str, Read); 8] = [
    ("chain", |cursor, agents| {
        Pattern::Chain(chain::read(cursor, agents))
    }),
    ("workflow", |cursor, agents| {
        Pattern::Workflow(tasks::read(cursor, agents))
    }),
    ("routing", |cursor, agents| {
        Pattern::Routing(routing::read(cursor, agents))
    }),
    ("parallel", |cursor, agents| {
        Pattern::Parallel(parallel::read(cursor, agents))
    }),
    ("evaluator_optimizer", |cursor, agents| {
        Pattern::Evaluator(evaluator::read(cursor, agents))
    }),
    ("orchestrator_workers", |cursor, agents| {
        Pattern::Orchestrator(Box::new(orchestrator::read(cursor, agents)))
    }),
    ("graph", |cursor, agents| {
        Pattern::Graph(graph::read(cursor, agents))
    }),
    ("plan", |cursor, agents| {
        Pattern::Plan(Box::new(plan::read(cursor, agents)))
    }),
];

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Pattern {
    let fields = cursor.fields(&KEYS);
    let Some(kind) = fields.get("type") else {
        return Pattern::default();
    };
    let name = kind.single_line();
    let known = PATTERNS.iter().find(|(known, _)| *known == name);
    match (known, fields.get("config")) {
        (Some((_, read)), Some(config)) => return read(&config, agents),
        (None, _) if !name.is_empty() => {
            let message = format!("unknown pattern `{}`", shortened(&name));
            kind.unknown(message, &name, PATTERNS.iter().map(|(known, _)| *known));
        }
        _ => {}
    }
    Pattern::default()
}
