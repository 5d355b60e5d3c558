//! Arguments on the command line.

use crate::commands::scripted;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use segno_testkit::sandbox::{Sandbox, run_to_end};

use crate::bad_input::assert_nothing_stored;
use crate::commands::{failing_chain, session_statuses, shown};
use crate::sandbox;

fn failed_session(sandbox: &Sandbox, name: &str) -> String {
    failing_chain(sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", name])
        .refused(10, &[]);
    shown(sandbox, name)["session"].as_str().unwrap().to_owned()
}

#[test]
fn an_unknown_session_is_named() {
    let sandbox = sandbox();
    let id = failed_session(&sandbox, "report");
    let other = id.replace(&id[20..], "000000");
    let commands = [
        &["resume"][..],
        &["run", "--resume"],
        &["show"],
        &["sessions", "delete", "--yes"],
        &["logs"],
        &["cancel"],
    ];
    let refused = |command: &[&str], reference: &str| {
        let named = format!("`{reference}`");
        sandbox
            .segno(&[command, &[reference]].concat())
            .refused(17, &[&named, "[S0101]", "segno sessions list"]);
    };
    for command in commands {
        refused(command, "nobody");
    }
    for reference in ["REPORT", "", " ", "..", "../report", "%", &other] {
        refused(&["sessions", "delete", "--yes"], reference);
    }
    assert_eq!(
        session_statuses(&sandbox),
        [("report".into(), "failed".into())]
    );
}

#[test]
fn ambiguous_prefix_is_refused_with_the_candidates() {
    let sandbox = sandbox();
    failed_session(&sandbox, "report-a");
    failed_session(&sandbox, "report-b");
    for reference in ["rep", "report-", "0"] {
        sandbox
            .segno(&["sessions", "delete", reference, "--yes"])
            .refused(
                17,
                &[
                    &format!("`{reference}` matches several sessions"),
                    "report-a (",
                    "report-b (",
                    "[S0105]",
                    "hint:",
                ],
            );
    }
    assert_eq!(session_statuses(&sandbox).len(), 2);
}

#[test]
fn full_name_wins_over_a_longer_one() {
    let sandbox = sandbox();
    failed_session(&sandbox, "report");
    failed_session(&sandbox, "report-2");
    assert_eq!(shown(&sandbox, "report")["name"], "report");
}

#[test]
fn leading_dash_is_no_option_after_two_dashes() {
    let sandbox = sandbox();
    sandbox
        .segno(&["resume", "-x"])
        .refused(2, &["-x", "-- -x"]);
    sandbox
        .segno(&["resume", "--", "-x"])
        .refused(17, &["`-x`", "[S0101]"]);
    sandbox
        .segno(&["show", "--", "--json"])
        .refused(17, &["`--json`"]);
    sandbox.segno(&["resume", "-"]).refused(17, &["`-`"]);
}

#[test]
fn invalid_session_name_is_refused() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    let long = "n".repeat(65);
    for name in [
        "",
        " ",
        "a b",
        "a\nb",
        "ä",
        "a/b",
        "..\u{202e}",
        "$(id)",
        &long,
    ] {
        sandbox
            .segno(&["run", "chain.yaml", "--name", name])
            .refused(2, &["--name", "1 to 64 letters"]);
    }
    sandbox
        .segno(&["run", "chain.yaml", "--name=-x"])
        .refused(2, &["--name"]);
    assert!(sandbox.calls().is_empty());
    assert_nothing_stored(&sandbox);
}

#[test]
fn arguments_that_are_not_utf_8_are_refused() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    let bad = OsStr::from_bytes(b"\xff");
    for words in [
        &["resume"][..],
        &["run", "chain.yaml", "--var"],
        &["run", "chain.yaml", "--name"],
        &["cancel"],
    ] {
        let mut command = sandbox.command(words);
        command.arg(bad);
        run_to_end(command).refused(2, &["invalid UTF-8"]);
    }
    let mut command = sandbox.command(&["run"]);
    command.arg(OsStr::from_bytes(b"\xff.yaml"));
    run_to_end(command).refused(12, &["\u{fffd}.yaml", "No such file"]);
    assert_nothing_stored(&sandbox);
}

