//! Models of Amazon Bedrock: the Converse API, streamed.
//!
//! Requests are signed here (AWS Signature Version 4), or carry a bearer token. Responses come in
//! binary frames, each with two checksums, and both are verified. Secrets are never shown: some
//! error responses quote what was signed, the session token included, so credentials are redacted
//! in all messages of a server.

mod access;
mod client;
mod errors;
mod frames;
#[cfg(feature = "probe")]
pub mod probe;
mod protocol;
mod signature;

pub use access::{Credentials, Region};
pub use client::Bedrock;
