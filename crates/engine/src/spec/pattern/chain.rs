//! `chain`: one step after the other.

use super::step::{self, Step};
use crate::spec::fields::Keys;
use crate::spec::place::Place;

const KEYS: Keys = Keys {
    required: &["steps"],
    optional: &[],
};

/// Steps in order; the result is the last answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chain {
    /// At least one.
    pub steps: Vec<Step>,
}

pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Chain {
    let fields = place.fields(&KEYS);
    let places = fields.read("steps", |place| place.list(1));
    Chain {
        steps: places
            .iter()
            .map(|place| step::read(place, agents))
            .collect(),
    }
}
