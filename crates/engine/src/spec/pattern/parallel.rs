//! `parallel`: branches side by side, and a step that joins them.

use super::step::{self, Step};
use crate::spec::fields::Keys;
use crate::spec::place::Place;

const KEYS: Keys = Keys {
    required: &["branches"],
    optional: &["reduce"],
};
const BRANCH_KEYS: Keys = Keys {
    required: &["id", "steps"],
    optional: &[],
};

/// Branches side by side.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parallel {
    /// At least two.
    pub branches: Vec<Branch>,
    /// What joins them.
    pub reduce: Option<Step>,
}

/// Steps in order, that see nothing of other branches.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Its name.
    pub id: String,
    /// At least one.
    pub steps: Vec<Step>,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Parallel {
    let fields = place.fields(&KEYS);
    let mut branches: Vec<Branch> = Vec::new();
    for place in fields.read("branches", |place| place.list(2)) {
        let fields = place.fields(&BRANCH_KEYS);
        let id = fields.read("id", |place| place.identifier());
        if !id.is_empty() && branches.iter().any(|branch| branch.id == id) {
            place.invalid(format!("there are two branches `{id}`"));
        }
        let steps = fields.read("steps", |place| place.list(1));
        branches.push(Branch {
            id,
            steps: steps
                .iter()
                .map(|place| step::read(place, agents))
                .collect(),
        });
    }
    Parallel {
        branches,
        reduce: fields.get("reduce").map(|place| step::read(&place, agents)),
    }
}
