//! Properties that must hold for every parser of external bytes, whatever the bytes are.
//!
//! There are two ways to run them: `cargo run --release -- TARGET MINUTES [SEED]` needs only a
//! stable compiler; `SEGNO_FUZZ_TARGET=TARGET cargo +nightly fuzz run guided --features libfuzzer`
//! is guided by coverage. `README.md` lists the targets.

pub mod files;
pub mod mutate;
pub mod redact;
pub mod runner;
pub mod seeds;
pub mod spec;
pub mod streams;
pub mod target;
pub mod transcript;
