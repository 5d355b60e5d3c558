//! `orchestrator_workers`: an agent assigns tasks to workers, in rounds.

use super::step::{self, HumanQuestion, Step};
use crate::cursor::Cursor;
use crate::fields::Keys;
use crate::tools::list;

const KEYS: Keys = Keys {
    required: &["orchestrator", "worker_template"],
    optional: &["decomposition_review", "reduce_review", "reduce", "writeup"],
};
const ORCHESTRATOR_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["input", "limits"],
};
const LIMIT_KEYS: Keys = Keys {
    required: &[],
    optional: &["max_workers", "min_workers", "max_rounds"],
};
const WORKER_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["tools"],
};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Orchestrator {
    pub agent: String,
    /// The prompt of the orchestrator, a template.
    pub input: Option<String>,
    /// How many workers run at the same time at most; `max_parallel` applies, too.
    pub max_workers: Option<u32>,
    /// The minimum of tasks in a round that has any.
    pub min_workers: u32,
    pub max_rounds: u32,
    pub worker: String,
    /// Replaces the tools of the worker's agent.
    pub worker_tools: Option<Vec<String>>,
    /// Asks a human about the tasks before they start.
    pub decomposition_review: Option<HumanQuestion>,
    /// Asks a human about the results before they are combined.
    pub reduce_review: Option<HumanQuestion>,
    /// Combines the results.
    pub reduce: Option<Step>,
    pub writeup: Option<Step>,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Orchestrator {
    let fields = cursor.fields(&KEYS);
    let review = |key: &str| fields.get(key).map(|cursor| step::review(&cursor));
    let step = |key: &str| fields.get(key).map(|cursor| step::read(&cursor, agents));
    let mut orchestrator = Orchestrator {
        max_rounds: 1,
        decomposition_review: review("decomposition_review"),
        reduce_review: review("reduce_review"),
        reduce: step("reduce"),
        writeup: step("writeup"),
        ..Orchestrator::default()
    };
    if let Some(cursor) = fields.get("orchestrator") {
        let fields = cursor.fields(&ORCHESTRATOR_KEYS);
        orchestrator.agent = fields.read("agent", |cursor| step::agent(&cursor, agents));
        orchestrator.input = fields.get("input").map(|cursor| cursor.template());
        if let Some(limits) = fields.get("limits") {
            self::limits(&limits, &mut orchestrator);
        }
    }
    if let Some(worker) = fields.get("worker_template") {
        let fields = worker.fields(&WORKER_KEYS);
        orchestrator.worker = fields.read("agent", |cursor| step::agent(&cursor, agents));
        orchestrator.worker_tools = fields.get("tools").map(|cursor| list(&cursor));
    }
    if orchestrator.reduce.is_none()
        && let Some(review) = fields.get("reduce_review")
    {
        review.invalid("would be ignored: there is no `reduce`");
    }
    orchestrator
}

fn limits(cursor: &Cursor<'_>, orchestrator: &mut Orchestrator) {
    let fields = cursor.fields(&LIMIT_KEYS);
    let limit = |key: &str| fields.get(key).map(|cursor| cursor.integer(1..=10_000));
    orchestrator.max_workers = limit("max_workers");
    orchestrator.min_workers = limit("min_workers").unwrap_or_default();
    orchestrator.max_rounds = limit("max_rounds").unwrap_or(1);
}
