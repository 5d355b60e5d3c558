//! The same agent starts a new conversation and gets a resume context.

use super::{Opened, Source};

pub(super) fn open(source: &Source<'_>) -> Opened {
    Opened {
        id: source.new_id(),
        has_transcript: false,
    }
}
