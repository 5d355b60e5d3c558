//! `evaluator_optimizer`: drafts, until one reaches the score.

use super::step::{self, HumanQuestion};
use crate::cursor::Cursor;
use crate::fields::Keys;

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

/// One agent writes drafts, another scores them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluator {
    pub producer: String,
    pub evaluator: String,
    /// The prompt of the evaluator, a template.
    pub input: Option<String>,
    /// The score that a draft needs, of 100.
    pub min_score: u32,
    /// The limit of drafts.
    pub max_iters: u32,
    /// The prompt for the next draft, a template.
    pub revise_prompt: Option<String>,
    /// Asks a human about a draft below the score.
    pub review_gate: Option<HumanQuestion>,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Evaluator {
    let fields = cursor.fields(&KEYS);
    let mut evaluator = Evaluator {
        producer: fields.read("producer", |cursor| step::agent(&cursor, agents)),
        max_iters: 3,
        revise_prompt: fields.get("revise_prompt").map(|cursor| cursor.template()),
        review_gate: fields
            .get("review_gate")
            .map(|cursor| step::review(&cursor)),
        ..Evaluator::default()
    };
    if let Some(judge) = fields.get("evaluator") {
        let fields = judge.fields(&EVALUATOR_KEYS);
        evaluator.evaluator = fields.read("agent", |cursor| step::agent(&cursor, agents));
        evaluator.input = fields.get("input").map(|cursor| cursor.template());
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
