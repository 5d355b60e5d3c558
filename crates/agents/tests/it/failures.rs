//! Failures, and how they are reported.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use segno_core::agent::{Error, ErrorKind};

use crate::fixture::{Fixture, command, sh, until, write};

#[track_caller]
fn assert_error(error: &Error, kind: ErrorKind, message: &str) {
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(message), "{error}");
}

#[test]
fn failure_reports_exit_code_and_stderr() {
    let fixture = Fixture::new();
    for (script, message) in [
        (
            "echo half; echo no luck >&2; exit 1",
            "`sh` exited with code 1: no luck",
        ),
        ("exit 137", "`sh` exited with code 137"),
        ("exit 127", "`sh` exited with code 127"),
        ("kill -9 $$", "`sh` was killed by signal 9"),
        ("kill -SEGV $$", "`sh` was killed by signal 11"),
    ] {
        let error = fixture.ask_sh(script).unwrap_err();
        assert_eq!(error, Error::new(ErrorKind::Crashed, message), "{script}");
    }
}

#[test]
fn stderr_in_errors_is_short_and_escaped() {
    let script = "yes noise | head -c 1000000 >&2; printf '\\033[2J\\377end' >&2; exit 1";
    let error = Fixture::new().ask_sh(script).unwrap_err();
    assert_error(
        &error,
        ErrorKind::Crashed,
        "noise\nnois\\u{1b}[2J\u{FFFD}end",
    );
    assert!(error.message.len() < 2200, "{}", error.message.len());
}

#[test]
fn program_that_cannot_be_started_is_not_found() {
    let fixture = Fixture::new();
    write(&fixture.folder().join("plain"), b"#!/bin/sh\necho hi\n");
    write(&fixture.folder().join("orphan"), b"#!/no/such/shell\n");
    write(&fixture.folder().join("nameless"), b"echo hi\n");
    for name in ["orphan", "nameless"] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(fixture.folder().join(name), mode).unwrap();
    }
    // A file that names no interpreter is a shell script, as everywhere.
    let answer = fixture.ask(&command(&["./nameless"])).unwrap();
    assert_eq!(answer.text, "hi");
    for program in ["./plain", "/"] {
        let error = fixture.ask(&command(&[program])).unwrap_err();
        assert_error(&error, ErrorKind::NotFound, "cannot be started");
    }
    for program in ["no-such-program", "/no/such/program", "./orphan", ""] {
        let error = fixture.ask(&command(&[program])).unwrap_err();
        assert_error(&error, ErrorKind::NoProgram, "was not found");
        assert!(error.hint.is_some());
    }
}

#[test]
fn program_path_is_resolved_from_the_workspace() {
    let fixture = Fixture::new();
    let path = fixture.folder().join("agent");
    write(&path, b"#!/bin/sh\necho hi\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    // Linux refuses to start a file while any process still holds it open for writing; a process
    // that another test just forked may do so briefly.
    until("the file is free", || {
        fixture
            .ask(&command(&["./agent"]))
            .is_ok_and(|answer| answer.text == "hi")
    });
}

#[test]
fn impossible_commands_are_invalid() {
    let fixture = Fixture::new();
    let error = fixture.ask(&command(&[])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "agent `writer` has no command");
    let error = fixture.ask(&command(&["echo", "a\0b"])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "`echo` cannot be started");
    let nowhere = Fixture::in_folder(&fixture.folder().join("nowhere"));
    let error = nowhere.ask(&command(&["true"])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "is not a folder");
}

#[test]
fn too_long_answer_kills_the_agent() {
    let fixture = Fixture::new();
    let error = fixture.ask(&command(&["yes"])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "more than 16777216 bytes");
    fixture.assert_empty();
    let error = fixture.ask_sh("head -c 100000000 /dev/zero").unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "more than 16777216 bytes");
    fixture.assert_empty();
}

#[test]
fn answer_limit_is_inclusive() {
    let fixture = Fixture::new();
    let script = "printf 12345";
    let answer = fixture.ask(&sh(script).with_limit(5)).unwrap();
    assert_eq!(answer.text, "12345");
    let error = fixture.ask(&sh(script).with_limit(4)).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "more than 4 bytes");
}

#[test]
fn agent_cannot_forge_a_success_status() {
    let script = r#"
        trap '' PIPE; ok='{"exited":0}'
        echo "$ok"; echo "$ok" >&2; echo "$ok" >&0
        for fd in /proc/$PPID/fd/*; do echo "$ok" >"$fd"; done
        exit 5"#;
    let error = Fixture::new().ask_sh(script).unwrap_err();
    assert_error(&error, ErrorKind::Crashed, "exited with code 5");
}

#[test]
fn killed_process_guard_gives_no_answer() {
    let fixture = Fixture::new();
    let script = "echo answer; kill -9 $PPID; while [ ! -e go ]; do sleep 0.01; done";
    let error = fixture.ask_sh(script).unwrap_err();
    assert_error(
        &error,
        ErrorKind::Crashed,
        "the process guard of `sh` was killed",
    );
    fixture.touch("go");
    until("the agent has seen it", || fixture.processes().is_empty());
}

#[test]
fn nothing_starts_without_a_process_guard() {
    let fixture = Fixture::new();
    let launch = segno_agents::Launch {
        program: "/no/such/guard".into(),
        args: Vec::new(),
    };
    let driver = segno_agents::Command::new(vec!["true".to_owned()], launch);
    let error = fixture.ask(&driver).unwrap_err();
    assert_error(
        &error,
        ErrorKind::Crashed,
        "the process guard of `true` cannot be started",
    );
}
