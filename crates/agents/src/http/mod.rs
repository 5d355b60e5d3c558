//! What all models behind an API share: the client, streams of events, and what a refusal means.

mod client;
mod fault;
mod reset;
mod stream;

pub(crate) use client::secret;
pub use client::{Client, Endpoint, Inference};
pub(crate) use fault::{
    failed, is_too_long, named, only, refused, summary, told, unexpected, words,
};
pub(crate) use reset::retry_after;
#[cfg(feature = "probe")]
pub(crate) use stream::Events;
pub(crate) use stream::Stream;
