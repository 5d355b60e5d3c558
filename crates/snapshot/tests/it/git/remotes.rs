//! What remotes have, and what they must not see.

use std::fs;

use segno_snapshot::git::{self, Reach, Wish};

use super::{capture, is_whole, restore, round_trip, says, started};
use crate::sandbox::Sandbox;

fn unpushed() -> Wish {
    Wish {
        reach: Reach::Unpushed,
        ..Wish::default()
    }
}

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
fn unpushed_work_is_small_and_whole_after_a_fetch() {
    let sandbox = cloned();
    sandbox.commit("", "file 3", "changed\n");
    sandbox.git("", &["branch", "local"]);
    sandbox.write("file 4", "stashed\n");
    sandbox.git("", &["stash", "-q"]);
    sandbox.write("staged", "staged\n");
    sandbox.git("", &["add", "staged"]);
    let (truth, pack) = capture(&sandbox, "", &unpushed());
    let upstream = truth.upstream.clone().unwrap();
    assert_eq!((upstream.ahead, upstream.behind), (Some(1), Some(0)));
    assert_eq!(truth.needs.len(), 1);
    // Two trees and commits for the stash besides, and the files of the git folder.
    let files = truth.files.len() as u64;
    assert!(truth.pack.objects - files < 12, "{:?}", truth.pack);
    let (into, restored) = restore(&sandbox, &truth, &pack);
    let missing: Vec<_> = restored
        .missing
        .iter()
        .map(|one| one.name.to_string())
        .collect();
    assert!(
        missing.contains(&"refs/remotes/origin/main".to_owned()),
        "{missing:?}"
    );
    let remote = restored.missing[0].remote.clone().unwrap();
    assert_eq!(remote.1, sandbox.path("remote.git").to_str().unwrap());
    sandbox.git(&into, &["fetch", "-q", "origin"]);
    assert_eq!(git::finish(&truth, &into).unwrap(), []);
    is_whole(&sandbox, &into);
    assert_eq!(says(&sandbox, &sandbox.root()), says(&sandbox, &into));
    // And once more, which changes nothing.
    assert_eq!(git::finish(&truth, &into).unwrap(), []);
    assert_eq!(says(&sandbox, &sandbox.root()), says(&sandbox, &into));
}

#[test]
fn what_is_pushed_needs_nothing_but_the_remote() {
    let sandbox = cloned();
    let (truth, pack) = capture(&sandbox, "", &unpushed());
    assert_eq!(truth.pack.objects, truth.files.len() as u64);
    let (into, restored) = restore(&sandbox, &truth, &pack);
    assert!(!restored.missing.is_empty());
    sandbox.git(&into, &["fetch", "-q", "origin"]);
    assert_eq!(git::finish(&truth, &into).unwrap(), []);
    assert_eq!(says(&sandbox, &sandbox.root()), says(&sandbox, &into));
}

#[test]
fn everything_comes_back_without_the_remote() {
    let sandbox = cloned();
    sandbox.commit("", "file 3", "changed\n");
    fs::remove_dir_all(sandbox.path("remote.git")).unwrap();
    let (truth, _) = round_trip(&sandbox);
    assert_eq!(truth.needs, []);
    assert_eq!(truth.remotes[0].name, "origin");
}

#[test]
fn without_a_remote_all_is_unpushed() {
    let sandbox = started();
    let (truth, pack) = capture(&sandbox, "", &unpushed());
    let (into, restored) = restore(&sandbox, &truth, &pack);
    assert_eq!(restored.missing, []);
    is_whole(&sandbox, &into);
    assert_eq!(says(&sandbox, &sandbox.root()), says(&sandbox, &into));
}

#[test]
fn a_shallow_clone_comes_back_shallow() {
    let sandbox = cloned();
    let url = format!("file://{}", sandbox.path("remote.git").display());
    sandbox.git("", &["clone", "-q", "--depth", "3", &url, "shallow"]);
    sandbox.commit("shallow", "more", "1\n");
    let (truth, pack) = capture(&sandbox, "shallow", &Wish::default());
    assert!(truth.shallow);
    let (into, restored) = restore(&sandbox, &truth, &pack);
    assert_eq!(restored.missing, []);
    is_whole(&sandbox, &into);
    let count = sandbox.git(&into, &["rev-list", "--count", "HEAD"]);
    assert_eq!(count, "4");
    assert_eq!(
        says(&sandbox, &sandbox.root().join("shallow")),
        says(&sandbox, &into)
    );
}

