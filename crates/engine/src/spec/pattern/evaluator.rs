//! `evaluator_optimizer`: drafts, until one is good enough.

use super::step::{self, Person};
use crate::spec::fields::Keys;
use crate::spec::place::Place;

const KEYS: Keys = Keys {
    required: &["producer", "evaluator", "accept"],
    optional: &["revise_prompt", "review_gate"],
};
const EVALUATOR_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["input"],
};
const ACCEPT_KEYS: Keys = Keys {
    required: &["min_score"],
    optional: &["max_iters"],
};

/// One agent writes, another judges.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluator {
    /// Who writes.
    pub producer: String,
    /// Who judges.
    pub evaluator: String,
    /// What the judge is asked, a template.
    pub input: Option<String>,
    /// The score that is good enough, of 100.
    pub min_score: u32,
    /// How many drafts there may be.
    pub max_iters: u32,
    /// How a better draft is asked for, a template.
    pub revise_prompt: Option<String>,
    /// A person who looks at a draft that is not good enough.
    pub review_gate: Option<Person>,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Evaluator {
    let fields = place.fields(&KEYS);
    let mut evaluator = Evaluator {
        producer: fields.read("producer", |place| step::agent(&place, agents)),
        max_iters: 3,
        revise_prompt: fields.get("revise_prompt").map(|place| place.template()),
        review_gate: fields.get("review_gate").map(|place| step::review(&place)),
        ..Evaluator::default()
    };
    if let Some(judge) = fields.get("evaluator") {
        let fields = judge.fields(&EVALUATOR_KEYS);
        evaluator.evaluator = fields.read("agent", |place| step::agent(&place, agents));
        evaluator.input = fields.get("input").map(|place| place.template());
    }
    if let Some(accept) = fields.get("accept") {
        let fields = accept.fields(&ACCEPT_KEYS);
        if let Some(score) = fields.get("min_score") {
            evaluator.min_score = score.integer(0..=100);
        }
        if let Some(most) = fields.get("max_iters") {
            evaluator.max_iters = most.integer(1..=10_000);
        }
    }
    evaluator
}
