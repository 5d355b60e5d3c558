//! Clones of all kinds.

use std::fs;

use segno_snapshot::Trust;

use super::{assert_fsck_clean, capture, git_outputs, restore};
use crate::sandbox::Sandbox;

/// A clone of a bare repository.
pub(super) fn cloned() -> Sandbox {
    let sandbox = Sandbox::new();
    let remote = sandbox.path("remote.git");
    sandbox.git("", &["init", "-q", "--bare", remote.to_str().unwrap()]);
    sandbox.git("", &["init", "-q"]);
    for number in 0..20 {
        let content = format!("{number}\n").repeat(200);
        sandbox.commit("", &format!("file {number}"), &content);
    }
    sandbox.git("", &["remote", "add", "origin", remote.to_str().unwrap()]);
    sandbox.git("", &["push", "-q", "-u", "origin", "main"]);
    sandbox
}

#[test]
fn unpushed_commits_are_counted_and_restored() {
    let sandbox = cloned();
    sandbox.commit("", "file 3", "changed\n");
    sandbox.git("", &["checkout", "-q", "-b", "local"]);
    sandbox.commit("", "file 4", "changed\n");
    sandbox.write("file 5", "stashed\n");
    sandbox.git("", &["stash", "-q"]);
    let kept = capture(&sandbox);
    let git = kept.repository("");
    assert_eq!((git.unpushed, git.stashes), (2, 1));
    let before = git_outputs(&sandbox, &sandbox.root());
    fs::rename(sandbox.path("remote.git"), sandbox.path("gone")).unwrap();
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    assert_fsck_clean(&sandbox, &into);
    assert_eq!(before, git_outputs(&sandbox, &into));
}

#[test]
fn shallow_clone_is_restored_shallow() {
    let sandbox = cloned();
    let url = format!("file://{}", sandbox.path("remote.git").display());
    sandbox.git("", &["clone", "-q", "--depth", "3", &url, "shallow"]);
    sandbox.commit("shallow", "more", "1\n");
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    let into = into.join("shallow");
    assert_fsck_clean(&sandbox, &into);
    let count = sandbox.git(&into, &["rev-list", "--count", "HEAD"]);
    assert_eq!(count, "4");
    let before = git_outputs(&sandbox, &sandbox.root().join("shallow"));
    assert_eq!(before, git_outputs(&sandbox, &into));
}

#[test]
fn capture_of_partial_clone_fetches_nothing() {
    let sandbox = cloned();
    sandbox.git(
        sandbox.path("remote.git"),
        &["config", "uploadpack.allowFilter", "true"],
    );
    let url = format!("file://{}", sandbox.path("remote.git").display());
    let args = ["clone", "-q", "--no-checkout", "--filter=blob:none"];
    sandbox.git("", &[&args[..], &[&url, "partial"]].concat());
    // `capture` asserts that nothing was fetched.
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    let log = ["log", "--format=%H"];
    let restored = sandbox.git(into.join("partial"), &log);
    assert_eq!(restored, sandbox.git("partial", &log));
}

#[test]
fn borrowed_objects_are_reported() {
    let sandbox = cloned();
    let remote = sandbox.path("remote.git");
    let args = [
        "clone",
        "-q",
        "--shared",
        remote.to_str().unwrap(),
        "shared",
    ];
    sandbox.git("", &args);
    let kept = capture(&sandbox);
    let trouble = kept.repository("shared").error.clone().unwrap();
    assert!(trouble.contains(remote.to_str().unwrap()), "{trouble}");
}
