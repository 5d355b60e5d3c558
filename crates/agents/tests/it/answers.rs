//! How a program's output becomes an answer.

use std::fs::OpenOptions;

use segno_core::agent::{Driver, ErrorKind};
use segno_core::digest::Digest;
use segno_core::usage::Usage;

use crate::fixture::{Fixture, TextLog, command, runtime, sh, until};

#[test]
fn prompt_is_system_then_input() {
    let mut fixture = Fixture::new();
    fixture.input = "why?".to_owned();
    assert_eq!(fixture.ask(&command(&["cat"])).unwrap().text, "why?");
    fixture.system = "be brief".to_owned();
    let answer = fixture.ask(&command(&["cat"])).unwrap();
    assert_eq!(answer.text, "be brief\n\nwhy?");
    assert_eq!(answer.usage, Usage::default());
}

#[test]
fn only_the_last_newline_is_trimmed() {
    let fixture = Fixture::new();
    for (script, text) in [
        ("printf 'a\\n\\n'", "a\n"),
        ("printf 'a\\r\\n'", "a"),
        ("printf ' a '", " a "),
        ("true", ""),
    ] {
        assert_eq!(fixture.ask_sh(script).unwrap().text, text, "{script}");
    }
}

#[test]
fn invalid_utf8_is_replaced_in_the_answer() {
    let answer = Fixture::new().ask_sh("printf 'a\\377b\\000c\\303'");
    assert_eq!(answer.unwrap().text, "a\u{FFFD}b\0c\u{FFFD}");
}

#[test]
fn reported_text_adds_up_to_the_answer() {
    let fixture = Fixture::new();
    let log = TextLog::default();
    let driver = sh("printf 'caf\\303'; printf '\\251 '; printf end");
    let answer = runtime().block_on(driver.ask(fixture.request(), &log));
    assert_eq!(answer.unwrap().text, "café end");
    assert_eq!(log.text.lock().unwrap().concat(), "café end");
    assert!(log.usage.lock().unwrap().is_empty());
}

#[test]
fn arguments_are_passed_unchanged() {
    let odd = ["a b", "$HOME", "; exit 1", "", "--", "\u{1F3B5}\n"];
    let mut argv = vec!["printf", "%s|"];
    argv.extend(odd);
    let answer = Fixture::new().ask(&command(&argv)).unwrap();
    assert_eq!(answer.text, odd.join("|") + "|");
}

#[test]
fn agent_gets_workspace_and_segno_variables() {
    let mut fixture = Fixture::new();
    fixture.attempt = 3;
    let script = "pwd -P; for v in SESSION RUN STEP ATTEMPT STEP_ID; do printenv SEGNO_$v; done";
    let folder = fixture.folder().canonicalize().unwrap();
    let expected = format!(
        "{}\n{}\n7\nsteps/0\n3\n{}",
        folder.display(),
        fixture.session(),
        Digest::of(b"key")
    );
    assert_eq!(fixture.ask_sh(script).unwrap().text, expected);
}

#[test]
fn agent_inherits_only_its_three_pipes() {
    let fixture = Fixture::new();
    let mut options = OpenOptions::new();
    let path = fixture.folder().join("secret");
    let _held = options.append(true).create(true).open(path).unwrap();
    let listing = fixture.ask_sh("cd /proc/self/fd && readlink * | grep -v '^/proc/'");
    let listing = listing.unwrap().text;
    let own = listing.lines().filter(|line| line.starts_with("pipe:"));
    assert!(own.count() >= 3, "{listing}");
    assert!(!listing.contains("secret"), "{listing}");
    assert!(!listing.contains("socket:"), "{listing}");
}

#[test]
fn prompt_of_10_mb_arrives_complete() {
    let mut fixture = Fixture::new();
    fixture.input = "0123456789".repeat(1 << 20);
    let answer = fixture.ask(&command(&["cat"])).unwrap();
    assert!(answer.text == fixture.input);
}

#[test]
fn agent_may_ignore_its_prompt() {
    let mut fixture = Fixture::new();
    fixture.input = "x".repeat(10 << 20);
    assert_eq!(fixture.ask_sh("echo done").unwrap().text, "done");
    assert_eq!(fixture.ask_sh("exec <&-; echo done").unwrap().text, "done");
}

#[test]
fn answer_waits_for_exit_after_stdout_closes() {
    let fixture = Fixture::new();
    let script = "echo early; exec >&- 2>&-; : >closed
        while [ ! -e go ]; do sleep 0.01; done; exit 3";
    let (driver, log) = (sh(script), TextLog::default());
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            until("stdout is closed", || fixture.has("closed"));
            fixture.touch("go");
        });
        runtime().block_on(driver.ask(fixture.request(), &log))
    })
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Crashed);
    assert_eq!(error.message, "`sh` exited with code 3");
}
