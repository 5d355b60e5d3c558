//! Checks the rules of the repository (dependencies between crates, error pages, golden files), and
//! that the test support for agents works.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test answers, and the repository is the subject"
)]

mod agents;
mod dependencies;
mod documents;
mod error_pages;
mod golden;
mod modules;
mod words;

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
