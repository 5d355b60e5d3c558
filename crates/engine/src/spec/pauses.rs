//! `continuity.pause`: how patiently a pause waits for a boundary, and when a session pauses without
//! anyone asking.

use std::time::Duration;

use super::fields::Keys;
use super::place::Place;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["within_s", "after_steps", "after_s"],
};

const DAY_S: u32 = 24 * 3600;
const WEEK_S: u32 = 7 * DAY_S;

/// When runs pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// How long a run that is asked to pause waits for the end of its step.
    pub within: Duration,
    /// After this many steps of a run.
    pub after_steps: Option<u32>,
    /// After this long.
    pub after: Option<Duration>,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            within: Duration::from_mins(5),
            after_steps: None,
            after: None,
        }
    }
}

impl Pauses {
    pub(super) fn read(place: &Place<'_>) -> Self {
        let fields = place.fields(&KEYS);
        let seconds = |place: Place<'_>, range| Duration::from_secs(place.integer(range).into());
        let usual = Self::default();
        Self {
            within: fields
                .get("within_s")
                .map_or(usual.within, |place| seconds(place, 0..=DAY_S)),
            after_steps: fields
                .get("after_steps")
                .map(|place| place.integer(1..=1_000_000)),
            after: fields
                .get("after_s")
                .map(|place| seconds(place, 1..=WEEK_S)),
        }
    }
}
