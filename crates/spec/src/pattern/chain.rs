//! `chain`: steps in sequence.

use super::step::{self, Step};
use crate::cursor::Cursor;
use crate::fields::Keys;

const KEYS: Keys = Keys {
    required: &["steps"],
    optional: &[],
};

/// Steps in sequence; the result is the last answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chain {
    pub steps: Vec<Step>,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Chain {
    let fields = cursor.fields(&KEYS);
    let cursors = fields.read("steps", |cursor| cursor.list(1));
    Chain {
        steps: cursors
            .iter()
            .map(|cursor| step::read(cursor, agents))
            .collect(),
    }
}
