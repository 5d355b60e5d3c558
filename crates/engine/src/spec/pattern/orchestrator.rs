//! `orchestrator_workers`: an agent that hands out work, in rounds.

use super::step::{self, Person, Step};
use crate::spec::fields::Keys;
use crate::spec::place::Place;
use crate::spec::tools::list;

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

/// One agent hands out work to others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Orchestrator {
    /// Who hands it out.
    pub agent: String,
    /// What it is asked, a template.
    pub input: Option<String>,
    /// How many workers are asked at once at most; `max_parallel` holds too.
    pub max_workers: Option<u32>,
    /// How many tasks a round must have at least, if it has any.
    pub min_workers: u32,
    /// How often work is handed out.
    pub max_rounds: u32,
    /// Who works.
    pub worker: String,
    /// What workers may ask for, instead of what the agent may ask for.
    pub worker_tools: Option<Vec<String>>,
    /// A person who looks at the tasks before they are begun.
    pub decomposition_review: Option<Person>,
    /// A person who looks at the results before they are joined.
    pub reduce_review: Option<Person>,
    /// What joins the results.
    pub reduce: Option<Step>,
    /// What writes them up.
    pub writeup: Option<Step>,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Orchestrator {
    let fields = place.fields(&KEYS);
    let review = |key: &str| fields.get(key).map(|place| step::review(&place));
    let step = |key: &str| fields.get(key).map(|place| step::read(&place, agents));
    let mut orchestrator = Orchestrator {
        max_rounds: 1,
        decomposition_review: review("decomposition_review"),
        reduce_review: review("reduce_review"),
        reduce: step("reduce"),
        writeup: step("writeup"),
        ..Orchestrator::default()
    };
    if let Some(place) = fields.get("orchestrator") {
        let fields = place.fields(&ORCHESTRATOR_KEYS);
        orchestrator.agent = fields.read("agent", |place| step::agent(&place, agents));
        orchestrator.input = fields.get("input").map(|place| place.template());
        if let Some(limits) = fields.get("limits") {
            self::limits(&limits, &mut orchestrator);
        }
    }
    if let Some(worker) = fields.get("worker_template") {
        let fields = worker.fields(&WORKER_KEYS);
        orchestrator.worker = fields.read("agent", |place| step::agent(&place, agents));
        orchestrator.worker_tools = fields.get("tools").map(|place| list(&place));
    }
    if orchestrator.reduce.is_none()
        && let Some(review) = fields.get("reduce_review")
    {
        review.invalid("would be ignored: there is no `reduce`");
    }
    orchestrator
}

fn limits(place: &Place<'_>, orchestrator: &mut Orchestrator) {
    let fields = place.fields(&LIMIT_KEYS);
    let limit = |key: &str| fields.get(key).map(|place| place.integer(1..=10_000));
    orchestrator.max_workers = limit("max_workers");
    orchestrator.min_workers = limit("min_workers").unwrap_or_default();
    orchestrator.max_rounds = limit("max_rounds").unwrap_or(1);
}
