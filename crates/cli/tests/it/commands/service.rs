//! `segno service`, with a `systemctl` that only logs its arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};

use crate::commands::root;
use crate::{sandbox, segno};

/// Puts a `systemctl` on the PATH whose last line is `body`.
fn fake_systemctl(sandbox: &Sandbox, body: &str) {
    let folder = root(sandbox).join("bin");
    let _ = fs::create_dir(&folder);
    let path = folder.join("systemctl");
    let script = format!("#!/bin/sh\necho \"$@\" >> \"$HOME/systemctl.log\"\n{body}\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn command(sandbox: &Sandbox, words: &[&str]) -> Command {
    let mut command = sandbox.command(&[&["service"], words].concat());
    // Without the folders of the machine, whose systemctl is real.
    command.env("PATH", root(sandbox).join("bin"));
    command
}

fn service(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    run_to_end(command(sandbox, words))
}

fn unit(sandbox: &Sandbox) -> PathBuf {
    root(sandbox).join(".config/systemd/user/segno.service")
}

/// The calls of `systemctl` that change something.
fn calls(sandbox: &Sandbox) -> Vec<String> {
    let log = fs::read_to_string(root(sandbox).join("systemctl.log")).unwrap_or_default();
    let changes = log.lines().filter(|line| !line.contains("show"));
    changes.map(str::to_owned).collect()
}

#[test]
fn install_writes_the_unit_and_starts_the_service() {
    let sandbox = sandbox();
    fake_systemctl(&sandbox, "exit 0");
    service(&sandbox, &["install"]).expect_success();
    let text = fs::read_to_string(unit(&sandbox)).unwrap();
    let home = sandbox.home();
    for line in [
        format!("ExecStart=\"{}\" serve", segno().display()),
        format!("Environment=\"SEGNO_HOME={}\"", home.display()),
        "KillMode=mixed".to_owned(),
        "Restart=on-failure".to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let expected = ["--user daemon-reload", "--user enable --now segno.service"];
    assert_eq!(calls(&sandbox), expected);
    // The same unit again needs no restart.
    service(&sandbox, &["install"]).expect_success();
    assert_eq!(calls(&sandbox).len(), 4);
}

#[test]
fn changed_unit_restarts_the_service() {
    let sandbox = sandbox();
    fake_systemctl(&sandbox, "exit 0");
    service(&sandbox, &["install"]).expect_success();
    let mut again = command(&sandbox, &["install", "--json"]);
    again.env("XDG_STATE_HOME", root(&sandbox).join("100% state"));
    let output = run_to_end(again).expect_success();
    assert_eq!(output.json()[0]["changed"], true);
    let text = fs::read_to_string(unit(&sandbox)).unwrap();
    assert!(text.contains("100%% state\""), "{text}");
    let last = calls(&sandbox).pop().unwrap();
    assert_eq!(last, "--user restart segno.service");
    let status = service(&sandbox, &["status", "--json"]).expect_success();
    assert_eq!(status.json()[0]["current"], false);
}

#[test]
fn unit_has_no_secrets() {
    let sandbox = sandbox();
    let mut command = command(&sandbox, &["install", "--print"]);
    command.env("ANTHROPIC_API_KEY", "sesame-4711");
    let output = run_to_end(command).expect_success();
    assert!(output.stdout.contains("[Service]"), "{output:?}");
    assert!(output.stdout.contains("EnvironmentFile=-"), "{output:?}");
    assert!(!output.stdout.contains("sesame-4711"), "{output:?}");
    assert!(!unit(&sandbox).exists());
}

#[test]
fn without_systemd_the_unit_is_printed() {
    let sandbox = sandbox();
    let output = service(&sandbox, &["install"]);
    let output = output.refused(12, &["no `systemctl`", "[N0135]", "segno serve"]);
    assert!(output.stdout.contains("ExecStart="), "{output:?}");
    assert!(!unit(&sandbox).exists());
    fake_systemctl(&sandbox, "echo 'Failed to connect to bus' >&2; exit 1");
    service(&sandbox, &["install"]).refused(12, &["Failed to connect to bus", "[N0135]"]);
    assert!(!unit(&sandbox).exists());
    let status = service(&sandbox, &["status"]).expect_success();
    assert!(status.stdout.contains("not installed"), "{status:?}");
}

#[test]
fn unit_of_others_is_never_touched() {
    let sandbox = sandbox();
    fake_systemctl(&sandbox, "exit 0");
    let path = unit(&sandbox);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "[Service]\nExecStart=/opt/own\n").unwrap();
    for words in [["install"], ["uninstall"]] {
        service(&sandbox, &words).refused(17, &["was not written by Segno", "[N0134]"]);
    }
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "[Service]\nExecStart=/opt/own\n");
    assert!(calls(&sandbox).is_empty());
    let status = service(&sandbox, &["status", "--json"]).expect_success();
    assert_eq!(status.json()[0]["state"], "foreign");
}

#[test]
fn uninstall_stops_the_service_and_removes_the_unit() {
    let sandbox = sandbox();
    fake_systemctl(&sandbox, "case \"$*\" in *is-active*) echo active;; esac");
    service(&sandbox, &["install"]).expect_success();
    let status = service(&sandbox, &["status", "--json"]).expect_success();
    let shown = status.json().remove(0);
    assert_eq!(
        (&shown["state"], &shown["active"], &shown["current"]),
        (&"installed".into(), &"active".into(), &true.into())
    );
    service(&sandbox, &["uninstall"]).expect_success();
    assert!(!unit(&sandbox).exists());
    let expected = ["--user disable --now segno.service", "--user daemon-reload"];
    assert!(calls(&sandbox).ends_with(&expected.map(str::to_owned)));
    let again = service(&sandbox, &["uninstall"]).expect_success();
    assert!(again.stdout.contains("not installed"), "{again:?}");
}

#[test]
fn failing_systemctl_is_reported() {
    let sandbox = sandbox();
    let body = "case \"$*\" in *enable*) echo 'no such thing' >&2; exit 3;; esac";
    fake_systemctl(&sandbox, body);
    service(&sandbox, &["install"]).refused(12, &["enable --now", "no such thing", "[N0135]"]);
}
