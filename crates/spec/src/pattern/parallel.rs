//! `parallel`: concurrent branches, and a step that combines their results.

use super::step::{self, ListStep, Step};
use crate::cursor::Cursor;
use crate::fields::Keys;

const KEYS: Keys = Keys {
    required: &["branches"],
    optional: &["reduce"],
};
const BRANCH_KEYS: Keys = Keys {
    required: &["id", "steps"],
    optional: &[],
};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parallel {
    pub branches: Vec<Branch>,
    /// Combines the results.
    pub reduce: Option<Step>,
}

/// Steps in sequence. They do not see the other branches.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    pub id: String,
    pub steps: Vec<ListStep>,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Parallel {
    let fields = cursor.fields(&KEYS);
    let mut branches: Vec<Branch> = Vec::new();
    for cursor in fields.read("branches", |cursor| cursor.list(2)) {
        let fields = cursor.fields(&BRANCH_KEYS);
        let id = fields.read("id", |cursor| cursor.identifier());
        if !id.is_empty() && branches.iter().any(|branch| branch.id == id) {
            cursor.invalid(format!("duplicate branch `{id}`"));
        }
        let steps = fields.read("steps", |cursor| step::list_of_steps(&cursor, agents));
        branches.push(Branch { id, steps });
    }
    Parallel {
        branches,
        reduce: fields
            .get("reduce")
            .map(|cursor| step::read(&cursor, agents)),
    }
}
