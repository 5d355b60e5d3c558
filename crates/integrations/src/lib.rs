//! How Segno works with programs that it did not start.
//!
//! [`hooks`] makes CLI agents report their sessions, [`watch`] notices transcripts that grow.

pub mod hooks;
pub mod watch;
