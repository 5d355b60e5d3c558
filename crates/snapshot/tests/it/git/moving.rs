//! A repository that is used while it is kept.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_snapshot::scope::{Evidence, Rules};
use segno_snapshot::{Request, Restore, Vault};

use super::{capture, started};
use crate::sandbox::Sandbox;
use crate::world::STILL;

/// Commits without end; every now and then refs and objects are packed, if `packs`.
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

/// Keeps the workspace and brings it back: whether it was said to be unstable, and what git says
/// is wrong with it.
fn keep(sandbox: &Sandbox, round: usize) -> (bool, Result<(), String>) {
    let vault = Vault::open(&sandbox.path("vault")).unwrap();
    let scope = Evidence::new(sandbox.root(), Rules::default());
    let root = sandbox.root();
    let request = Request {
        scope: &scope,
        ..Request::new(&root, &STILL)
    };
    let captured = vault.capture(&request, &|_| {}).unwrap();
    let into = sandbox.path(&format!("restored {round}"));
    let options = Restore::default();
    vault
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

fn keep_while_working(packs: bool) -> Vec<(bool, Result<(), String>)> {
    let sandbox = started();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&sandbox, packs, &done));
        let kept = (0..6).map(|round| keep(&sandbox, round)).collect();
        done.store(true, Ordering::SeqCst);
        kept
    })
}

#[test]
fn a_repository_that_gets_commits_is_kept_whole() {
    for (_, whole) in keep_while_working(false) {
        assert_eq!(whole, Ok(()));
    }
}

#[test]
fn a_repository_that_is_packed_meanwhile_is_kept_whole_or_said_to_be_unstable() {
    for (unstable, whole) in keep_while_working(true) {
        assert!(unstable || whole == Ok(()), "{whole:?}");
    }
}

#[test]
fn locks_and_half_written_objects_do_not_come_back() {
    let sandbox = started();
    sandbox.write(".git/index.lock", "");
    sandbox.write(".git/objects/tmp_obj_x", "half");
    sandbox.write("Cargo.lock", "not git's\n");
    sandbox.git("", &["status"]);
    let kept = capture(&sandbox);
    let entries = kept.vault.list(kept.snapshot).unwrap();
    let names: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path).collect();
    assert!(!names.contains(&".git/index.lock".into()));
    assert!(!names.contains(&".git/objects/tmp_obj_x".into()));
    assert!(names.contains(&"Cargo.lock".into()));
    assert!(fs::metadata(sandbox.root().join(".git/index.lock")).is_ok());
}
