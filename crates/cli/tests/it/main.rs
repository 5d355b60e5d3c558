//! Integration tests: they start the real binary the way a user starts it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]

mod bad_input;
mod chat;
mod cli_agents;
mod cli_agents_killed;
mod commands;
mod crash;
mod crash_checkpoints;
mod crash_server;
mod crash_settings;
mod damage;
mod examples;
mod full_disk;
mod guide;
mod home_0_1_0;
mod hooks;
mod lease;
mod mcp;
mod models;
mod notices;
mod other_transcripts;
mod real_tree;
mod remote;
mod resume;
mod server;
mod transcript_import;
mod watch;
mod worker;

use std::path::Path;

use segno_testkit::sandbox::Sandbox;

fn segno() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_segno"))
}

fn sandbox() -> Sandbox {
    Sandbox::new(segno())
}
