//! The agent continues from its own transcript, unchanged.

use super::{Opened, Source};

pub(super) fn open(source: &Source<'_>) -> Opened {
    Opened {
        id: source.own_id(),
        has_transcript: true,
    }
}
