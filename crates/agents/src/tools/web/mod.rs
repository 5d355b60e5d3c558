//! The web for tools: only what is in reach, for a limited time, and no more than fits.

mod client;
mod executor;
mod fetch;
mod input;
mod markup;
mod page;
mod received;
mod request;
mod search;

pub use client::Web;
pub use executor::{Executor, Executors};
pub use search::Search;

pub(super) use fetch::WEB_FETCH;
pub(super) use request::HTTP_REQUEST;
pub(super) use search::{DUCKDUCKGO_SEARCH, TAVILY_SEARCH};
