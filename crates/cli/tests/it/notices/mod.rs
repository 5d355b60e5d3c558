//! Notices, through the real binary and a local receiver.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests read files and wait for processes"
)]

mod channels;
mod delivery;
mod receiver;
mod sessions;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use segno_testkit::sandbox::Sandbox;

use crate::commands::{root, scripted};
use receiver::{Behaviour, Receiver};

/// A receiver, and a sandbox whose settings name it as the webhook `ops` for all kinds.
fn with_webhook(more: &str) -> (Sandbox, Receiver) {
    let sandbox = crate::sandbox();
    let receiver = Receiver::start(Behaviour::Status(204));
    webhook(&sandbox, &receiver.url(), more);
    (sandbox, receiver)
}

fn webhook(sandbox: &Sandbox, url: &str, more: &str) {
    let all = "on = ['paused', 'resumed', 'lost', 'waiting', 'limit_reached', 'limit_lifted', 'failed', 'completed', 'cancelled', 'checkpoint']";
    sandbox.configure(&format!(
        "[[notices]]\nto = 'webhook'\nname = 'ops'\nurl = '{url}'\n{all}\n{more}\n"
    ));
}

/// A chain of one step that succeeds.
fn short_chain(sandbox: &Sandbox) {
    scripted(sandbox, &["input: one"], "default: {text: fine}");
}

/// A chain of one step that fails with this message.
fn failing(sandbox: &Sandbox, message: &str) {
    let message = serde_json::to_string(message).unwrap();
    let fails = format!("default: {{fail: {{kind: auth, message: {message}}}}}");
    scripted(sandbox, &["input: one"], &fails);
}

/// Puts a program on the PATH of [`with_path`] that writes its arguments and stdin to files.
fn fake_program(sandbox: &Sandbox, name: &str, body: &str) {
    let folder = root(sandbox).join("bin");
    let _ = fs::create_dir(&folder);
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_path(sandbox: &Sandbox, words: &[&str]) -> Command {
    let mut command = sandbox.command(words);
    let folder = root(sandbox).join("bin");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    command.env("PATH", path);
    command
}

/// The files of undelivered notices.
fn undelivered(sandbox: &Sandbox) -> Vec<PathBuf> {
    let Ok(listed) = fs::read_dir(sandbox.home().join("notices/outbox")) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
