//! Git repositories: captured without a trace, and usable after a restore.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use segno_core::checkpoint::Repository;
use segno_core::digest::Digest;
use segno_snapshot::scope::{Evidence, Rules};
use segno_snapshot::{Request, Restore, RestoreReport, SnapshotStore, Trust};

use crate::fixture::FROZEN_CLOCK;
use crate::sandbox::Sandbox;

mod concurrent;
mod hostile;
mod remotes;
mod round_trips;
mod several;
mod since;

/// A repository with a commit.
fn repository_with_commit() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q"]);
    sandbox.commit("", "first", "1\n");
    sandbox
}

/// A captured workspace.
struct CapturedWorkspace {
    store: SnapshotStore,
    snapshot: Digest,
    repositories: Vec<Repository>,
}

impl CapturedWorkspace {
    fn repository(&self, path: &str) -> &Repository {
        let mut repositories = self.repositories.iter();
        repositories
            .find(|repository| repository.path == path)
            .unwrap()
    }
}

/// Captures the workspace, and asserts that the capture changed nothing in it.
fn capture(sandbox: &Sandbox) -> CapturedWorkspace {
    capture_since(sandbox, None)
}

/// Like [`capture`], with the changes since a commit.
fn capture_since(sandbox: &Sandbox, since: Option<&str>) -> CapturedWorkspace {
    let before = file_states(&sandbox.root());
    let store = SnapshotStore::open(&sandbox.path("store")).unwrap();
    let scope = Evidence::new(sandbox.root(), Rules::default());
    let root = sandbox.root();
    let request = Request {
        scope: &scope,
        ..Request::new(&root, &FROZEN_CLOCK)
    };
    let captured = store.capture(&request, &|_| {}).unwrap();
    assert_eq!(captured.unstable, Vec::<PathBuf>::new());
    let repositories =
        store.capture_repositories(&root, &captured.repositories, since, &FROZEN_CLOCK);
    let after = file_states(&sandbox.root());
    for (path, state) in &before {
        assert_eq!(Some(state), after.get(path), "{}", path.display());
    }
    assert_eq!(before.len(), after.len());
    CapturedWorkspace {
        store,
        snapshot: captured.snapshot,
        repositories,
    }
}

/// Every file with its bytes, mode and time, and every folder with its time.
fn file_states(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64, i64)> {
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

/// Restores a workspace at another path.
fn restore(sandbox: &Sandbox, kept: &CapturedWorkspace, trust: Trust) -> (PathBuf, RestoreReport) {
    let into = sandbox.path("restored");
    let options = Restore {
        trust,
        ..Restore::default()
    };
    let restored = kept.store.restore(kept.snapshot, &into, &options, &|_| {});
    let restored = restored.unwrap();
    let mended =
        kept.store
            .repair_repositories(&into, &sandbox.root(), &kept.repositories, &options);
    mended.unwrap();
    (into, restored)
}

/// The output of many git commands in a repository.
fn git_outputs(sandbox: &Sandbox, folder: &Path) -> Vec<String> {
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
        // The stat data of files are not compared.
        let lines = lines.filter(|line| !stats.iter().any(|stat| line.trim().starts_with(stat)));
        let answer = lines.collect::<Vec<_>>().join("\n");
        answers.push(format!("{question:?} {}\n{answer}", output.status));
    }
    answers
}

fn assert_fsck_clean(sandbox: &Sandbox, folder: &Path) {
    let output = sandbox.try_git(folder, &["fsck", "--full", "--strict"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        !errors.contains("error") && !errors.contains("missing"),
        "{errors}"
    );
}

/// Captures and restores a workspace, and asserts that git prints the same in both.
fn round_trip(sandbox: &Sandbox) -> (Repository, PathBuf) {
    let kept = capture(sandbox);
    let (into, restored) = restore(sandbox, &kept, Trust::Full);
    assert_eq!(restored.disarmed, Vec::<PathBuf>::new());
    assert_eq!(
        git_outputs(sandbox, &sandbox.root()),
        git_outputs(sandbox, &into)
    );
    // After the other commands: with a sparse index, git misses folders until it has expanded it
    // once.
    assert_fsck_clean(sandbox, &into);
    let repository = kept.repository("").clone();
    assert_eq!(repository.error, None);
    (repository, into)
}
