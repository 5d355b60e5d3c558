//! `doctor`: what it verifies, what it says that it did not read, and what it repairs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{Sandbox, run_to_end};
use serde_json::Value;

use super::archive::write_file;
use super::checkpoint::{bytes, create_checkpoint, id, list, remove, run, tree, write_workspace};
use super::{failing_chain, fix_answers, of_kind, root};
use crate::sandbox;

/// A session with a checkpoint.
fn session_with_checkpoint() -> (Sandbox, Value) {
    let sandbox = sandbox();
    write_workspace(&sandbox, "");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    (sandbox, checkpoint)
}

/// The same with a remote, a folder that has the checkpoint.
fn pushed_checkpoint() -> (Sandbox, Value, PathBuf) {
    let sandbox = sandbox();
    let remote = root(&sandbox).join("remote");
    fs::create_dir(&remote).unwrap();
    sandbox.configure(&format!(
        "[remote]\nurl = \"file://{}\"\n",
        remote.display()
    ));
    write_workspace(&sandbox, "");
    run(&sandbox);
    let checkpoint = create_checkpoint(&sandbox);
    sandbox
        .segno(&["checkpoint", "push", "--all"])
        .expect_success();
    (sandbox, checkpoint, remote)
}

fn snapshots(sandbox: &Sandbox, folder: &str) -> PathBuf {
    sandbox.home().join("snapshots").join(folder)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The only file in a folder.
fn only_file(folder: &Path) -> PathBuf {
    let mut files = files(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn flip(file: &Path, at: usize) {
    let mut content = bytes(file);
    content[at] ^= 1;
    write_file(file, &content);
}

/// The checkpoint's file.
fn file_of(sandbox: &Sandbox, checkpoint: &Value) -> PathBuf {
    let session = checkpoint["session"].as_str().unwrap();
    let folder = sandbox.home().join("checkpoints").join(session);
    folder.join(format!("{}.json", id(checkpoint)))
}

#[test]
fn doctor_names_missing_parts_of_checkpoints() {
    let (sandbox, checkpoint) = session_with_checkpoint();
    let healthy = sandbox.segno(&["doctor"]).expect_success();
    assert!(
        healthy.stdout.contains("verified 1 checkpoint, 1 pack ("),
        "{healthy:?}"
    );
    for folder in ["packs", "manifests", "heads"] {
        let file = only_file(&snapshots(&sandbox, folder));
        let aside = root(&sandbox).join("aside");
        fs::rename(&file, &aside).unwrap();
        let output = sandbox.segno(&["doctor"]);
        assert_eq!(output.code(), 23, "{folder}: {output:?}");
        let needed = format!("needed by checkpoint {}", id(&checkpoint));
        assert!(output.stdout.contains(&needed), "{folder}: {output:?}");
        fs::rename(&aside, &file).unwrap();
    }
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn doctor_says_what_it_did_not_read() {
    let (sandbox, checkpoint) = session_with_checkpoint();
    let pack = only_file(&snapshots(&sandbox, "packs"));
    flip(&pack, 20);
    let output = sandbox.segno(&["doctor"]).expect_success();
    let unread = "not read: the content of 1 pack; `segno doctor --read-data` reads it";
    assert!(output.stdout.contains(unread), "{output:?}");
    let output = sandbox.segno(&["doctor", "--read-data", "--json"]);
    assert_eq!(output.code(), 23, "{output:?}");
    let lines = output.json();
    let finding = of_kind(&lines, "finding")[0];
    assert!(
        finding["problem"]
            .as_str()
            .unwrap()
            .contains(id(&checkpoint))
    );
    assert_eq!(of_kind(&lines, "report")[0]["data_read"], true);
    flip(&pack, 20);
    let output = sandbox.segno(&["doctor", "--read-data"]).expect_success();
    assert!(!output.stdout.contains("not read"), "{output:?}");
}

#[test]
fn doctor_compares_the_remote_with_what_was_pushed() {
    let (sandbox, checkpoint, remote) = pushed_checkpoint();
    let output = sandbox.segno(&["doctor"]).expect_success();
    assert!(output.stdout.contains("and the remote; "), "{output:?}");
    let output = sandbox.segno(&["doctor", "--read-data"]).expect_success();
    assert!(
        output.stdout.contains("compared the remote: 1 checkpoint"),
        "{output:?}"
    );
    let pack = files(&remote.join("packs")).remove(0);
    let content = bytes(&pack);
    for damage in [Some(&content[1..]), None] {
        match damage {
            Some(cut) => write_file(&pack, cut),
            None => remove(&pack),
        }
        let output = sandbox.segno(&["doctor", "--read-data"]);
        assert_eq!(output.code(), 23, "{output:?}");
        let needed = format!("needed by checkpoint {}", id(&checkpoint));
        assert!(output.stdout.contains(&needed), "{output:?}");
    }
}

#[test]
fn repair_fetches_damaged_parts_from_the_remote() {
    let (sandbox, checkpoint, _) = pushed_checkpoint();
    let all = |folder: &str| files(&snapshots(&sandbox, folder));
    let (packs, manifests, heads) = (all("packs"), all("manifests"), all("heads"));
    let intact: Vec<Vec<u8>> = packs.iter().map(|pack| bytes(pack)).collect();
    packs.iter().for_each(|pack| flip(pack, 20));
    manifests.iter().chain(&heads).for_each(|file| remove(file));
    let before = tree(&sandbox.home().join("snapshots"));
    let output = sandbox
        .segno(&["doctor", "--repair", "--dry-run"])
        .expect_success();
    assert!(
        output.stdout.contains("would fetch 2 files ("),
        "{output:?}"
    );
    assert_eq!(tree(&sandbox.home().join("snapshots")), before);
    // The manifests say what the packs have to have, so the damage of the packs shows only then.
    let output = sandbox.segno(&["doctor", "--repair"]).expect_success();
    sandbox.segno(&["doctor", "--read-data"]).expect_success();
    let repaired: Vec<Vec<u8>> = packs.iter().map(|pack| bytes(pack)).collect();
    assert!(repaired == intact, "{output:?}");
    assert_eq!((all("manifests"), all("heads")), (manifests, heads));
    assert_eq!(all("quarantine").len(), packs.len());
    let into = root(&sandbox).join("elsewhere");
    let path = into.to_str().unwrap();
    sandbox
        .segno(&["checkpoint", "restore", id(&checkpoint), "--into", path])
        .expect_success();
}

#[test]
fn repair_lists_complete_snapshots_again() {
    let (sandbox, checkpoint) = session_with_checkpoint();
    remove(&only_file(&snapshots(&sandbox, "heads")));
    let words = ["checkpoint", "verify", id(&checkpoint)];
    assert_ne!(sandbox.segno(&words).code(), 0);
    let listed = format!("list the files of checkpoint {} again", id(&checkpoint));
    let output = sandbox.segno(&["doctor", "--repair", "--dry-run"]);
    assert!(
        output.stdout.contains(&format!("would {listed}")),
        "{output:?}"
    );
    sandbox.segno(&["doctor", "--repair"]).expect_success();
    sandbox.segno(&words).expect_success();
}

#[test]
fn lost_seal_key_is_restored_from_its_copy() {
    let (sandbox, checkpoint) = session_with_checkpoint();
    let key = sandbox.home().join("seal.key");
    let content = bytes(&key);
    for damage in [None, Some(&content[1..]), Some(&[])] {
        match damage {
            Some(damage) => write_file(&key, damage),
            None => remove(&key),
        }
        let output = sandbox.segno(&["doctor"]).expect_success();
        assert!(output.stdout.contains("doctor --repair"), "{output:?}");
        let output = sandbox.segno(&["doctor", "--repair"]).expect_success();
        assert!(
            output.stdout.contains("seal.key from its copy"),
            "{output:?}"
        );
        assert_eq!(bytes(&key), content);
        sandbox
            .segno(&["checkpoint", "verify", id(&checkpoint)])
            .expect_success();
    }
    // A key without a copy gets one; a checkpoint that is taken without the key restores it.
    let copy = sandbox.home().join("backups/seal.key.backup");
    remove(&copy);
    sandbox.segno(&["doctor", "--repair"]).expect_success();
    assert_eq!(bytes(&copy), content);
    remove(&key);
    create_checkpoint(&sandbox);
    assert_eq!(bytes(&key), content);
    assert_eq!(list(&sandbox).len(), 2);
}

#[test]
fn broken_checkpoint_blocks_nothing_and_is_quarantined() {
    let (sandbox, broken) = session_with_checkpoint();
    sandbox.write("src/main.rs", "fn main() { second() }\n");
    let other = create_checkpoint(&sandbox);
    let file = file_of(&sandbox, &broken);
    flip(&file, 30);
    let gc = || {
        let old = Command::new("touch")
            .args(["-d", "1 hour ago"])
            .args(
                fs::read_dir(snapshots(&sandbox, "heads"))
                    .unwrap()
                    .map(|it| it.unwrap().path()),
            )
            .status();
        assert!(old.unwrap().success());
        sandbox
            .segno(&["doctor", "--gc", "--grace-hours", "0"])
            .expect_success()
    };
    let output = gc();
    assert!(
        output.stderr.contains("1 checkpoint cannot be read"),
        "{output:?}"
    );
    assert_eq!(sandbox.segno(&["doctor"]).code(), 23);
    sandbox
        .segno(&["checkpoint", "delete", id(&broken)])
        .refused(17, &["J0104"]);
    let output = sandbox
        .segno(&["doctor", "--repair", "--dry-run"])
        .expect_success();
    assert!(output.stdout.contains("would move "), "{output:?}");
    assert!(file.exists());
    sandbox.segno(&["doctor", "--repair"]).expect_success();
    assert!(!file.exists());
    let output = sandbox.segno(&["doctor"]).expect_success();
    assert!(
        output.stdout.contains("no usable checkpoints"),
        "{output:?}"
    );
    sandbox
        .segno(&["checkpoint", "verify", id(&other)])
        .expect_success();
    // Its files stay, so that it can be used again when its file is.
    assert_eq!(gc().stderr, "");
    let quarantine = sandbox.home().join("backups/quarantine");
    flip(&only_file(&only_file(&quarantine)), 30);
    sandbox.segno(&["doctor", "--repair"]).expect_success();
    sandbox
        .segno(&["checkpoint", "verify", id(&broken)])
        .expect_success();
}

#[test]
fn single_checkpoint_is_deleted_and_restored() {
    let (sandbox, first) = session_with_checkpoint();
    sandbox.write("src/main.rs", "fn main() { second() }\n");
    let second = create_checkpoint(&sandbox);
    let delete = ["checkpoint", "delete", id(&first)];
    sandbox
        .segno(&[&delete[..], &["--dry-run"]].concat())
        .expect_success();
    assert_eq!(list(&sandbox).len(), 2);
    let output = sandbox.segno(&delete).expect_success();
    let undo = format!("segno checkpoint prune --undo {}", id(&first));
    assert!(output.stdout.contains(&undo), "{output:?}");
    let left = list(&sandbox);
    assert_eq!((left.len(), id(&left[0])), (1, id(&second)));
    sandbox.segno(&delete).refused(17, &["K0201"]);
    sandbox
        .segno(&["checkpoint", "prune", "--undo", id(&first)])
        .expect_success();
    assert_eq!(list(&sandbox).len(), 2);
}

#[test]
fn emptying_the_trash_damages_nothing() {
    let (sandbox, checkpoint) = session_with_checkpoint();
    sandbox
        .segno(&["sessions", "delete", "chain"])
        .expect_success();
    for words in [
        &["sessions", "trash", "--empty", "--yes"][..],
        &["doctor", "--gc"],
    ] {
        for check in [&["checkpoint", "verify"][..], &["doctor", "--read-data"]] {
            sandbox.segno(check).expect_success();
        }
        sandbox.segno(words).expect_success();
    }
    for check in [&["checkpoint", "verify"][..], &["doctor", "--read-data"]] {
        sandbox.segno(check).expect_success();
    }
    let into = root(&sandbox).join("elsewhere");
    let mut restore = sandbox.command(&["checkpoint", "restore", id(&checkpoint), "--into"]);
    restore.arg(&into);
    run_to_end(restore).expect_success();
}

/// Another history of a session, consistent in itself: hashes, marker and rows fit. Only the sealed
/// checkpoints know the one before.
#[test]
fn rewritten_journal_does_not_fit_its_checkpoints() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let copy = root(&sandbox).join("before");
    fs::create_dir(&copy).unwrap();
    let move_to = |from: &Path, to: &Path, words: &[&str]| {
        for folder in ["sessions", "heads"] {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg(from.join(folder)).arg(to);
            assert!(command.status().unwrap().success());
        }
    };
    move_to(&sandbox.home(), &copy, &["cp", "-a"]);
    fix_answers(&sandbox);
    sandbox.segno(&["resume", "chain"]).expect_success();
    create_checkpoint(&sandbox);
    sandbox.segno(&["doctor"]).expect_success();
    // The same session again from there, with another answer.
    for folder in ["sessions", "heads"] {
        fs::remove_dir_all(sandbox.home().join(folder)).unwrap();
    }
    move_to(&copy, &sandbox.home(), &["mv"]);
    sandbox.write("answers.yaml", "default: {text: forged}\n");
    sandbox.segno(&["resume", "chain"]).expect_success();
    sandbox.segno(&["doctor"]).refused(23, &["J0105"]);
    let expected = "is not the one that checkpoint";
    let output = sandbox.segno(&["doctor"]);
    assert!(output.stdout.contains(expected), "{output:?}");
    // The session without its checkpoints is in order: nothing else notices.
    assert_eq!(output.stdout.matches("damaged: ").count(), 1, "{output:?}");
}
