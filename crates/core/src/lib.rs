//! Domain types and rules of Segno: sessions, journal, leases, checkpoints, and the contracts that
//! stores, agents and remotes implement.
//!
//! This crate does no I/O. Time, randomness, identifiers and files come in through [`ports`],
//! persistence through the traits of [`store`], agents through the contract of [`agent`]. So the same
//! rules run on a real machine and in a test that controls the clock.

pub mod agent;
pub mod agent_state;
pub mod announcement;
pub mod bundle;
pub mod checkpoint;
pub mod cli_agent;
pub mod conversation;
pub mod digest;
pub mod error;
pub mod executable_content;
pub mod fault;
pub mod handoff;
pub mod id;
pub mod journal;
pub mod lease;
pub mod model;
pub mod note;
pub mod ports;
pub mod preview;
pub mod remote;
pub mod resume;
pub mod retry;
pub mod sanitize;
pub mod session;
pub mod snapshot;
pub mod state;
pub mod step;
pub mod store;
pub mod time;
pub mod tool;
pub mod transcript;
pub mod usage;
mod words;
pub mod worktree;
