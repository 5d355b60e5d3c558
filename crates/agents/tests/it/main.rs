//! The drivers and tools through their public interface: what they answer, how they fail, and that
//! they leave nothing behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acp;
mod answers;
mod event_log;
mod failures;
mod fixture;
mod mcp;
mod process_tree;
mod scripted;
mod server;
mod streams;
mod tools;
mod transcripts_examining;
mod transcripts_moving;
mod transcripts_reading;
mod transcripts_repairing;
mod transcripts_writing;
