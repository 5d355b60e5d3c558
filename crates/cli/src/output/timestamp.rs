//! Renders timestamps in local time.

use segno_core::journal::Suspension;
use segno_core::time::{self, Timestamp};

use super::text::sanitize;
use crate::clock;

/// Renders a timestamp for users.
pub(crate) fn local(at: Timestamp) -> String {
    time::format_local(at, clock::offset(at))
}

/// Describes a suspension for users.
pub(crate) fn suspended(suspension: &Suspension) -> String {
    format!(
        "suspended until {} (rate limit of {})",
        local(suspension.until),
        sanitize(&suspension.provider)
    )
}
