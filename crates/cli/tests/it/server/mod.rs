//! `segno serve` through its sockets, as clients use it.

mod audit;
mod compatibility;
mod content;
mod events;
mod guard;
mod idempotency;
mod independent;
mod lifecycle;
mod load;
mod login;
mod metrics;
mod previews;
mod qr;
mod remote;
mod routes;
mod runs;
mod tls;

pub(crate) use segno_testkit::client::{Request, Response};
pub(crate) use segno_testkit::serving::{Serving, token};
