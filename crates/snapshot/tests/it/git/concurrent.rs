//! Repositories that are in use during a capture.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_snapshot::scope::{Evidence, Rules};
use segno_snapshot::{Request, Restore, SnapshotStore};

use super::{capture, repository_with_commit};
use crate::fixture::FROZEN_CLOCK;
use crate::sandbox::Sandbox;

/// Commits without end; sometimes also packs refs and objects, if `packs`.
fn work(sandbox: &Sandbox, packs: bool, done: &AtomicBool) {
    let mut number = 0;
    while !done.load(Ordering::SeqCst) {
        sandbox.commit("", "first", &format!("{number}\n"));
        sandbox.git("", &["tag", &format!("tag-{number}")]);
        if packs && number % 5 == 4 {
            sandbox.git("", &["reset", "-q", "--hard", "HEAD~2"]);
            sandbox.git("", &["repack", "-q", "-a", "-d"]);
            sandbox.git("", &["pack-refs", "--all"]);
        }
        number += 1;
    }
}

/// Captures and restores the workspace. Returns whether it was flagged as unstable, and what git
/// fsck reports.
fn capture_and_restore(sandbox: &Sandbox, round: usize) -> (bool, Result<(), String>) {
    let store = SnapshotStore::open(&sandbox.path("store")).unwrap();
    let scope = Evidence::new(sandbox.root(), Rules::default());
    let root = sandbox.root();
    let request = Request {
        scope: &scope,
        ..Request::new(&root, &FROZEN_CLOCK)
    };
    let captured = store.capture(&request, &|_| {}).unwrap();
    let into = sandbox.path(&format!("restored {round}"));
    let options = Restore::default();
    store
        .restore(captured.snapshot, &into, &options, &|_| {})
        .unwrap();
    let fsck = sandbox.try_git(&into, &["fsck", "--full", "--strict"]);
    let errors = String::from_utf8_lossy(&fsck.stderr).into_owned();
    let whole = fsck.status.success() && !errors.contains("error") && !errors.contains("missing");
    (
        !captured.unstable.is_empty(),
        whole.then_some(()).ok_or(errors),
    )
}

fn capture_while_working(packs: bool) -> Vec<(bool, Result<(), String>)> {
    let sandbox = repository_with_commit();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&sandbox, packs, &done));
        let kept = (0..6)
            .map(|round| capture_and_restore(&sandbox, round))
            .collect();
        done.store(true, Ordering::SeqCst);
        kept
    })
}

#[test]
fn repository_under_commits_is_captured_intact() {
    for (_, whole) in capture_while_working(false) {
        assert_eq!(whole, Ok(()));
    }
}

#[test]
fn repository_under_repack_is_intact_or_unstable() {
    for (unstable, whole) in capture_while_working(true) {
        assert!(unstable || whole == Ok(()), "{whole:?}");
    }
}

#[test]
fn git_locks_and_partial_objects_are_excluded() {
    let sandbox = repository_with_commit();
    sandbox.write(".git/index.lock", "");
    sandbox.write(".git/objects/tmp_obj_x", "half");
    sandbox.write("Cargo.lock", "not git's\n");
    sandbox.git("", &["status"]);
    let kept = capture(&sandbox);
    let entries = kept.store.list(kept.snapshot).unwrap();
    let names: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path).collect();
    assert!(!names.contains(&".git/index.lock".into()));
    assert!(!names.contains(&".git/objects/tmp_obj_x".into()));
    assert!(names.contains(&"Cargo.lock".into()));
    assert!(fs::metadata(sandbox.root().join(".git/index.lock")).is_ok());
}
