//! What is no answer, and how that is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use segno_core::agent::{Error, ErrorKind};

use crate::world::{World, command, sh, until, write};

#[track_caller]
fn assert_error(error: &Error, kind: ErrorKind, message: &str) {
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(message), "{error}");
}

#[test]
fn a_bad_end_tells_its_code_and_the_last_words() {
    let world = World::new();
    for (script, message) in [
        (
            "echo half; echo no luck >&2; exit 1",
            "sh ended with exit code 1: no luck",
        ),
        ("exit 137", "sh ended with exit code 137"),
        ("exit 127", "sh ended with exit code 127"),
        ("kill -9 $$", "sh was ended by signal 9"),
        ("kill -SEGV $$", "sh was ended by signal 11"),
    ] {
        let error = world.ask_sh(script).unwrap_err();
        assert_eq!(error, Error::new(ErrorKind::Crashed, message), "{script}");
    }
}

#[test]
fn last_words_are_short_and_harmless() {
    let script = "yes noise | head -c 1000000 >&2; printf '\\033[2J\\377end' >&2; exit 1";
    let error = World::new().ask_sh(script).unwrap_err();
    assert_error(
        &error,
        ErrorKind::Crashed,
        "noise\nnois\\u{1b}[2J\u{FFFD}end",
    );
    assert!(error.message.len() < 2200, "{}", error.message.len());
}

#[test]
fn a_program_that_cannot_be_started_is_not_found() {
    let world = World::new();
    write(&world.folder().join("plain"), b"#!/bin/sh\necho hi\n");
    write(&world.folder().join("orphan"), b"#!/no/such/shell\n");
    write(&world.folder().join("noise"), b"\x01\x02\x03");
    for name in ["orphan", "noise"] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(world.folder().join(name), mode).unwrap();
    }
    for program in [
        "no-such-program",
        "/no/such/program",
        "./plain",
        "./orphan",
        "./noise",
        "/",
        "",
    ] {
        let error = world.ask(&command(&[program])).unwrap_err();
        assert_error(&error, ErrorKind::NotFound, "cannot be started");
    }
}

#[test]
fn a_program_is_looked_up_from_the_workspace() {
    let world = World::new();
    let path = world.folder().join("agent");
    write(&path, b"#!/bin/sh\necho hi\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    // Linux refuses to start a file while any process still holds it open for writing, as one
    // that another test just forked may do for a moment.
    until("the file is free", || {
        world
            .ask(&command(&["./agent"]))
            .is_ok_and(|answer| answer.text == "hi")
    });
}

#[test]
fn what_can_never_be_started_is_invalid() {
    let world = World::new();
    let error = world.ask(&command(&[])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "agent writer has no command");
    let error = world.ask(&command(&["echo", "a\0b"])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "echo cannot be started");
    let nowhere = World::lent(&world.folder().join("nowhere"));
    let error = nowhere.ask(&command(&["true"])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "is not a folder");
}

#[test]
fn an_answer_that_is_too_long_ends_the_agent() {
    let world = World::new();
    let error = world.ask(&command(&["yes"])).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "more than 16777216 bytes");
    world.assert_empty();
    let error = world.ask_sh("head -c 100000000 /dev/zero").unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "more than 16777216 bytes");
    world.assert_empty();
}

#[test]
fn the_limit_is_the_length_that_is_still_allowed() {
    let world = World::new();
    let script = "printf 12345";
    let answer = world.ask(&sh(script).with_limit(5)).unwrap();
    assert_eq!(answer.text, "12345");
    let error = world.ask(&sh(script).with_limit(4)).unwrap_err();
    assert_error(&error, ErrorKind::Invalid, "more than 4 bytes");
}

#[test]
fn an_agent_cannot_claim_a_success() {
    let script = r#"
        trap '' PIPE; ok='{"exited":0}'
        echo "$ok"; echo "$ok" >&2; echo "$ok" >&0
        for fd in /proc/$PPID/fd/*; do echo "$ok" >"$fd"; done
        exit 5"#;
    let error = World::new().ask_sh(script).unwrap_err();
    assert_error(&error, ErrorKind::Crashed, "exit code 5");
}

#[test]
fn an_agent_that_kills_its_warden_gives_no_answer() {
    let world = World::new();
    let script = "echo answer; kill -9 $PPID; while [ ! -e go ]; do sleep 0.01; done";
    let error = world.ask_sh(script).unwrap_err();
    assert_error(&error, ErrorKind::Crashed, "the warden of sh was killed");
    world.touch("go");
    until("the agent has seen it", || world.living().is_empty());
}

#[test]
fn without_a_warden_nothing_starts() {
    let world = World::new();
    let launch = segno_agents::Launch {
        program: "/no/such/warden".into(),
        args: Vec::new(),
    };
    let driver = segno_agents::Command::new(vec!["true".to_owned()], launch);
    let error = world.ask(&driver).unwrap_err();
    assert_error(
        &error,
        ErrorKind::Crashed,
        "cannot start the warden of true",
    );
}
