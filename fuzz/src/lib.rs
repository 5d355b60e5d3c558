//! What must hold of every parser of bytes from outside, whatever the bytes are.
//!
//! Two ways to run it: `cargo +nightly fuzz run TARGET --features libfuzzer`, guided by coverage, and
//! `cargo run --release -- TARGET MINUTES [SEED]`, which needs nothing but a stable compiler.

pub mod mutate;
pub mod transcript;
