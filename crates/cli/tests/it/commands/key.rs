//! Checkpoints that are encrypted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{Said, Sandbox, finish};

use crate::sandbox;

const SECRET: &str = "a line that nobody should read\n";

/// A session that is done, and a key beside it.
fn encrypted(more: &[&str]) -> (Sandbox, PathBuf) {
    let sandbox = sandbox();
    sandbox.write("notes-nobody-should-see.txt", SECRET);
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).good();
    let key = sandbox.work().parent().unwrap().join("the key");
    let words = ["key", "new", key.to_str().unwrap()];
    with(&sandbox, "open sesame", &[&words[..], more].concat()).good();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", key.display()));
    (sandbox, key)
}

fn with(sandbox: &Sandbox, passphrase: &str, words: &[&str]) -> Said {
    let mut command = sandbox.command(words);
    command.env("SEGNO_PASSPHRASE", passphrase);
    finish(command)
}

#[expect(clippy::disallowed_methods, reason = "the test's own files")]
fn says(folder: &Path, text: &str) -> bool {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            return says(&path, text);
        }
        let bytes = fs::read(path).unwrap();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

#[test]
fn files_are_encrypted_and_come_back_with_the_key() {
    let (sandbox, key) = encrypted(&[]);
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = sandbox
        .segno(&["checkpoint", "create", "--json"])
        .good()
        .json();
    let id = kept[0]["checkpoint"].as_str().unwrap();
    let vault = sandbox.home().join("snapshots");
    assert!(!says(&vault, SECRET) && !says(&vault, "notes-nobody"));
    sandbox.write("notes-nobody-should-see.txt", "gone\n");
    sandbox.segno(&["checkpoint", "restore", id]).good();
    assert_eq!(sandbox.read("notes-nobody-should-see.txt"), SECRET);
    sandbox.segno(&["checkpoint", "verify", id]).good();
    // Without the key, and with another.
    sandbox.configure("");
    sandbox
        .segno(&["checkpoint", "restore", id])
        .refused(12, &["K0111", "no key is set", "encryption.key_file"]);
    let other = key.with_file_name("other");
    sandbox
        .segno(&["key", "new", other.to_str().unwrap()])
        .good();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", other.display()));
    sandbox
        .segno(&["checkpoint", "restore", id])
        .refused(12, &["K0111", "another key"]);
}

#[test]
fn a_key_that_is_locked_needs_its_passphrase() {
    let (sandbox, key) = encrypted(&["--passphrase"]);
    let create = ["checkpoint", "create"];
    sandbox
        .segno(&create)
        .refused(12, &["C0106", "it is locked", "SEGNO_PASSPHRASE"]);
    with(&sandbox, "wrong", &create).refused(12, &["C0106", "does not fit"]);
    with(&sandbox, "open sesame", &create).good();
    // What needs no files needs no passphrase.
    sandbox.segno(&["sessions", "list"]).good();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    with(&sandbox, "open sesame", &create).refused(12, &["C0106", "chmod 600"]);
}

#[test]
fn a_key_is_never_overwritten_and_what_is_none_is_named() {
    let (sandbox, key) = encrypted(&[]);
    let words = ["key", "new", key.to_str().unwrap()];
    sandbox.segno(&words).refused(2, &["the key", "exists"]);
    sandbox.segno(&["checkpoint", "create"]).good();
    sandbox.write("no key", "hello\n");
    let none = sandbox.work().join("no key");
    fs::set_permissions(&none, fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", none.display()));
    let create = ["checkpoint", "create"];
    sandbox
        .segno(&create)
        .refused(12, &["C0106", "segno key new"]);
    sandbox.configure("[encryption]\nkey_file = \"relative\"\n");
    sandbox
        .segno(&create)
        .refused(2, &["C0102", "absolute path"]);
}

#[test]
fn what_was_kept_before_is_encrypted_by_gc() {
    let (sandbox, key) = encrypted(&[]);
    sandbox.configure("");
    sandbox.segno(&["checkpoint", "create"]).good();
    sandbox.configure(&format!("[encryption]\nkey_file = {:?}\n", key.display()));
    let vault = sandbox.home().join("snapshots");
    assert!(says(&vault, "SEGNOPK"));
    for _ in 0..3 {
        sandbox.segno(&["gc", "--grace-hours", "0"]).good();
    }
    assert!(!says(&vault, "SEGNOPK") && !says(&vault, "SEGNOMF"));
    sandbox.segno(&["checkpoint", "verify"]).good();
}
