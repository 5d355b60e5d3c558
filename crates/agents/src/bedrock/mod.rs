//! Models of Amazon Bedrock: the Converse API, streamed.
//!
//! Requests are signed here (AWS Signature Version 4), or carry a bearer's key. Answers come in
//! binary frames, each with two checksums, and both are checked. No secret is told: some refusals
//! quote what was signed, the session's token included, so all that a server says is searched for
//! what it was shown.

mod access;
mod client;
mod fault;
mod frames;
#[cfg(feature = "probe")]
pub mod probe;
mod protocol;
mod signature;

pub use access::{Access, Region};
pub use client::Bedrock;
