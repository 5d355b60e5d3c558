//! Snapshots, through the public surface.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test answers, and files are the subject"
)]

mod archive;
mod carry;
mod crash;
mod damage;
mod databases;
mod encryption;
mod generations;
mod git;
mod hostile;
mod hostile_archive;
mod memory;
mod papers;
mod patches;
mod probes;
mod round_trip;
mod sandbox;
mod scope;
mod sweeping;
mod work;
mod world;
