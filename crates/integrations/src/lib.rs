//! How Segno works with programs that it did not start.
//!
//! [`mcp`] serves agents that read and note the history of their session, [`hooks`] makes CLI agents
//! report their sessions, [`watch`] notices transcripts that grow, and [`transcripts`] makes sessions
//! of them.

pub mod hooks;
pub mod mcp;
pub mod transcripts;
pub mod watch;
