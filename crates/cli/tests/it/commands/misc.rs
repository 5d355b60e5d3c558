//! Other commands: validate, doctor, demo, completion.

use std::fs;

use segno_testkit::sandbox::run_to_end;

use crate::commands::{edit, failing_chain, keys, root, start_waiting, waiting_chain};
use crate::sandbox;

#[test]
fn validate_accepts_a_valid_spec_and_stores_nothing() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let output = sandbox.segno(&["validate", "chain.yaml"]).expect_success();
    assert_eq!(
        output.stdout,
        "chain.yaml is valid: chain `chain` with 3 steps\n"
    );
    let output = sandbox
        .segno(&["validate", "chain.yaml", "--json"])
        .expect_success();
    assert_eq!(keys(&output.json()[0]), "inputs kind name pattern steps v");
    assert!(!sandbox.home().exists());
    assert!(sandbox.calls().is_empty());
}

#[test]
fn validate_reports_all_errors_at_once() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    edit(&sandbox, "provider:", "provder:");
    edit(
        &sandbox,
        "agent: a, input: one",
        "agent: b, input: \"{{ one\"",
    );
    let output = sandbox
        .segno(&["validate", "chain.yaml"])
        .refused(3, &["[W0101]"]);
    insta::assert_snapshot!(super::normalize(&sandbox, &output.stderr), @r"
    error: [ROOT]/work/chain.yaml is not a valid spec [W0101]
      cause: /runtime/provder (line 4): unknown key; did you mean `provider`?
             /pattern/config/steps/0/agent (line 12): unknown agent `b`; did you mean `a`?
             /pattern/config/steps/0/input (line 12): template: line 1 of the template: unexpected end of input, expected end of variable block
    ");
    let output = sandbox
        .segno(&["validate", "chain.yaml", "--json"])
        .refused(3, &[]);
    assert_eq!(
        keys(&output.json()[0]),
        "causes code exit hint kind message v"
    );
}

#[test]
fn unsupported_feature_is_refused_by_name() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    edit(
        &sandbox,
        "version: 0",
        "version: 0\nenv: {secrets: [{key: K, source: ssm, path: k}]}",
    );
    for command in ["validate", "run"] {
        let expected = [
            "secrets are read from the environment or from a file",
            "[W0102]",
        ];
        sandbox
            .segno(&[command, "chain.yaml"])
            .refused(18, &expected);
    }
    assert!(super::session_statuses(&sandbox).is_empty());
}

#[test]
fn doctor_accepts_a_sound_home() {
    let sandbox = sandbox();
    assert_eq!(
        sandbox.segno(&["doctor"]).expect_success().stdout,
        "verified 0 sessions, 0 events, 0 blobs\n"
    );
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    assert_eq!(
        sandbox.segno(&["doctor"]).expect_success().stdout,
        "verified 1 session, 9 events, 0 blobs\n"
    );
    let output = sandbox.segno(&["doctor", "--json"]).expect_success();
    assert_eq!(
        keys(&output.json()[0]),
        "blobs checkpoints damaged data_read events kind pack_bytes packs sessions v"
    );
}

#[test]
fn demo_kills_a_run_and_repeats_no_answered_call() {
    let sandbox = sandbox();
    let mut command = sandbox.command(&["demo"]);
    command.env("TMPDIR", root(&sandbox));
    let output = run_to_end(command).expect_success();
    for word in [
        "killed while steps/3 was in flight",
        "finished steps skipped: 3, answered calls repeated: 0",
    ] {
        assert!(output.stdout.contains(word), "{}", output.stdout);
    }
    let left: Vec<_> = fs::read_dir(root(&sandbox)).unwrap().collect();
    assert_eq!(left.len(), 1, "only the work folder is left: {left:?}");
}

#[test]
fn demo_files_can_be_kept() {
    let sandbox = sandbox();
    sandbox.segno(&["demo", "--keep", "demo"]).expect_success();
    assert!(
        sandbox
            .read("demo/artifacts/tides.md")
            .starts_with("# Two Bulges")
    );
    assert!(sandbox.read("demo/calls.log").lines().count() >= 5);
    let mut command = sandbox.command(&["doctor"]);
    command.env("SEGNO_HOME", sandbox.work().join("demo/home"));
    run_to_end(command).expect_success();
}

