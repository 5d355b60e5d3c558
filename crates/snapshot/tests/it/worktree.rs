//! Branches, worktrees and commits in a user's repository.

use std::fs;
use std::path::{Path, PathBuf};

use segno_core::worktree::{CommitOutcome, CommitRequest, Error, NewWorktree};
use segno_snapshot::git::worktree;

use crate::sandbox::Sandbox;

/// A repository with one commit and a configured committer. Returns the folder and the commit.
fn repository(sandbox: &Sandbox) -> (PathBuf, String) {
    let folder = sandbox.root().join("repo");
    sandbox.git(sandbox.root(), &["init", "-q", "-b", "main", "repo"]);
    sandbox.git(&folder, &["config", "user.name", "Ada"]);
    sandbox.git(&folder, &["config", "user.email", "ada@example.org"]);
    fs::write(folder.join("first"), "first\n").unwrap();
    sandbox.git(&folder, &["add", "."]);
    sandbox.git(&folder, &["commit", "-q", "-m", "Begin"]);
    let commit = sandbox.git(&folder, &["rev-parse", "HEAD"]);
    (folder, commit)
}

fn operation(folder: &Path, since: &str, task: &str) -> CommitRequest {
    CommitRequest {
        folder: folder.to_owned(),
        since: since.to_owned(),
        subject: format!("{task}: do"),
        body: String::new(),
        trailers: vec![("Segno-Task".into(), task.into())],
    }
}

#[test]
fn concurrent_commits_make_one_commit() {
    let sandbox = Sandbox::new();
    let (folder, start) = repository(&sandbox);
    fs::write(folder.join("new"), "new\n").unwrap();
    let made: Vec<CommitOutcome> = std::thread::scope(|scope| {
        let commit = || worktree::commit(&operation(&folder, &start, "T1")).unwrap();
        let all: Vec<_> = (0..8).map(|_| scope.spawn(commit)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let head = sandbox.git(&folder, &["rev-parse", "HEAD"]);
    assert!(
        made.iter()
            .all(|made| *made == CommitOutcome::Commit(head.clone())),
        "{made:?}"
    );
    assert_eq!(sandbox.git(&folder, &["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(sandbox.git(&folder, &["status", "--porcelain"]), "");
}

#[test]
fn commit_of_another_task_is_not_reused() {
    let sandbox = Sandbox::new();
    let (folder, start) = repository(&sandbox);
    fs::write(folder.join("one"), "1\n").unwrap();
    let CommitOutcome::Commit(first) = worktree::commit(&operation(&folder, &start, "T1")).unwrap()
    else {
        panic!("nothing was committed");
    };
    fs::write(folder.join("two"), "2\n").unwrap();
    let CommitOutcome::Commit(second) =
        worktree::commit(&operation(&folder, &first, "T2")).unwrap()
    else {
        panic!("nothing was committed");
    };
    // The same trailer, after the commit that has it.
    fs::write(folder.join("three"), "3\n").unwrap();
    let third = worktree::commit(&operation(&folder, &second, "T1")).unwrap();
    assert!(matches!(third, CommitOutcome::Commit(third) if third != first));
    assert_eq!(sandbox.git(&folder, &["rev-list", "--count", "HEAD"]), "4");
}

#[test]
fn empty_commit_is_skipped_others_are_reported() {
    let sandbox = Sandbox::new();
    let (folder, start) = repository(&sandbox);
    let made = worktree::commit(&operation(&folder, &start, "T1")).unwrap();
    assert_eq!(made, CommitOutcome::NothingChanged);
    sandbox.git(&folder, &["commit", "-q", "--allow-empty", "-m", "theirs"]);
    let head = sandbox.git(&folder, &["rev-parse", "HEAD"]);
    let made = worktree::commit(&operation(&folder, &start, "T1")).unwrap();
    assert_eq!(made, CommitOutcome::OthersCommitted(head));
}

#[test]
fn commit_starts_no_repository_program() {
    let sandbox = Sandbox::new();
    let (folder, start) = repository(&sandbox);
    let proof = sandbox.path("proof");
    let script = format!("#!/bin/sh\ntouch {}\nexit 1\n", proof.display());
    for hook in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-checkout",
    ] {
        let path = folder.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &script).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let program = folder.join(".git/hooks/pre-commit").display().to_string();
    for key in [
        "core.fsmonitor",
        "core.editor",
        "gpg.program",
        "diff.external",
    ] {
        sandbox.git(&folder, &["config", key, &program]);
    }
    sandbox.git(&folder, &["config", "commit.gpgsign", "true"]);
    let ours = sandbox.path("ours");
    let plot = NewWorktree {
        repository: folder.clone(),
        branch: "segno/x".into(),
        commit: start.clone(),
        folder: ours.clone(),
    };
    worktree::create_worktree(&plot).unwrap();
    fs::write(ours.join("new"), "new\n").unwrap();
    let shown = worktree::diff(&ours, &start, 1000).unwrap();
    assert!(shown.contains("+new"), "{shown}");
    let made = worktree::commit(&operation(&ours, &start, "T1")).unwrap();
    assert!(matches!(made, CommitOutcome::Commit(_)));
    assert!(!proof.exists());
}

#[test]
fn diff_lists_files_and_is_truncated() {
    let sandbox = Sandbox::new();
    let (folder, start) = repository(&sandbox);
    fs::write(folder.join("long"), "line\n".repeat(10_000)).unwrap();
    let shown = worktree::diff(&folder, &start, 2_000).unwrap();
    assert!(shown.starts_with(" long | 10000 +"), "{shown}");
    assert!(shown.ends_with("(cut after 2000 bytes)\n") && shown.len() < 2_100);
}

#[test]
fn branch_at_another_commit_is_refused() {
    let sandbox = Sandbox::new();
    let (folder, start) = repository(&sandbox);
    sandbox.git(&folder, &["commit", "-q", "--allow-empty", "-m", "two"]);
    sandbox.git(&folder, &["branch", "segno/x"]);
    let plot = NewWorktree {
        repository: folder,
        branch: "segno/x".into(),
        commit: start,
        folder: sandbox.path("ours"),
    };
    let refused = worktree::create_worktree(&plot).unwrap_err();
    assert!(matches!(refused, Error::BranchTaken { .. }), "{refused}");
    assert!(!sandbox.path("ours").exists());
}
