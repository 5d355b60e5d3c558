//! The drivers and tools through their public surface: what they answer, how they fail, what they
//! leave behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acp;
mod answers;
mod ending;
mod failures;
mod mcp;
mod scripted;
mod server;
mod streams;
mod told;
mod tools;
mod transcripts_examining;
mod transcripts_moving;
mod transcripts_reading;
mod transcripts_repairing;
mod transcripts_writing;
mod world;
