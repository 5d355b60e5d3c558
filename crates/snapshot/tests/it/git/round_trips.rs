//! Capture and restore of single repositories.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use segno_snapshot::{Restore, Trust};

use super::{assert_fsck_clean, capture, git_outputs, repository_with_commit, restore, round_trip};
use crate::sandbox::Sandbox;

#[test]
fn branches_tags_and_notes_are_restored() {
    let sandbox = repository_with_commit();
    sandbox.git("", &["checkout", "-q", "-b", "feature/x"]);
    let commit = sandbox.commit("", "second", "2\n");
    sandbox.git("", &["tag", "light"]);
    sandbox.git("", &["tag", "-a", "-m", "heavy", "heavy"]);
    sandbox.git("", &["notes", "add", "-m", "a note"]);
    sandbox.git("", &["pack-refs", "--all"]);
    sandbox.git("", &["branch", "loose"]);
    sandbox.write("untracked", "");
    sandbox.write("first", "changed\n");
    let (git, _) = round_trip(&sandbox);
    assert_eq!(git.branch.as_deref(), Some("feature/x"));
    assert_eq!(git.commit, Some(commit));
    assert_eq!((git.staged, git.modified, git.untracked), (0, 1, 1));
    assert_eq!((git.unpushed, git.conflicted, git.stashes), (2, 0, 0));
}

#[test]
fn stashes_are_restored_with_untracked_files() {
    let sandbox = repository_with_commit();
    sandbox.write("first", "one\n");
    sandbox.write("new", "untracked\n");
    sandbox.git("", &["stash", "push", "-q", "-u", "-m", "with untracked"]);
    sandbox.write("first", "two\n");
    sandbox.git("", &["stash", "push", "-q", "-m", "another"]);
    let (git, into) = round_trip(&sandbox);
    assert_eq!(git.stashes, 2);
    sandbox.git(&into, &["stash", "pop", "-q", "stash@{1}"]);
    assert_eq!(fs::read_to_string(into.join("new")).unwrap(), "untracked\n");
    assert_eq!(fs::read_to_string(into.join("first")).unwrap(), "one\n");
}

#[test]
fn detached_head_and_reflog_are_restored() {
    let sandbox = repository_with_commit();
    let lost = sandbox.commit("", "second", "2\n");
    sandbox.git("", &["reset", "-q", "--hard", "HEAD~"]);
    sandbox.git("", &["checkout", "-q", "--detach"]);
    let alone = sandbox.commit("", "third", "3\n");
    let (git, into) = round_trip(&sandbox);
    assert_eq!((git.branch, git.commit), (None, Some(alone)));
    sandbox.git(&into, &["cat-file", "-e", &format!("{lost}^{{tree}}")]);
}

#[test]
fn conflicted_merge_is_restored() {
    let sandbox = repository_with_commit();
    sandbox.git("", &["checkout", "-q", "-b", "other"]);
    sandbox.commit("", "first", "theirs\n");
    sandbox.git("", &["checkout", "-q", "main"]);
    sandbox.commit("", "first", "ours\n");
    assert!(!sandbox.try_git("", &["merge", "other"]).status.success());
    let (git, into) = round_trip(&sandbox);
    assert_eq!(git.activities, ["merge"]);
    assert_eq!(git.conflicted, 1);
    fs::write(into.join("first"), "both\n").unwrap();
    sandbox.git(&into, &["add", "first"]);
    sandbox.git(&into, &["commit", "-q", "--no-edit"]);
    let parents = sandbox.git(&into, &["log", "-1", "--format=%P"]);
    assert_eq!(parents.split(' ').count(), 2);
}

#[test]
fn conflicted_rebase_is_restored() {
    let sandbox = repository_with_commit();
    sandbox.git("", &["checkout", "-q", "-b", "other"]);
    sandbox.commit("", "first", "theirs\n");
    sandbox.commit("", "later", "later\n");
    sandbox.git("", &["checkout", "-q", "main"]);
    sandbox.commit("", "first", "ours\n");
    sandbox.git("", &["checkout", "-q", "other"]);
    sandbox.write("later", "not committed\n");
    let rebase = ["rebase", "--autostash", "main"];
    assert!(!sandbox.try_git("", &rebase).status.success());
    let (git, into) = round_trip(&sandbox);
    assert_eq!(git.activities, ["rebase"]);
    fs::write(into.join("first"), "both\n").unwrap();
    sandbox.git(&into, &["add", "first"]);
    sandbox.git(&into, &["rebase", "--continue"]);
    assert_eq!(
        sandbox.git(&into, &["log", "--format=%s", "-1"]),
        "add later"
    );
    assert_eq!(
        fs::read_to_string(into.join("later")).unwrap(),
        "not committed\n"
    );
}

