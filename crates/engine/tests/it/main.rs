//! The engine on a store in memory, with a clock that is turned by hand.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]

mod budgets;
mod chats;
mod fencing;
mod jinja;
mod limits;
mod outputs;
mod patterns;
mod people;
mod retries;
mod schemas;
mod tools;
mod world;
