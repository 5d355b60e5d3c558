//! A real tree: the sources that this workspace is built from, in a git repository with work in
//! every place where git can hold it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{Sandbox, run_to_end};

use crate::sandbox;

/// The minimum number of files.
const ENOUGH: usize = 5_000;

/// The folders where cargo has unpacked the crates that it fetched.
fn sources() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = fs::read_dir(home.unwrap().join("registry/src")).unwrap();
    let mut crates: Vec<PathBuf> = registries
        .flat_map(|registry| fs::read_dir(registry.unwrap().path()).unwrap())
        .map(|package| package.unwrap().path())
        .collect();
    crates.sort();
    crates
}

fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    let below = |entry: fs::DirEntry| {
        if entry.file_type().unwrap().is_dir() {
            count(&entry.path())
        } else {
            1
        }
    };
    entries.map(|entry| below(entry.unwrap())).sum()
}

fn git(sandbox: &Sandbox, folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    sandbox.set_env(&mut command);
    command.args(["-c", "user.name=x", "-c", "user.email=x@y", "-C"]);
    command.arg(folder).args(words);
    run_to_end(command).expect_success().stdout
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program} {words:?}: {stdout}");
}

#[test]
fn repository_of_real_sources_is_restored_exactly() {
    let sandbox = sandbox();
    let work = sandbox.work();
    let mut files = 0;
    for package in sources() {
        run(
            "cp",
            &["-a", package.to_str().unwrap(), work.to_str().unwrap()],
        );
        files += count(&work.join(package.file_name().unwrap()));
        if files >= ENOUGH {
            break;
        }
    }
    assert!(files >= ENOUGH, "{files}");
    let git_here = |words: &[&str]| git(&sandbox, &work, words);
    git_here(&["init", "-q", "-b", "main"]);
    git_here(&["add", "-f", "."]);
    git_here(&["commit", "-q", "-m", "everything"]);
    git_here(&["checkout", "-q", "-b", "feature"]);
    sandbox.write("stashed.txt", "1\n");
    git_here(&["add", "stashed.txt"]);
    git_here(&["stash", "-q"]);
    sandbox.write("committed.txt", "2\n");
    git_here(&["add", "committed.txt"]);
    git_here(&["commit", "-q", "-m", "never pushed"]);
    sandbox.write("staged.txt", "3\n");
    git_here(&["add", "staged.txt"]);
    sandbox.write("untracked.txt", "4\n");
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let checkpoint = sandbox
        .segno(&["checkpoint", "create", "--json"])
        .expect_success();
    let checkpoint = checkpoint.json().remove(0);
    let id = checkpoint["checkpoint"].as_str().unwrap();
    assert_eq!(
        checkpoint["excluded"], 0,
        "what git tracks is never left out: {checkpoint}"
    );
    let into = work.parent().unwrap().join("elsewhere");
    let (here, there) = (work.to_str().unwrap(), into.to_str().unwrap());
    sandbox
        .segno(&["checkpoint", "restore", id, "--into", there])
        .expect_success();
    // Compares before git runs, because git may write to its index.
    run("diff", &["-r", "--no-dereference", here, there]);
    for question in [
        &["status", "--porcelain=v2", "--branch", "--show-stash"][..],
        &["log", "--all", "--format=%H %T %s"],
        &["stash", "list"],
        &["fsck", "--full", "--strict"],
    ] {
        let (before, after) = (git_here(question), git(&sandbox, &into, question));
        assert_eq!(before, after, "{question:?}");
    }
}
