//! The MCP server for agents: `segno mcp`.
//!
//! An agent asks here for what it needs to know of its session, and leaves what whoever goes on must
//! know. It speaks the Model Context Protocol: [`lines`] cuts what comes, [`rpc`] reads it, [`server`]
//! answers. [`tools`] and [`resources`] are what is offered; [`desk`] is the session that it is about,
//! opened when it is first needed, so that starting costs nothing. [`snippets`] says how other programs
//! are told of it.
//!
//! Whoever starts the server says which session it is about, and nothing that an agent says can change
//! that. What comes in is bounded, and wrong input is answered and never ends the server. It can
//! neither grant anything, nor answer a question that a person was asked, nor end a session.

mod desk;
mod lines;
mod resources;
mod rpc;
mod server;
pub(crate) mod snippets;
mod tools;

pub(crate) use desk::Desk;
pub(crate) use server::serve;

/// The name under which programs know the server.
pub(crate) const NAME: &str = "segno";
