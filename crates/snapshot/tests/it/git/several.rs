//! Submodules, worktrees and nested repositories.

use std::fs;

use segno_snapshot::Trust;

use super::{assert_fsck_clean, capture, git_outputs, repository_with_commit, restore};
use crate::sandbox::Sandbox;

#[test]
fn submodules_are_separate_repositories() {
    let sandbox = repository_with_commit();
    let library = sandbox.path("library");
    fs::create_dir(&library).unwrap();
    sandbox.git(&library, &["init", "-q"]);
    fs::write(library.join("code"), "1\n").unwrap();
    sandbox.git(&library, &["add", "code"]);
    sandbox.git(&library, &["commit", "-q", "-m", "x"]);
    sandbox.git(
        "",
        &[
            "submodule",
            "--quiet",
            "add",
            library.to_str().unwrap(),
            "libs/one",
        ],
    );
    sandbox.git("", &["commit", "-q", "-m", "submodule"]);
    sandbox.commit("libs/one", "unpushed", "2\n");
    sandbox.write("libs/one/dirty", "3\n");
    let kept = capture(&sandbox);
    let module = kept.repository("libs/one");
    assert_eq!((module.unpushed, module.untracked), (1, 1));
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    for path in ["", "libs/one"] {
        assert_fsck_clean(&sandbox, &into.join(path));
        let before = git_outputs(&sandbox, &sandbox.root().join(path));
        assert_eq!(before, git_outputs(&sandbox, &into.join(path)));
    }
}

#[test]
fn worktree_is_linked_to_its_repository() {
    let sandbox = Sandbox::new();
    sandbox.folder("main");
    sandbox.git("main", &["init", "-q"]);
    sandbox.commit("main", "first", "1\n");
    sandbox.git("main", &["worktree", "add", "-q", "-b", "side", "../side"]);
    sandbox.commit("side", "second", "2\n");
    sandbox.write("side/staged", "3\n");
    sandbox.git("side", &["add", "staged"]);
    sandbox.git(
        "main",
        &["worktree", "add", "-q", "--detach", "../detached"],
    );
    let alone = sandbox.commit("detached", "third", "3\n");
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    // They work without the original folder.
    let before =
        ["main", "side", "detached"].map(|path| git_outputs(&sandbox, &sandbox.root().join(path)));
    fs::rename(sandbox.root(), sandbox.path("gone")).unwrap();
    for (path, before) in ["main", "side", "detached"].into_iter().zip(before) {
        assert_eq!(before, git_outputs(&sandbox, &into.join(path)), "{path}");
        assert_fsck_clean(&sandbox, &into.join(path));
    }
    let main_folder = into.join("main");
    let list = sandbox.git(&main_folder, &["worktree", "list"]);
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.contains(&alone[..7]), "{list}");
}

#[test]
fn worktree_config_stays_separate() {
    let sandbox = Sandbox::new();
    sandbox.folder("main");
    sandbox.git("main", &["init", "-q"]);
    sandbox.commit("main", "a/x", "1\n");
    sandbox.commit("main", "b/x", "1\n");
    sandbox.git("main", &["worktree", "add", "-q", "../side"]);
    sandbox.git("side", &["sparse-checkout", "set", "--cone", "a"]);
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    for (path, sparse) in [("side", "true"), ("main", "")] {
        let asked = sandbox.try_git(into.join(path), &["config", "core.sparseCheckout"]);
        assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), sparse);
        assert_eq!(sandbox.git(into.join(path), &["status", "--porcelain"]), "");
    }
}

/// A workspace that is a linked worktree of a repository elsewhere, with commits, stashed, staged
/// and untracked files.
fn worktree_of(sandbox: &Sandbox, init: &[&str]) -> std::path::PathBuf {
    let main = sandbox.path("elsewhere");
    fs::create_dir(&main).unwrap();
    sandbox.git(&main, init);
    let tree = sandbox.git(&main, &["mktree", "--missing"]);
    let commit = sandbox.git(&main, &["commit-tree", &tree, "-m", "x"]);
    sandbox.git(&main, &["update-ref", "refs/heads/main", &commit]);
    let root = sandbox.root();
    let add = ["worktree", "add", "-q", "-b", "side"];
    let add = [&add[..], &[root.to_str().unwrap(), "main"]].concat();
    sandbox.git(&main, &add);
    sandbox.commit("", "second", "2\n");
    sandbox.write("second", "stashed\n");
    sandbox.git("", &["stash", "-q"]);
    sandbox.write("staged", "3\n");
    sandbox.git("", &["add", "staged"]);
    sandbox.write("untracked", "4\n");
    main
}

#[test]
fn worktree_without_its_repository_is_standalone() {
    for init in [&["init", "-q"][..], &["init", "-q", "--bare"]] {
        let sandbox = Sandbox::new();
        let main = worktree_of(&sandbox, init);
        let kept = capture(&sandbox);
        assert!(kept.repository("").external_git_dir.is_some());
        let before = git_outputs(&sandbox, &sandbox.root());
        // On another machine, the repository is missing.
        fs::rename(&main, sandbox.path("gone")).unwrap();
        let (into, _) = restore(&sandbox, &kept, Trust::Full);
        assert!(into.join(".git").is_dir());
        assert_fsck_clean(&sandbox, &into);
        // Everything but the reflog of the main worktree.
        let others = |answer: &String| {
            let lines = answer.lines();
            let lines = lines.filter(|line| !line.contains("main-worktree/"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let before: Vec<String> = before.iter().map(others).collect();
        let after: Vec<String> = git_outputs(&sandbox, &into).iter().map(others).collect();
        assert_eq!(before, after);
        sandbox.git(&into, &["stash", "pop", "-q"]);
        assert_eq!(
            fs::read_to_string(into.join("second")).unwrap(),
            "stashed\n"
        );
    }
}

#[test]
fn worktree_beside_its_repository_stays_linked() {
    let sandbox = Sandbox::new();
    worktree_of(&sandbox, &["init", "-q"]);
    let kept = capture(&sandbox);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    assert!(into.join(".git").is_file());
    assert_eq!(
        sandbox.git(&into, &["rev-parse", "HEAD"]),
        sandbox.git("", &["rev-parse", "HEAD"])
    );
}

#[test]
fn nested_repository_without_commit_is_restored() {
    let sandbox = repository_with_commit();
    sandbox.folder("nested");
    sandbox.git("nested", &["init", "-q", "-b", "trunk"]);
    sandbox.write("nested/staged", "1\n");
    sandbox.git("nested", &["add", "staged"]);
    sandbox.folder("empty");
    sandbox.git("empty", &["init", "-q"]);
    let kept = capture(&sandbox);
    assert_eq!(kept.repositories.len(), 3);
    let (into, _) = restore(&sandbox, &kept, Trust::Full);
    for path in ["", "nested", "empty"] {
        assert_fsck_clean(&sandbox, &into.join(path));
        assert_eq!(
            git_outputs(&sandbox, &sandbox.root().join(path)),
            git_outputs(&sandbox, &into.join(path)),
            "{path}"
        );
    }
}
