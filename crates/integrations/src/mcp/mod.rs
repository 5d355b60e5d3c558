//! The MCP server for agents: `segno mcp`.
//!
//! An agent reads the history of its session here, and records notes for the next run. [`lines`]
//! splits the input, [`rpc`] parses messages, [`server`] answers them. [`tools`] and [`resources`]
//! define what the server offers. [`bound_session`] is the session, opened on first use through
//! [`Opener`] so that the server starts fast.
//!
//! The process that starts the server chooses the session, and nothing an agent sends can change
//! that. Input is bounded, and wrong input is answered with an error and never ends the server. The
//! server cannot grant permissions, answer questions to the user, or end a session.

mod bound_session;
mod error;
mod lines;
mod opener;
mod resources;
mod rpc;
mod server;
mod tools;

pub use bound_session::BoundSession;
pub use opener::{OpenError, Opener};
pub use server::{NAME, serve};

use error::Error;
