//! Web access for tools: only to what [`Reach`](super::NetworkPolicy) allows, with timeouts and size
//! limits.

mod client;
mod executor;
mod fetch;
mod html;
mod input;
mod markdown;
mod received;
mod request;
mod search;

pub use client::Web;
pub use executor::{Executor, Executors};
pub use search::Search;

pub(super) use fetch::WEB_FETCH;
pub(super) use request::HTTP_REQUEST;
pub(super) use search::{DUCKDUCKGO_SEARCH, TAVILY_SEARCH};
