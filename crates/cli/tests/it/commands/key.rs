//! Encrypted checkpoints.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};

use crate::sandbox;

const SECRET: &str = "a line that nobody should read\n";

/// A completed session, and a key next to it.
fn encrypted_sandbox(more: &[&str]) -> (Sandbox, PathBuf) {
    let sandbox = sandbox();
    sandbox.write("notes-nobody-should-see.txt", SECRET);
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let key = sandbox.work().parent().unwrap().join("the key");
    let words = ["config", "key", "new", key.to_str().unwrap()];
    run_with_passphrase(&sandbox, "open sesame", &[&words[..], more].concat()).expect_success();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", key.display()));
    (sandbox, key)
}

fn run_with_passphrase(sandbox: &Sandbox, passphrase: &str, words: &[&str]) -> ProcessOutput {
    let mut command = sandbox.command(words);
    command.env("SEGNO_PASSPHRASE", passphrase);
    run_to_end(command)
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
fn contains_text(folder: &Path, text: &str) -> bool {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            return contains_text(&path, text);
        }
        let bytes = fs::read(path).unwrap();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

#[test]
fn encrypted_files_are_restored_with_the_key() {
    let (sandbox, key) = encrypted_sandbox(&[]);
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let created = sandbox
        .segno(&["checkpoint", "create", "--json"])
        .expect_success()
        .json();
    let id = created[0]["checkpoint"].as_str().unwrap();
    let snapshots = sandbox.home().join("snapshots");
    assert!(!contains_text(&snapshots, SECRET) && !contains_text(&snapshots, "notes-nobody"));
    sandbox.write("notes-nobody-should-see.txt", "gone\n");
    sandbox
        .segno(&["checkpoint", "restore", id])
        .expect_success();
    assert_eq!(sandbox.read("notes-nobody-should-see.txt"), SECRET);
    sandbox
        .segno(&["checkpoint", "verify", id])
        .expect_success();
    // Without the key, and with another key.
    sandbox.configure("");
    sandbox
        .segno(&["checkpoint", "restore", id])
        .refused(12, &["K0111", "no key is set", "encryption.key_file"]);
    let other = key.with_file_name("other");
    sandbox
        .segno(&["config", "key", "new", other.to_str().unwrap()])
        .expect_success();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", other.display()));
    sandbox
        .segno(&["checkpoint", "restore", id])
        .refused(12, &["K0111", "another key"]);
}

#[test]
fn a_key_that_is_locked_needs_its_passphrase() {
    let (sandbox, key) = encrypted_sandbox(&["--passphrase"]);
    let create = ["checkpoint", "create"];
    sandbox
        .segno(&create)
        .refused(12, &["C0106", "it is locked", "SEGNO_PASSPHRASE"]);
    run_with_passphrase(&sandbox, "wrong", &create).refused(12, &["C0106", "is wrong"]);
    run_with_passphrase(&sandbox, "open sesame", &create).expect_success();
    // A command that reads no files needs no passphrase.
    sandbox.segno(&["sessions", "list"]).expect_success();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    run_with_passphrase(&sandbox, "open sesame", &create).refused(12, &["C0106", "chmod 600"]);
}

#[test]
fn key_is_never_overwritten_and_an_invalid_one_is_named() {
    let (sandbox, key) = encrypted_sandbox(&[]);
    let words = ["config", "key", "new", key.to_str().unwrap()];
    sandbox.segno(&words).refused(2, &["the key", "exists"]);
    sandbox.segno(&["checkpoint", "create"]).expect_success();
    sandbox.write("no key", "hello\n");
    let none = sandbox.work().join("no key");
    fs::set_permissions(&none, fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", none.display()));
    let create = ["checkpoint", "create"];
    sandbox
        .segno(&create)
        .refused(12, &["C0106", "segno config key new"]);
    sandbox.configure("[encryption]\nkey_file = \"relative\"\n");
    sandbox
        .segno(&create)
        .refused(2, &["C0102", "absolute path"]);
}

#[test]
fn gc_encrypts_older_checkpoints() {
    let (sandbox, key) = encrypted_sandbox(&[]);
    sandbox.configure("");
    sandbox.segno(&["checkpoint", "create"]).expect_success();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", key.display()));
    let snapshots = sandbox.home().join("snapshots");
    assert!(contains_text(&snapshots, "SEGNOPK"));
    for _ in 0..3 {
        sandbox
            .segno(&["doctor", "--gc", "--grace-hours", "0"])
            .expect_success();
    }
    assert!(!contains_text(&snapshots, "SEGNOPK") && !contains_text(&snapshots, "SEGNOMF"));
    sandbox.segno(&["checkpoint", "verify"]).expect_success();
}