#[test]
fn empty_arguments_are_refused() {
    let sandbox = sandbox();
    sandbox.segno(&["run", ""]).refused(2, &["[SPEC]"]);
    sandbox.segno(&["validate", ""]).refused(2, &["<SPEC>"]);
    sandbox.segno(&[""]).refused(2, &[]);
    sandbox.scripted_chain(1, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--out", ""])
        .refused(2, &["--out"]);
    assert_nothing_stored(&sandbox);
}

#[test]
fn invalid_numbers_of_days_are_refused() {
    let sandbox = sandbox();
    failed_session(&sandbox, "report");
    for days in [
        "99999999999999999999",
        "1.5",
        "NaN",
        "",
        "ten",
        "0x10",
        "1e3",
    ] {
        sandbox
            .segno(&[
                "sessions",
                "cleanup",
                "--unfinished",
                "--yes",
                "--max-age-days",
                days,
            ])
            .refused(2, &["--max-age-days"]);
    }
    sandbox
        .segno(&[
            "sessions",
            "cleanup",
            "--unfinished",
            "--yes",
            "--max-age-days=-1",
        ])
        .refused(2, &["--max-age-days"]);
    sandbox
        .segno(&[
            "sessions",
            "cleanup",
            "--unfinished",
            "--yes",
            "--max-age-days",
            "18446744073709551615",
        ])
        .expect_success();
    assert_eq!(session_statuses(&sandbox).len(), 1);
}

#[test]
fn unknown_values_are_refused_with_the_known_ones() {
    let sandbox = sandbox();
    sandbox
        .segno(&["sessions", "list", "--status", "bogus"])
        .refused(2, &["bogus", "interrupted"]);
    sandbox
        .segno(&["resume", "--on-change", "bogus"])
        .refused(2, &["bogus", "rerun"]);
    sandbox
        .segno(&["resume", "--in-flight", "bogus"])
        .refused(2, &["bogus", "repeat"]);
}

#[test]
fn very_long_argument_is_refused_normally() {
    let sandbox = sandbox();
    let long = "x".repeat(100_000);
    sandbox.segno(&["resume", &long]).refused(17, &["[S0101]"]);
    sandbox
        .segno(&["run", &long])
        .refused(12, &["File name too long"]);
}

#[test]
fn wrong_argument_cannot_control_the_terminal() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    for words in [
        &["run", "chain.yaml", "--name", "a\u{1b}[31m"][..],
        &["bog\u{1b}[31m"],
        &["resume", "--x\u{1b}[31m"],
    ] {
        let output = sandbox.segno(words).refused(2, &[]);
        assert!(!output.stderr.contains('\u{1b}'), "{:?}", output.stderr);
    }
}

#[test]
fn a_secret_in_a_wrong_argument_is_not_shown() {
    let sandbox = sandbox();
    let mut command = sandbox.command(&[
        "run",
        "chain.yaml",
        "--var",
        "canary-Zq7Xw2Lm9Rt4Vb8Kc3Np6Ys1Hd5",
    ]);
    command.env("MY_API_TOKEN", "canary-Zq7Xw2Lm9Rt4Vb8Kc3Np6Ys1Hd5");
    let output = run_to_end(command).refused(2, &["NAME=VALUE"]);
    assert!(!output.stderr.contains("canary"), "{}", output.stderr);
}

#[test]
fn validate_cannot_control_the_terminal() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    fs::rename(
        sandbox.work().join("chain.yaml"),
        sandbox.work().join("a\u{1b}[31m.yaml"),
    )
    .unwrap();
    let output = sandbox
        .segno(&["validate", "a\u{1b}[31m.yaml"])
        .expect_success();
    assert!(!output.stdout.contains('\u{1b}'), "{:?}", output.stdout);
}

#[test]
fn taken_name_is_refused_with_a_hint() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: x"], "default: {text: fine}");
    sandbox
        .segno(&["run", "chain.yaml", "--name", "mine"])
        .expect_success();
    sandbox
        .segno(&["run", "chain.yaml", "--name", "mine"])
        .refused(17, &["mine", "[S0102]", "hint:"]);
}
