//! Tests of snapshots through the public API.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test answers, and files are the subject"
)]

mod archive;
mod attachments;
mod change_detection;
mod crash;
mod damage;
mod databases;
mod encryption;
mod fixture;
mod gc;
mod generations;
mod git;
mod hostile;
mod hostile_archive;
mod index;
mod patches;
mod round_trip;
mod sandbox;
mod scope;
mod transfer;
mod worktree;
