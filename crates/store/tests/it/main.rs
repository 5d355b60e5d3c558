//! Tests of the stores through their public API.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]

mod checkpoint_files;
mod remote;

mod memory {
    use std::sync::Arc;

    use segno_store::Memory;
    use segno_testkit::clock::ManualClock;

    segno_testkit::conformance!(|clock: Arc<ManualClock>| (Memory::new(clock), ()));
}

mod sqlite;