#[test]
fn a_partial_clone_fetches_nothing_and_says_what_is_not_there() {
    let sandbox = cloned();
    sandbox.git(
        sandbox.path("remote.git"),
        &["config", "uploadpack.allowFilter", "true"],
    );
    let url = format!("file://{}", sandbox.path("remote.git").display());
    let args = [
        "clone",
        "-q",
        "--no-checkout",
        "--filter=blob:none",
        &url,
        "partial",
    ];
    sandbox.git("", &args);
    let (truth, pack) = capture(&sandbox, "partial", &Wish::default());
    assert!(truth.partial);
    assert_eq!(truth.missing.count, 20);
    let (into, _) = restore(&sandbox, &truth, &pack);
    let log = ["log", "--format=%H"];
    assert_eq!(sandbox.git(&into, &log), sandbox.git("partial", &log));
}

#[test]
fn objects_of_an_alternate_come_along() {
    let sandbox = cloned();
    let remote = sandbox.path("remote.git");
    sandbox.git(
        "",
        &[
            "clone",
            "-q",
            "--shared",
            remote.to_str().unwrap(),
            "shared",
        ],
    );
    // Relative, as some tools write it.
    let alternates = sandbox.root().join("shared/.git/objects/info/alternates");
    fs::write(alternates, "../../../../remote.git/objects\n").unwrap();
    sandbox.commit("shared", "more", "1\n");
    let (truth, pack) = capture(&sandbox, "shared", &Wish::default());
    assert_eq!(truth.missing.count, 0);
    fs::remove_dir_all(remote).unwrap();
    let (into, _) = restore(&sandbox, &truth, &pack);
    is_whole(&sandbox, &into);
    let count = sandbox.git(&into, &["rev-list", "--count", "HEAD"]);
    assert_eq!(count, "21");
}

#[test]
fn credentials_do_not_leave_the_machine() {
    let sandbox = started();
    let secret = "s3cr3t";
    let url = format!("https://me:{secret}@example.org/x.git");
    sandbox.git("", &["remote", "add", "origin", &url]);
    let header = format!("Authorization: Basic {secret}");
    sandbox.git(
        "",
        &["config", "http.https://example.org/.extraheader", &header],
    );
    let key = format!("url.https://me:{secret}@example.org/.insteadOf");
    sandbox.git("", &["config", &key, "short:"]);
    let log = sandbox.root().join(".git/logs/HEAD");
    let line = fs::read_to_string(&log).unwrap();
    let line = line.replace("commit (initial): add first", &format!("pull {url}: done"));
    fs::write(&log, line).unwrap();
    let (truth, pack) = capture(&sandbox, "", &Wish::default());
    assert!(!serde_json::to_string(&truth).unwrap().contains(secret));
    assert_eq!(truth.remotes[0].url, "https://example.org/x.git");
    let (into, _) = restore(&sandbox, &truth, &pack);
    assert_eq!(
        sandbox.git(&into, &["remote", "get-url", "origin"]),
        truth.remotes[0].url
    );
    let log = sandbox.git(&into, &["reflog", "--format=%gs"]);
    assert_eq!(log, "pull https://example.org/x.git: done");
}

#[test]
fn unpushed_work_of_a_shallow_clone_is_whole_after_a_fetch() {
    let sandbox = cloned();
    let url = format!("file://{}", sandbox.path("remote.git").display());
    sandbox.git("", &["clone", "-q", "--depth", "3", &url, "shallow"]);
    let commit = sandbox.commit("shallow", "more", "1\n");
    let (truth, pack) = capture(&sandbox, "shallow", &unpushed());
    let (into, restored) = restore(&sandbox, &truth, &pack);
    assert!(!restored.missing.is_empty());
    sandbox.git(&into, &["fetch", "-q", "origin"]);
    assert_eq!(git::finish(&truth, &into).unwrap(), []);
    is_whole(&sandbox, &into);
    assert_eq!(sandbox.git(&into, &["rev-parse", "HEAD"]), commit);
    assert_eq!(sandbox.git(&into, &["status", "--porcelain"]), "");
}
