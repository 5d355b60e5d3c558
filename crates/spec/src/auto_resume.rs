//! `continuity.resume`: whether workers resume a session by themselves, and how often.

use std::time::Duration;

use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &[],
    optional: &[
        "policy",
        "max_attempts",
        "max_total",
        "max_age_s",
        "delay_s",
    ],
};

const HOUR_S: u32 = 3600;
const YEAR_S: u32 = 365 * 24 * HOUR_S;

/// What workers do when the run of a session is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    /// Nothing: a user decides.
    Ask,
    /// Send a notice; a user decides.
    Notify,
    /// Resume it.
    Auto,
}

/// When workers resume a session by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoResume {
    /// The policy of the spec; without one, sessions that a user handed to the workers are resumed.
    pub policy: Option<OnLost>,
    /// How often in a row, without an answer of an agent in between.
    pub max_attempts: u32,
    /// How often in all, until a user resumes the session.
    pub max_total: u32,
    /// A session that was lost for longer than this is left to a user.
    pub max_age: Duration,
    /// How long to wait before the first attempt; doubled for each further one.
    pub delay: Duration,
}

impl Default for AutoResume {
    fn default() -> Self {
        Self {
            policy: None,
            max_attempts: 2,
            max_total: 20,
            max_age: Duration::from_hours(24),
            delay: Duration::from_secs(5),
        }
    }
}

impl AutoResume {
    pub(super) fn read(cursor: &Cursor<'_>) -> Self {
        let fields = cursor.fields(&KEYS);
        let usual = Self::default();
        let count = |key, usual| {
            let given = fields.get(key);
            given.map_or(usual, |cursor: Cursor<'_>| cursor.integer(0..=1000))
        };
        let seconds = |key, usual, most| {
            let given = fields.get(key);
            given.map_or(usual, |cursor: Cursor<'_>| {
                Duration::from_secs(cursor.integer(0..=most).into())
            })
        };
        Self {
            policy: fields.get("policy").map(|cursor| {
                cursor.choice(&[
                    ("ask", OnLost::Ask),
                    ("notify", OnLost::Notify),
                    ("auto", OnLost::Auto),
                ])
            }),
            max_attempts: count("max_attempts", usual.max_attempts),
            max_total: count("max_total", usual.max_total),
            max_age: seconds("max_age_s", usual.max_age, YEAR_S),
            delay: seconds("delay_s", usual.delay, HOUR_S),
        }
    }
}
