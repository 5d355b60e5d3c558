//! Loads seeds: test data of the other crates, and the fuzzer's own files.

#![expect(
    clippy::disallowed_methods,
    reason = "a developer tool that reads files of the repository"
)]

use std::path::{Path, PathBuf};

/// Reads the files in a folder of this repository whose names end with `end`, sorted by name.
pub fn files(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    let files = std::fs::read_dir(&folder).expect("the seeds are in the repository");
    let paths = files.map(|file| file.expect("a folder can be listed").path());
    let ends = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(end));
    let mut paths: Vec<_> = paths.filter(|path| path.is_file() && ends(path)).collect();
    paths.sort();
    let read = |path: &PathBuf| std::fs::read(path).expect("a seed can be read");
    paths.iter().map(read).collect()
}

/// Reads the fuzzer's own seeds of a target.
pub fn own(target: &str) -> Vec<Vec<u8>> {
    files(&format!("fuzz/seeds/{target}"), "")
}
