//! Git repositories: kept without a trace, and usable where they come back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use segno_core::checkpoint::Repository;
use segno_core::digest::Digest;
use segno_snapshot::scope::{Evidence, Rules};
use segno_snapshot::{Request, Restore, Restored, Trust, Vault};

use crate::sandbox::Sandbox;
use crate::world::STILL;

mod hostile;
mod moving;
mod remotes;
mod round_trips;
mod several;
mod since;

/// A repository with a commit.
fn started() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.git("", &["init", "-q"]);
    sandbox.commit("", "first", "1\n");
    sandbox
}

/// A workspace that was kept.
struct Kept {
    vault: Vault,
    snapshot: Digest,
    repositories: Vec<Repository>,
}

impl Kept {
    fn repository(&self, path: &str) -> &Repository {
        let mut repositories = self.repositories.iter();
        repositories
            .find(|repository| repository.path == path)
            .unwrap()
    }
}

/// Keeps the workspace, and proves that nothing of it changed by that.
fn capture(sandbox: &Sandbox) -> Kept {
    capture_since(sandbox, None)
}

/// The same, and asks what differs from a commit.
fn capture_since(sandbox: &Sandbox, since: Option<&str>) -> Kept {
    let before = everything(&sandbox.root());
    let vault = Vault::open(&sandbox.path("vault")).unwrap();
    let scope = Evidence::new(sandbox.root(), Rules::default());
    let root = sandbox.root();
    let request = Request {
        scope: &scope,
        ..Request::new(&root, &STILL)
    };
    let captured = vault.capture(&request, &|_| {}).unwrap();
    assert_eq!(captured.unstable, Vec::<PathBuf>::new());
    let repositories = vault.repositories(&root, &captured.repositories, since, &STILL);
    let after = everything(&sandbox.root());
    for (path, state) in &before {
        assert_eq!(Some(state), after.get(path), "{}", path.display());
    }
    assert_eq!(before.len(), after.len());
    Kept {
        vault,
        snapshot: captured.snapshot,
        repositories,
    }
}

/// Every file with its bytes, mode and time, and every folder with its time.
fn everything(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64, i64)> {
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

/// Brings a workspace back elsewhere.
fn restore(sandbox: &Sandbox, kept: &Kept, trust: Trust) -> (PathBuf, Restored) {
    let into = sandbox.path("restored");
    let options = Restore {
        trust,
        ..Restore::default()
    };
    let restored = kept.vault.restore(kept.snapshot, &into, &options, &|_| {});
    let restored = restored.unwrap();
    let mended = kept
        .vault
        .mend(&into, &sandbox.root(), &kept.repositories, &options);
    mended.unwrap();
    (into, restored)
}

/// What git says of a repository, in many ways.
fn says(sandbox: &Sandbox, folder: &Path) -> Vec<String> {
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
        // Where a file lies on the disk is not part of what is compared.
        let lines = lines.filter(|line| !stats.iter().any(|stat| line.trim().starts_with(stat)));
        let answer = lines.collect::<Vec<_>>().join("\n");
        answers.push(format!("{question:?} {}\n{answer}", output.status));
    }
    answers
}

fn is_whole(sandbox: &Sandbox, folder: &Path) {
    let output = sandbox.try_git(folder, &["fsck", "--full", "--strict"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        !errors.contains("error") && !errors.contains("missing"),
        "{errors}"
    );
}

/// Keeps everything and brings it back, and proves that git says the same of both.
fn round_trip(sandbox: &Sandbox) -> (Repository, PathBuf) {
    let kept = capture(sandbox);
    let (into, restored) = restore(sandbox, &kept, Trust::Full);
    assert_eq!(restored.set_aside, Vec::<PathBuf>::new());
    assert_eq!(says(sandbox, &sandbox.root()), says(sandbox, &into));
    // After that: of a sparse index git misses folders until it has unfolded it once.
    is_whole(sandbox, &into);
    let repository = kept.repository("").clone();
    assert_eq!(repository.trouble, None);
    (repository, into)
}
