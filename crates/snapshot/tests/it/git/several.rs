//! Submodules, worktrees and nested repositories.

use std::fs;
use std::path::Path;

use segno_snapshot::git::{self, Oid, Wish};
use segno_snapshot::scope::{Evidence, Rules};

use super::{capture, is_whole, restore, says, started};
use crate::sandbox::Sandbox;

#[test]
fn submodules_are_repositories_of_their_own() {
    let sandbox = started();
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
    let scope = Evidence::new(sandbox.root(), Rules::default());
    let found = git::find(&sandbox.root(), &scope);
    assert_eq!(found, [Path::new(""), Path::new("libs/one")]);
    let captured: Vec<_> = ["", "libs/one"]
        .map(|path| capture(&sandbox, path, &Wish::default()))
        .into();
    let (truth, _) = &captured[0];
    assert_eq!(truth.submodules[0].path.to_string(), "libs/one");
    assert_eq!(truth.submodules[0].url.as_deref(), library.to_str());
    let folders: Vec<_> = captured
        .iter()
        .map(|(truth, pack)| restore(&sandbox, truth, pack).0)
        .collect();
    for (folder, path) in folders.iter().zip(["", "libs/one"]) {
        is_whole(&sandbox, folder);
        assert_eq!(
            says(&sandbox, &sandbox.root().join(path)),
            says(&sandbox, folder)
        );
    }
}

#[test]
fn a_worktree_is_joined_to_its_repository() {
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
    let scope = Evidence::new(sandbox.root(), Rules::default());
    let found = git::find(&sandbox.root(), &scope);
    assert_eq!(found, ["main", "detached", "side"].map(Path::new));

    let (main, main_pack) = capture(&sandbox, "main", &Wish::default());
    assert_eq!(main.worktrees.len(), 2);
    let held: Vec<Oid> = main.refs.iter().map(|one| one.oid.clone()).collect();
    let wish = Wish {
        held,
        ..Wish::default()
    };
    let (main_folder, _) = restore(&sandbox, &main, &main_pack);
    let folders = ["side", "detached"].map(|path| {
        let (truth, pack) = capture(&sandbox, path, &wish);
        assert_eq!(truth.link.as_ref().unwrap().main.to_string(), "main");
        let (into, restored) = restore(&sandbox, &truth, &pack);
        assert_eq!(restored.missing, []);
        (path, into)
    });
    for (path, into) in folders {
        assert_eq!(
            says(&sandbox, &sandbox.root().join(path)),
            says(&sandbox, &into),
            "{path}"
        );
        is_whole(&sandbox, &into);
    }
    is_whole(&sandbox, &main_folder);
    assert_eq!(
        says(&sandbox, &sandbox.root().join("main")),
        says(&sandbox, &main_folder)
    );
    let list = sandbox.git(&main_folder, &["worktree", "list"]);
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.contains(&alone[..7]), "{list}");
}

#[test]
fn settings_of_one_worktree_stay_its_own() {
    let sandbox = Sandbox::new();
    sandbox.folder("main");
    sandbox.git("main", &["init", "-q"]);
    sandbox.commit("main", "a/x", "1\n");
    sandbox.commit("main", "b/x", "1\n");
    sandbox.git("main", &["worktree", "add", "-q", "../side"]);
    sandbox.git("side", &["sparse-checkout", "set", "--cone", "a"]);
    let hook = ["config", "--worktree", "core.fsmonitor", "/bin/false"];
    sandbox.git("side", &hook);
    let (main, pack) = capture(&sandbox, "main", &Wish::default());
    restore(&sandbox, &main, &pack);
    let (side, pack) = capture(&sandbox, "side", &Wish::default());
    let (into, restored) = restore(&sandbox, &side, &pack);
    assert!(
        restored
            .inert
            .iter()
            .any(|inert| inert.name == "core.fsmonitor")
    );
    for (folder, sparse) in [(into, "true"), (sandbox.path("restored/main"), "")] {
        let asked = sandbox.try_git(&folder, &["config", "core.sparseCheckout"]);
        assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), sparse);
        assert_eq!(sandbox.git(&folder, &["status", "--porcelain"]), "");
        let asked = sandbox.try_git(&folder, &["config", "core.fsmonitor"]);
        assert_eq!(asked.stdout, b"");
    }
}

#[test]
fn a_worktree_whose_repository_is_elsewhere_stands_alone() {
    let sandbox = Sandbox::new();
    let main = sandbox.path("elsewhere");
    fs::create_dir(&main).unwrap();
    sandbox.git(&main, &["init", "-q"]);
    sandbox.git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let root = sandbox.root();
    sandbox.git(
        &main,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "side",
            root.to_str().unwrap(),
        ],
    );
    sandbox.commit("", "second", "2\n");
    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    assert_eq!(truth.link, None);
    let (into, _) = restore(&sandbox, &truth, &pack);
    is_whole(&sandbox, &into);
    assert!(into.join(".git").is_dir());
    let log = ["log", "--format=%H"];
    assert_eq!(sandbox.git(&into, &log), sandbox.git("", &log));
    let status = ["status", "--porcelain=v2", "--branch"];
    assert_eq!(sandbox.git(&into, &status), sandbox.git("", &status));
}

#[test]
fn a_nested_repository_without_a_commit_comes_back() {
    let sandbox = started();
    sandbox.folder("nested");
    sandbox.git("nested", &["init", "-q", "-b", "trunk"]);
    sandbox.write("nested/staged", "1\n");
    sandbox.git("nested", &["add", "staged"]);
    sandbox.folder("empty");
    sandbox.git("empty", &["init", "-q"]);
    let scope = Evidence::new(sandbox.root(), Rules::default());
    assert_eq!(
        git::find(&sandbox.root(), &scope),
        ["", "empty", "nested"].map(Path::new)
    );
    let folders = ["", "nested", "empty"].map(|path| {
        let (truth, pack) = capture(&sandbox, path, &Wish::default());
        (path, restore(&sandbox, &truth, &pack).0)
    });
    for (path, into) in folders {
        is_whole(&sandbox, &into);
        assert_eq!(
            says(&sandbox, &sandbox.root().join(path)),
            says(&sandbox, &into),
            "{path}"
        );
    }
}

#[test]
fn a_submodule_that_is_not_checked_out_is_told() {
    let sandbox = started();
    let library = sandbox.path("library");
    fs::create_dir(&library).unwrap();
    sandbox.git(&library, &["init", "-q"]);
    sandbox.git(&library, &["commit", "-q", "--allow-empty", "-m", "x"]);
    sandbox.git(
        "",
        &[
            "submodule",
            "--quiet",
            "add",
            library.to_str().unwrap(),
            "one",
        ],
    );
    let (truth, _) = capture(&sandbox, "", &Wish::default());
    assert_eq!(truth.notes, Vec::<String>::new());
    sandbox.git("", &["submodule", "deinit", "-q", "-f", "one"]);
    let (truth, _) = capture(&sandbox, "", &Wish::default());
    assert_eq!(
        truth.notes,
        ["not kept: .git/modules/one, which is not checked out"]
    );
}
