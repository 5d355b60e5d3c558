//! What tests stand on: a clock that is turned by hand, the suites that every store and every depot
//! passes, a place to run the real binary in, real agents and model servers, a server of S3 and a proxy that loses
//! what it carries, a runner that kills everywhere, and a judge of damaged stores.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "everything here runs inside tests: a panic is the answer, and the machine is the subject"
)]

pub mod bedrock;
pub mod bucket;
pub mod clock;
pub mod conformance;
pub mod crash;
pub mod damage;
pub mod depots;
pub mod journal;
pub mod model;
mod picture;
pub mod programs;
pub mod proxy;
pub mod sandbox;
