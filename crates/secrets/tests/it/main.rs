//! Redaction, measured on generated texts.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]
#![expect(
    clippy::disallowed_methods,
    reason = "the figures are written to a file that `make test` prints"
)]

mod corpus;
mod redaction;
