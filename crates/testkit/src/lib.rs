//! What tests stand on: a clock that is turned by hand, and the suite that every store passes.

#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside tests, where a panic is the answer"
)]

pub mod clock;
pub mod conformance;
pub mod journal;
