//! Moments as the clocks here show them.

use segno_core::journal::Suspension;
use segno_core::time::{self, Timestamp};

use super::plain::plain;
use crate::machine::clock;

/// A moment, for people.
pub(crate) fn local(at: Timestamp) -> String {
    time::local(at, clock::offset(at))
}

/// What is waited for, for people.
pub(crate) fn suspended(suspension: &Suspension) -> String {
    format!(
        "suspended until {} (rate limit of {})",
        local(suspension.until),
        plain(&suspension.provider)
    )
}
