//! What must hold of every parser of bytes from outside, whatever the bytes are.
//!
//! Two ways to run it: `cargo run --release -- TARGET MINUTES [SEED]`, which needs nothing but a
//! stable compiler, and `SEGNO_FUZZ_TARGET=TARGET cargo +nightly fuzz run guided --features
//! libfuzzer`, guided by coverage. `README.md` lists the targets.

pub mod kept;
pub mod mutate;
pub mod runner;
pub mod seeds;
pub mod spec;
pub mod streams;
pub mod target;
pub mod transcript;
