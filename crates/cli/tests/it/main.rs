//! The real binary, started as a person would start it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]

mod adoption;
mod bad_input;
mod chat;
mod commands;
mod companions;
mod companions_killed;
mod crash;
mod crash_checkpoints;
mod crash_settings;
mod damage;
mod examples;
mod full_disk;
mod home_0_1_0;
mod hooks;
mod lease;
mod mcp;
mod models;
mod real_tree;
mod resume;
mod storage;
mod watch;

use std::path::Path;

use segno_testkit::sandbox::Sandbox;

fn segno() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_segno"))
}

fn sandbox() -> Sandbox {
    Sandbox::new(segno())
}