#[test]
fn cherry_pick_revert_and_bisect_are_restored() {
    let sandbox = repository_with_commit();
    sandbox.git("", &["checkout", "-q", "-b", "other"]);
    let theirs = sandbox.commit("", "first", "theirs\n");
    sandbox.git("", &["checkout", "-q", "main"]);
    sandbox.commit("", "first", "ours\n");
    assert!(
        !sandbox
            .try_git("", &["cherry-pick", &theirs])
            .status
            .success()
    );
    let (git, _) = round_trip(&sandbox);
    assert_eq!(git.activities, ["cherry-pick"]);

    let sandbox = repository_with_commit();
    let second = sandbox.commit("", "first", "2\n");
    sandbox.commit("", "first", "3\n");
    assert!(!sandbox.try_git("", &["revert", &second]).status.success());
    let (git, _) = round_trip(&sandbox);
    assert_eq!(git.activities, ["revert"]);

    let sandbox = repository_with_commit();
    for number in 2..8 {
        sandbox.commit("", "first", &format!("{number}\n"));
    }
    sandbox.git("", &["bisect", "start", "HEAD", "HEAD~6"]);
    let (git, into) = round_trip(&sandbox);
    assert_eq!(git.activities, ["bisect"]);
    sandbox.git(&into, &["bisect", "good"]);
}

#[test]
fn git_am_is_restored() {
    let sandbox = repository_with_commit();
    sandbox.git("", &["checkout", "-q", "-b", "other"]);
    sandbox.commit("", "first", "theirs\n");
    let mail = sandbox.git("", &["format-patch", "-1", "--stdout"]);
    fs::write(sandbox.path("mail"), mail + "\n").unwrap();
    sandbox.git("", &["checkout", "-q", "main"]);
    sandbox.commit("", "first", "ours\n");
    let apply = ["am", "-3", sandbox.path("mail").to_str().unwrap()].map(str::to_owned);
    let apply: Vec<&str> = apply.iter().map(String::as_str).collect();
    assert!(!sandbox.try_git("", &apply).status.success());
    let (git, into) = round_trip(&sandbox);
    assert_eq!(git.activities, ["am"]);
    fs::write(into.join("first"), "both\n").unwrap();
    sandbox.git(&into, &["add", "first"]);
    sandbox.git(&into, &["am", "--continue"]);
    assert_eq!(
        sandbox.git(&into, &["log", "-1", "--format=%s"]),
        "add first"
    );
}

#[test]
fn bare_repository_is_restored() {
    let sandbox = repository_with_commit();
    sandbox.git("", &["config", "core.bare", "true"]);
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    let folder = into.join(".git");
    assert_fsck_clean(&sandbox, &folder);
    assert_eq!(
        sandbox.git(&folder, &["rev-parse", "--is-bare-repository"]),
        "true"
    );
}

#[test]
fn index_version_4_is_restored() {
    let sandbox = repository_with_commit();
    sandbox.commit("", "a/long/path/one", "1\n");
    sandbox.commit("", "a/long/path/two", "2\n");
    sandbox.git("", &["update-index", "--index-version", "4"]);
    sandbox.git("", &["update-index", "--skip-worktree", "a/long/path/two"]);
    sandbox.git(
        "",
        &["update-index", "--assume-unchanged", "a/long/path/one"],
    );
    sandbox.write("a/long/path/one", "changed\n");
    round_trip(&sandbox);
}

#[test]
fn staged_rename_delete_and_intent_are_restored() {
    let sandbox = repository_with_commit();
    sandbox.commit("", "moved", &"line\n".repeat(50));
    sandbox.commit("", "gone", "x\n");
    sandbox.git("", &["mv", "moved", "moved to"]);
    sandbox.git("", &["rm", "-q", "gone"]);
    sandbox.write("staged only", "in the index\n");
    sandbox.git("", &["add", "staged only"]);
    sandbox.write("staged only", "in the file\n");
    sandbox.write("intent", "x\n");
    sandbox.git("", &["add", "-N", "intent"]);
    let (git, into) = round_trip(&sandbox);
    assert_eq!(git.staged, 3);
    assert_eq!(
        sandbox.git(&into, &["show", ":staged only"]),
        "in the index"
    );
}