#[test]
fn sessions_can_be_named_by_workflow_id() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    let run = ["run", "chain.yaml", "--save-session"];
    sandbox.segno(&run).refused(10, &["[R0101]"]);
    for words in [&["show", "-w", "chain"][..], &["ls"], &["ps"]] {
        let output = sandbox.segno(words).expect_success();
        assert!(output.stdout.contains("chain"), "{output:?}");
    }
    let resume = ["resume", "--workflow-id", "chain", "--dry-run"];
    sandbox.segno(&resume).expect_success();
    for words in [
        &["pause", "-w", "chain"][..],
        &["sessions", "pause", "chain"],
    ] {
        sandbox.segno(words).refused(17, &["[S0116]"]);
    }
    for words in [
        &["show", "chain", "-w", "chain"][..],
        &["show"],
        &["cancel"],
    ] {
        sandbox.segno(words).refused(2, &["Usage"]);
    }
    sandbox.segno(&["cancel", "-w", "chain"]).expect_success();
}

/// Every command line in the designs that Segno comes from, apart from the program's name.
#[test]
fn command_lines_of_the_designs_are_accepted() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &["--save-session"]);
    let pause = [
        "sessions",
        "pause",
        "-w",
        "chain",
        "-r",
        "lunch",
        "--no-wait",
    ];
    sandbox.segno(&pause).expect_success();
    sandbox.write("go", "");
    live.finish().refused(130, &[]);
    let listed = ["sessions", "list", "--status", "paused"];
    let listed = sandbox.segno(&listed).expect_success();
    assert!(listed.stdout.contains("chain"), "{listed:?}");
    let same = sandbox.segno(&["show", "chain"]).expect_success().stdout;
    for words in [
        &["sessions", "show", "chain"][..],
        &["sessions", "show", "-w", "chain"],
    ] {
        assert_eq!(sandbox.segno(words).expect_success().stdout, same);
    }
    assert!(same.contains("lunch"), "{same}");
    sandbox
        .segno(&["run", "--resume", "chain"])
        .expect_success();
    // Without a name, both commands mean the session of the folder.
    sandbox.segno(&["pause"]).refused(17, &[]);
    let cleanup = [
        "sessions",
        "cleanup",
        "--max-age-days",
        "7",
        "--keep-completed",
    ];
    sandbox.segno(&cleanup).expect_success();
    sandbox
        .segno(&["sessions", "delete", "chain"])
        .expect_success();
    sandbox.segno(&["resume", "-w", "chain"]).refused(17, &[]);
    let auto = [
        "run",
        "chain.yaml",
        "--auto-resume",
        "--save-session",
        "--force",
    ];
    sandbox.segno(&auto).expect_success();
}

#[test]
fn completions_know_the_commands() {
    let sandbox = sandbox();
    for shell in ["bash", "zsh", "fish"] {
        let output = sandbox.segno(&["completion", shell]).expect_success();
        for word in ["segno", "resume", "auto-resume", "cleanup", "completion"] {
            assert!(output.stdout.contains(word), "{shell}: {word}");
        }
        assert!(!output.stdout.contains("__process-guard"), "{shell}");
    }
    let script = sandbox.segno(&["completion", "bash"]).stdout;
    let path = sandbox.write("segno.bash", &script);
    let mut bash = std::process::Command::new("bash");
    sandbox.set_env(&mut bash);
    bash.arg("-n").arg(path);
    run_to_end(bash).expect_success();
    sandbox
        .segno(&["completion", "tcsh"])
        .refused(2, &["tcsh", "bash"]);
}

#[test]
fn the_demo_kills_while_the_call_is_in_flight() {
    for _ in 0..3 {
        let sandbox = sandbox();
        sandbox.segno(&["demo", "--keep", "demo"]).expect_success();
        assert_eq!(sandbox.read("demo/calls.log").lines().count(), 6);
    }
}
