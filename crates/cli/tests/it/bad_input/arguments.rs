//! Words on the command line.

use crate::commands::scripted;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use segno_testkit::sandbox::{Sandbox, finish};

use crate::bad_input::assert_nothing_kept;
use crate::commands::{failing_chain, shown, standings};
use crate::sandbox;

fn stuck(sandbox: &Sandbox, name: &str) -> String {
    failing_chain(sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", name])
        .refused(10, &[]);
    shown(sandbox, name)["session"].as_str().unwrap().to_owned()
}

#[test]
fn an_unknown_session_is_named() {
    let sandbox = sandbox();
    let id = stuck(&sandbox, "report");
    let other = id.replace(&id[20..], "000000");
    let commands = [
        &["resume"][..],
        &["run", "--resume"],
        &["sessions", "show"],
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
    assert_eq!(standings(&sandbox), [("report".into(), "failed".into())]);
}

#[test]
fn an_ambiguous_beginning_is_told_with_what_it_may_mean() {
    let sandbox = sandbox();
    stuck(&sandbox, "report-a");
    stuck(&sandbox, "report-b");
    for reference in ["rep", "report-", "0"] {
        sandbox
            .segno(&["sessions", "delete", reference, "--yes"])
            .refused(
                17,
                &[
                    &format!("`{reference}` may mean"),
                    "report-a (",
                    "report-b (",
                    "[S0105]",
                    "hint:",
                ],
            );
    }
    assert_eq!(standings(&sandbox).len(), 2);
}

#[test]
fn a_whole_name_is_meant_although_another_begins_like_it() {
    let sandbox = sandbox();
    stuck(&sandbox, "report");
    stuck(&sandbox, "report-2");
    assert_eq!(shown(&sandbox, "report")["name"], "report");
}

#[test]
fn an_id_with_a_leading_dash_is_no_option_behind_two_dashes() {
    let sandbox = sandbox();
    sandbox
        .segno(&["resume", "-x"])
        .refused(2, &["-x", "-- -x"]);
    sandbox
        .segno(&["resume", "--", "-x"])
        .refused(17, &["`-x`", "[S0101]"]);
    sandbox
        .segno(&["sessions", "show", "--", "--json"])
        .refused(17, &["`--json`"]);
    sandbox.segno(&["resume", "-"]).refused(17, &["`-`"]);
}

#[test]
fn a_name_that_cannot_be_typed_is_refused() {
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
            .refused(2, &["--name", "1 to 64 characters"]);
    }
    sandbox
        .segno(&["run", "chain.yaml", "--name=-x"])
        .refused(2, &["--name"]);
    assert!(sandbox.calls().is_empty());
    assert_nothing_kept(&sandbox);
}

#[test]
fn words_that_are_not_utf_8_are_refused() {
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
        finish(command).refused(2, &["invalid UTF-8"]);
    }
    let mut command = sandbox.command(&["run"]);
    command.arg(OsStr::from_bytes(b"\xff.yaml"));
    finish(command).refused(12, &["\u{fffd}.yaml", "No such file"]);
    assert_nothing_kept(&sandbox);
}

#[test]
fn words_that_are_empty_are_refused() {
    let sandbox = sandbox();
    sandbox.segno(&["run", ""]).refused(2, &["[SPEC]"]);
    sandbox.segno(&["validate", ""]).refused(2, &["<SPEC>"]);
    sandbox.segno(&[""]).refused(2, &[]);
    sandbox.scripted_chain(1, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--out", ""])
        .refused(2, &["--out"]);
    assert_nothing_kept(&sandbox);
}

#[test]
fn numbers_that_are_no_days_are_refused() {
    let sandbox = sandbox();
    stuck(&sandbox, "report");
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
        .good();
    assert_eq!(standings(&sandbox).len(), 1);
}

#[test]
fn words_outside_of_their_list_are_refused_with_the_list() {
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
fn an_argument_of_a_hundred_kilobytes_is_just_a_wrong_one() {
    let sandbox = sandbox();
    let long = "x".repeat(100_000);
    sandbox.segno(&["resume", &long]).refused(17, &["[S0101]"]);
    sandbox
        .segno(&["run", &long])
        .refused(12, &["File name too long"]);
}

#[test]
fn a_wrong_argument_cannot_steer_the_terminal() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    for words in [
        &["run", "chain.yaml", "--name", "a\u{1b}[31m"][..],
        &["bog\u{1b}[31m"],
        &["resume", "--x\u{1b}[31m"],
    ] {
        let said = sandbox.segno(words).refused(2, &[]);
        assert!(!said.stderr.contains('\u{1b}'), "{:?}", said.stderr);
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
    let said = finish(command).refused(2, &["NAME=VALUE"]);
    assert!(!said.stderr.contains("canary"), "{}", said.stderr);
}

#[test]
fn validate_cannot_be_made_to_steer_the_terminal() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    fs::rename(
        sandbox.work().join("chain.yaml"),
        sandbox.work().join("a\u{1b}[31m.yaml"),
    )
    .unwrap();
    let said = sandbox.segno(&["validate", "a\u{1b}[31m.yaml"]).good();
    assert!(!said.stdout.contains('\u{1b}'), "{:?}", said.stdout);
}

#[test]
fn a_name_that_is_taken_is_refused_with_the_way_out() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: x"], "default: {text: fine}");
    sandbox
        .segno(&["run", "chain.yaml", "--name", "mine"])
        .good();
    sandbox
        .segno(&["run", "chain.yaml", "--name", "mine"])
        .refused(17, &["mine", "[S0102]", "hint:"]);
}
