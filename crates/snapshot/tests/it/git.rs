//! Git's own truth: captured without a trace, and brought back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use segno_snapshot::git::{self, Restored, Truth, Wish};

use crate::sandbox::Sandbox;

mod hostile;
mod remotes;
mod round_trips;
mod several;
mod trouble;

/// A repository with a commit.
fn started() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q"]);
    sandbox.commit("", "first", "1\n");
    sandbox
}

/// Captures the repository at `path`, and proves that nothing of the workspace changed by it.
fn capture(sandbox: &Sandbox, path: &str, wish: &Wish) -> (Truth, Vec<u8>) {
    let before = everything(&sandbox.root());
    let mut pack = Vec::new();
    let truth = git::capture(&sandbox.root(), Path::new(path), wish, &mut pack).unwrap();
    let after = everything(&sandbox.root());
    for (path, state) in &before {
        assert_eq!(Some(state), after.get(path), "{}", path.display());
    }
    assert_eq!(before.len(), after.len());
    assert_eq!(truth.pack.bytes, pack.len() as u64);
    // It survives being written down.
    let text = serde_json::to_string(&truth).unwrap();
    assert_eq!(serde_json::from_str::<Truth>(&text).unwrap(), truth);
    (truth, pack)
}

/// Every file with its bytes, mode and time, and every folder with its time.
fn everything(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            Vec::new()
        } else if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        let state = (
            content,
            metadata.mode(),
            metadata.mtime(),
            metadata.mtime_nsec(),
        );
        found.insert(path, state);
    }
    found
}

/// Copies the files of a workspace without what git keeps, as a snapshot of files brings them back.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_name() == ".git" {
        } else if entry.file_type().unwrap().is_dir() {
            copy_files(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Brings a repository back elsewhere, beside copies of its files.
fn restore(sandbox: &Sandbox, truth: &Truth, pack: &[u8]) -> (PathBuf, Restored) {
    let root = sandbox.path("restored");
    if !root.exists() {
        copy_files(&sandbox.root(), &root);
    }
    let into = if truth.path.0.is_empty() {
        root
    } else {
        root.join(truth.path.as_path())
    };
    let restored = git::restore(truth, &mut &*pack, &into).unwrap();
    (into, restored)
}

/// What git says of a repository, in many ways.
fn says(sandbox: &Sandbox, folder: &Path) -> Vec<String> {
    let questions: &[&[&str]] = &[
        &["status", "--porcelain=v2", "--branch", "--show-stash"],
        &["status"],
        &["for-each-ref"],
        &["stash", "list"],
        &["ls-files", "--stage", "-v", "--debug"],
        &["log", "--all", "--format=%H %T %s"],
        &["reflog", "--all"],
        &["diff", "--cached"],
        &["diff"],
        &["rev-parse", "--symbolic-full-name", "HEAD"],
    ];
    let stats = ["ctime", "mtime", "dev", "uid", "size"];
    let mut answers = Vec::new();
    for question in questions {
        let output = sandbox.try_git(folder, question);
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = answer.lines();
        // Where a file lies on the disk is not part of what is compared.
        let lines = lines.filter(|line| !stats.iter().any(|stat| line.trim().starts_with(stat)));
        let answer = lines.collect::<Vec<_>>().join("\n");
        answers.push(format!("{question:?} {}\n{answer}", output.status));
    }
    answers
}

fn is_whole(sandbox: &Sandbox, folder: &Path) {
    let output = sandbox.try_git(folder, &["fsck", "--full", "--strict"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        !errors.contains("error") && !errors.contains("missing"),
        "{errors}"
    );
}

/// Captures and restores everything, and proves that git says the same of both.
fn round_trip(sandbox: &Sandbox) -> (Truth, PathBuf) {
    let (truth, pack) = capture(sandbox, "", &Wish::default());
    assert_eq!(truth.missing.count, 0);
    let (into, restored) = restore(sandbox, &truth, &pack);
    assert_eq!(restored.missing, []);
    assert_eq!(says(sandbox, &sandbox.root()), says(sandbox, &into));
    // After that: of a sparse index git misses folders until it has unfolded it once.
    is_whole(sandbox, &into);
    (truth, into)
}
