//! Clones of all sorts.

use std::fs;

use segno_snapshot::Trust;

use super::{capture, is_whole, restore, says};
use crate::sandbox::Sandbox;

/// A clone of a bare repository, with what was never pushed.
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
fn unpushed_work_is_counted_and_comes_back_without_the_remote() {
    let sandbox = cloned();
    sandbox.commit("", "file 3", "changed\n");
    sandbox.git("", &["checkout", "-q", "-b", "local"]);
    sandbox.commit("", "file 4", "changed\n");
    sandbox.write("file 5", "stashed\n");
    sandbox.git("", &["stash", "-q"]);
    let kept = capture(&sandbox);
    let git = kept.repository("");
    assert_eq!((git.unpushed, git.stashes), (2, 1));
    let before = says(&sandbox, &sandbox.root());
    fs::rename(sandbox.path("remote.git"), sandbox.path("gone")).unwrap();
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    is_whole(&sandbox, &into);
    assert_eq!(before, says(&sandbox, &into));
}

#[test]
fn a_shallow_clone_comes_back_shallow() {
    let sandbox = cloned();
    let url = format!("file://{}", sandbox.path("remote.git").display());
    sandbox.git("", &["clone", "-q", "--depth", "3", &url, "shallow"]);
    sandbox.commit("shallow", "more", "1\n");
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    let into = into.join("shallow");
    is_whole(&sandbox, &into);
    let count = sandbox.git(&into, &["rev-list", "--count", "HEAD"]);
    assert_eq!(count, "4");
    let before = says(&sandbox, &sandbox.root().join("shallow"));
    assert_eq!(before, says(&sandbox, &into));
}

#[test]
fn a_partial_clone_fetches_nothing_while_it_is_kept() {
    let sandbox = cloned();
    sandbox.git(
        sandbox.path("remote.git"),
        &["config", "uploadpack.allowFilter", "true"],
    );
    let url = format!("file://{}", sandbox.path("remote.git").display());
    let args = ["clone", "-q", "--no-checkout", "--filter=blob:none"];
    sandbox.git("", &[&args[..], &[&url, "partial"]].concat());
    // That nothing was fetched is what `capture` proves.
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    let log = ["log", "--format=%H"];
    let restored = sandbox.git(into.join("partial"), &log);
    assert_eq!(restored, sandbox.git("partial", &log));
}

#[test]
fn objects_that_are_borrowed_are_told_of() {
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
    let trouble = kept.repository("shared").trouble.clone().unwrap();
    assert!(trouble.contains(remote.to_str().unwrap()), "{trouble}");
}