#[test]
fn sha256_repository_is_restored() {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q", "--object-format=sha256"]);
    sandbox.commit("", "first", "1\n");
    let (git, _) = round_trip(&sandbox);
    assert_eq!(git.commit.unwrap().len(), 64);
}

#[test]
fn split_and_sparse_indexes_are_restored() {
    for (key, command) in [
        ("core.splitIndex", &["update-index", "--split-index"][..]),
        (
            "index.sparse",
            &["sparse-checkout", "set", "--cone", "--sparse-index", "a"],
        ),
    ] {
        let sandbox = repository_with_commit();
        sandbox.commit("", "a/x", "1\n");
        sandbox.commit("", "b/x", "1\n");
        sandbox.git("", &["config", key, "true"]);
        sandbox.git("", command);
        sandbox.write("a/staged", "2\n");
        sandbox.git("", &["add", "a/staged"]);
        round_trip(&sandbox);
    }
}

#[test]
fn reftable_repository_is_restored() {
    let sandbox = Sandbox::new();
    if !sandbox
        .try_git("", &["init", "-q", "--ref-format=reftable"])
        .status
        .success()
    {
        return;
    }
    sandbox.commit("", "first", "1\n");
    sandbox.git("", &["tag", "one"]);
    let lost = sandbox.commit("", "second", "2\n");
    sandbox.git("", &["reset", "-q", "--hard", "HEAD~"]);
    for content in ["a\n", "b\n"] {
        sandbox.write("first", content);
        sandbox.git("", &["stash", "push", "-q", "-m", content.trim()]);
    }
    let (git, into) = round_trip(&sandbox);
    assert_eq!(git.stashes, 2);
    sandbox.git(&into, &["cat-file", "-e", &lost]);
}

#[test]
fn edit_in_the_same_tick_as_the_index_is_seen() {
    let sandbox = repository_with_commit();
    sandbox.git("", &["config", "core.trustctime", "false"]);
    let moment = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let at_that_moment = |path: &str| {
        let file = fs::File::options()
            .write(true)
            .open(sandbox.root().join(path));
        file.unwrap().set_modified(moment).unwrap();
    };
    // The same length and the same time: only the mtime of the index tells git to compare the
    // content.
    sandbox.write("first", "aa\n");
    at_that_moment("first");
    sandbox.git("", &["add", "first"]);
    at_that_moment(".git/index");
    sandbox.write("first", "bb\n");
    at_that_moment("first");
    assert_eq!(capture(&sandbox).repository("").modified, 1);
}

#[test]
fn same_tick_edit_is_seen_after_restore_in_place() {
    for _ in 0..10 {
        let sandbox = repository_with_commit();
        sandbox.write("first", "aa\n");
        sandbox.git("", &["add", "first"]);
        sandbox.write("first", "bb\n");
        let kept = capture(&sandbox);
        fs::rename(sandbox.root().join(".git"), sandbox.path("moved")).unwrap();
        let into = sandbox.root();
        let options = Restore::default();
        kept.store
            .restore(kept.snapshot, &into, &options, &|_| {})
            .unwrap();
        assert_eq!(sandbox.git("", &["status", "--porcelain"]), "MM first");
    }
}

#[test]
fn strange_names_are_restored() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    let strange = std::ffi::OsStr::from_bytes(b"a \"b\" #\\\n\xff");
    let folder = sandbox.root().join(strange);
    fs::create_dir(&folder).unwrap();
    sandbox.git(&folder, &["init", "-q"]);
    fs::write(folder.join(strange), "1\n").unwrap();
    sandbox.git(&folder, &["add", "."]);
    sandbox.git(&folder, &["commit", "-q", "-m", "x"]);
    sandbox.git(&folder, &["branch", "grün"]);
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    let into = into.join(strange);
    assert_fsck_clean(&sandbox, &into);
    assert_eq!(git_outputs(&sandbox, &folder), git_outputs(&sandbox, &into));
}
