//! `chain`: steps in sequence.

use super::step::{self, ListStep};
use crate::cursor::Cursor;
use crate::fields::Keys;

const KEYS: Keys = Keys {
    required: &["steps"],
    optional: &[],
};

/// Steps in sequence; the result is the last answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chain {
    pub steps: Vec<ListStep>,
}

pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Chain {
    let fields = cursor.fields(&KEYS);
    Chain {
        steps: fields.read("steps", |cursor| step::list_of_steps(&cursor, agents)),
    }
}
