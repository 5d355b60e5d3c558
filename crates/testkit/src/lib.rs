//! What tests stand on: a clock that is turned by hand, the suite that every store passes, a place
//! to run the real binary in, a model server, a runner that kills everywhere, and a judge of damaged
//! stores.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "everything here runs inside tests: a panic is the answer, and the machine is the subject"
)]

pub mod clock;
pub mod conformance;
pub mod crash;
pub mod damage;
pub mod journal;
pub mod model;
pub mod sandbox;
