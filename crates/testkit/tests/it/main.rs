//! The house keeps its own rules (arrows, error pages, what documents promise), and the ground that
//! tests of agents stand on holds.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test answers, and the repository is the subject"
)]

mod agents;
mod arrows;
mod error_pages;
mod golden;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
