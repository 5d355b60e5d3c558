//! `continuity.pause`: how long a pause waits for the end of a step, and when a session pauses on
//! its own.

use std::time::Duration;

use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["within_s", "after_steps", "after_s"],
};

const DAY_S: u32 = 24 * 3600;
const WEEK_S: u32 = 7 * DAY_S;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PausePolicy {
    /// How long a run that receives a pause request waits for the end of its step.
    pub within: Duration,
    /// Pauses after this many steps of a run.
    pub after_steps: Option<u32>,
    /// Pauses after a run has taken this long.
    pub after: Option<Duration>,
}

impl Default for PausePolicy {
    fn default() -> Self {
        Self {
            within: Duration::from_mins(5),
            after_steps: None,
            after: None,
        }
    }
}

impl PausePolicy {
    pub(super) fn read(cursor: &Cursor<'_>) -> Self {
        let fields = cursor.fields(&KEYS);
        let seconds = |cursor: Cursor<'_>, range| Duration::from_secs(cursor.integer(range).into());
        let usual = Self::default();
        Self {
            within: fields
                .get("within_s")
                .map_or(usual.within, |cursor| seconds(cursor, 0..=DAY_S)),
            after_steps: fields
                .get("after_steps")
                .map(|cursor| cursor.integer(1..=1_000_000)),
            after: fields
                .get("after_s")
                .map(|cursor| seconds(cursor, 1..=WEEK_S)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_waits_five_minutes_by_default() {
        assert_eq!(PausePolicy::default().within, Duration::from_mins(5));
    }
}
