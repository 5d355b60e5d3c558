//! The real binary, started as a person would start it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]

mod adoption;
mod bad_input;
mod commands;
mod companions;
mod companions_killed;
mod crash;
mod crash_checkpoints;
mod damage;
mod examples;
mod full_disk;
mod hooks;
mod lease;
mod models;
mod real_tree;
mod resume;
mod storage;
mod watch;

use segno_testkit::sandbox::Sandbox;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_segno"))
}
