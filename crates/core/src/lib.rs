//! The domain of Segno: sessions, their journal, the lease that guards it, and what a driver is.
//!
//! Everything here is pure. Time, randomness, identifiers and files come in through [`ports`];
//! storage comes in through the traits of [`store`]; agents through the contract of [`agent`].
//! So the same rules run on a real machine and inside a test that turns the clock by hand.

pub mod agent;
pub mod archive;
pub mod bundle;
pub mod carry;
pub mod checkpoint;
pub mod cipher;
pub mod companion;
pub mod conversation;
pub mod depot;
pub mod digest;
pub mod error;
pub mod fault;
pub mod id;
pub mod journal;
pub mod key;
pub mod ladder;
pub mod lease;
pub mod letter;
pub mod memo;
pub mod model;
pub mod ports;
pub mod redact;
pub mod retry;
pub mod session;
pub mod snapshot;
pub mod state;
pub mod step;
pub mod store;
pub mod time;
pub mod tool;
pub mod transcript;
pub mod usage;
pub mod worktree;
