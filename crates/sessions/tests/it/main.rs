//! Integration tests of the engine: an in-memory store, and a clock that tests advance.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]

mod budgets;
mod chats;
mod fencing;
mod harness;
mod jinja;
mod journal_queue;
mod limits;
mod outputs;
mod patterns;
mod questions;
mod retention;
mod retries;
mod schemas;
mod tools;
