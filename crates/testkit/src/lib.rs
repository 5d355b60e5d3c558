//! Test support for the other crates.
//!
//! It provides a manual clock, the conformance suites that every store and every remote passes, a
//! sandbox that runs the real binary, a client of the server, real CLI agents and scripted model servers, an S3 server, a
//! proxy that loses requests and answers, a runner that kills the binary at every system call, and a
//! checker for damaged stores. It contains no claims about Segno of its own: the tests in each crate
//! make them.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "all of this runs inside tests: it reports errors by panicking, and tests the real machine"
)]

pub mod bedrock;
pub mod bucket;
pub mod client;
pub mod clock;
pub mod conformance;
pub mod crash;
pub mod damage;
pub mod journal;
pub mod model;
pub mod opencode;
pub mod programs;
pub mod proxy;
pub mod remotes;
pub mod sandbox;
pub mod serving;
mod tree_state;
