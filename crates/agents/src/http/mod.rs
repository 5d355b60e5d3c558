//! Shared by all models behind an API: the client, event streams, and the mapping of error
//! responses.

mod client;
mod errors;
mod reset;
mod stream;

pub(crate) use client::secret_header;
pub use client::{Client, Endpoint, Inference};
pub(crate) use errors::{
    body_text, check_status, describe_error, is_too_long, kind_of_client_error, protocol_error,
    request_error, stream_error, summary, unwrap_list,
};
pub(crate) use reset::retry_after;
#[cfg(feature = "probe")]
pub(crate) use stream::Events;
pub(crate) use stream::Stream;
