//! Sessions whose folder was renamed or is gone.

use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use super::{Live, failing_chain, root, start_waiting, waiting_chain};
use crate::sandbox;

/// Runs the binary in this folder.
fn within(sandbox: &Sandbox, folder: &Path, words: &[&str]) -> ProcessOutput {
    let mut command = sandbox.command(words);
    command.current_dir(folder);
    run_to_end(command)
}

/// The folder of the only session, as `sessions list` prints it.
fn workspace(sandbox: &Sandbox) -> String {
    let listed = within(
        sandbox,
        &root(sandbox),
        &["sessions", "list", "--all", "--json"],
    );
    let listed = listed.expect_success().json();
    assert_eq!(listed.len(), 1, "{listed:?}");
    listed[0]["workspace"].as_str().unwrap().to_owned()
}

/// A session that failed at its third step, and whose folder was renamed since.
fn renamed() -> (Sandbox, PathBuf) {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    let folder = root(&sandbox).join("renamed");
    std::fs::rename(sandbox.work(), &folder).unwrap();
    std::fs::create_dir(sandbox.work()).unwrap();
    (sandbox, folder)
}

#[test]
fn moved_session_resumes_in_its_new_folder() {
    let (sandbox, folder) = renamed();
    let path = folder.to_str().unwrap();
    let output = within(&sandbox, &folder, &["sessions", "move", "stuck", "."]).expect_success();
    assert!(
        output.stdout.starts_with("stuck (")
            && output.stdout.ends_with(&format!("works in {path}\n")),
        "{output:?}"
    );
    let listed = within(&sandbox, &folder, &["sessions", "list"]).expect_success();
    assert!(listed.stdout.contains("stuck  failed"), "{listed:?}");
    let listed = sandbox.segno(&["sessions", "list"]).expect_success();
    assert!(listed.stdout.starts_with("no sessions;"), "{listed:?}");
    let shown = sandbox.segno(&["show", "stuck"]).expect_success();
    assert!(
        shown.stdout.contains(&format!("{path}/chain.yaml")),
        "{shown:?}"
    );
    let logged = sandbox.segno(&["logs", "stuck"]).expect_success();
    assert!(
        logged.stdout.contains(&format!("moved to {path}")),
        "{logged:?}"
    );
    // Segno reads the spec and its answers from the new folder.
    let answers = "ledger: calls.log\ndefault: {text: fine}\n";
    std::fs::write(folder.join("answers.yaml"), answers).unwrap();
    let output = within(&sandbox, &folder, &["resume"]).expect_success();
    assert!(!output.stderr.contains("cannot be read"), "{output:?}");
    let calls = std::fs::read_to_string(folder.join("calls.log")).unwrap();
    assert_eq!(calls.lines().count(), 4, "{calls}");
    assert_eq!(sandbox.read("calls.log"), "");
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn ended_session_can_be_moved_with_its_checkpoints() {
    let (sandbox, folder) = renamed();
    within(&sandbox, &folder, &["sessions", "move", "stuck", "."]).expect_success();
    std::fs::write(folder.join("kept.txt"), "kept").unwrap();
    sandbox
        .segno(&["checkpoint", "create", "stuck"])
        .expect_success();
    sandbox.segno(&["cancel", "stuck"]).expect_success();
    let again = root(&sandbox).join("again");
    std::fs::rename(&folder, &again).unwrap();
    let words = ["sessions", "move", "stuck", again.to_str().unwrap()];
    let output = sandbox
        .segno(&[&words[..], &["--json"]].concat())
        .expect_success();
    let output = &output.json()[0];
    assert_eq!(output["kind"], "moved");
    assert_eq!(output["from"], folder.to_str().unwrap());
    assert_eq!(output["workspace"], again.to_str().unwrap());
    let shown = sandbox.segno(&["show", "stuck", "--json"]).expect_success();
    assert_eq!(shown.json()[0]["status"], "cancelled");
    std::fs::remove_file(again.join("kept.txt")).unwrap();
    let checkpoint = sandbox
        .segno(&["checkpoint", "list", "--all", "--json"])
        .expect_success();
    let checkpoint = checkpoint.json()[0]["checkpoint"]
        .as_str()
        .unwrap()
        .to_owned();
    sandbox
        .segno(&["checkpoint", "restore", &checkpoint])
        .expect_success();
    assert_eq!(
        std::fs::read_to_string(again.join("kept.txt")).unwrap(),
        "kept"
    );
    assert!(!folder.exists(), "nothing comes back where it was");
    let output = sandbox.segno(&words).expect_success();
    assert!(output.stdout.contains("works already in"), "{output:?}");
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn running_session_or_missing_folder_blocks_a_move() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _): (Live, String) = start_waiting(&sandbox, &["--name", "busy"]);
    let elsewhere = root(&sandbox).join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let to = elsewhere.to_str().unwrap();
    sandbox
        .segno(&["sessions", "move", "busy", to])
        .refused(21, &["[S0107]", "hint:"]);
    live.kill();
    for (path, why) in [("nowhere", "No such file"), ("chain.yaml", "not a folder")] {
        sandbox.segno(&["sessions", "move", "busy", path]).refused(
            2,
            &[
                "cannot be used as a workspace",
                why,
                "[R0117]",
                "create it first",
            ],
        );
    }
    assert_eq!(workspace(&sandbox), sandbox.work().to_str().unwrap());
    sandbox
        .segno(&["sessions", "move", "busy", to])
        .expect_success();
    let shown = sandbox.segno(&["show", "busy", "--json"]).expect_success();
    let shown: &Value = &shown.json()[0];
    assert_eq!(shown["status"], "interrupted", "it stands as it stood");
}

#[test]
fn resume_without_its_folder_is_refused_with_a_hint() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "test -e go || exit 1");
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let folder = root(&sandbox).join("renamed");
    std::fs::rename(sandbox.work(), &folder).unwrap();
    let event_count = || {
        let words = ["show", "chain", "--json"];
        within(&sandbox, &folder, &words).expect_success().json()[0]["events"].clone()
    };
    let before = event_count();
    for words in [&["resume", "chain"][..], &["resume", "chain", "--dry-run"]] {
        within(&sandbox, &folder, words).refused(
            2,
            &[
                "does not exist",
                "[R0118]",
                "`segno sessions move chain FOLDER`",
            ],
        );
    }
    assert_eq!(event_count(), before);
    within(&sandbox, &folder, &["sessions", "move", "chain", "."]).expect_success();
    std::fs::write(folder.join("go"), "").unwrap();
    within(&sandbox, &folder, &["resume", "chain"]).expect_success();
}

/// A killed move is done or not done, and the same command finishes it.
#[cfg(feature = "failpoints")]
#[test]
fn killed_move_is_finished_by_the_same_command() {
    let points = [
        "lease.after_acquire",
        "journal.before_commit",
        "journal.after_commit",
        "journal.after_ack_marker",
    ];
    let (mut killed, mut moved) = (0, 0);
    for point in points {
        for visit in 1.. {
            let (sandbox, folder) = renamed();
            let words = ["sessions", "move", "stuck", folder.to_str().unwrap()];
            let mut command = sandbox.command(&words);
            command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
            if !run_to_end(command).crashed() {
                assert!(visit > 1, "{point} is never visited");
                break;
            }
            killed += 1;
            let now = workspace(&sandbox);
            if now == folder.to_str().unwrap() {
                moved += 1;
            } else {
                assert_eq!(now, sandbox.work().to_str().unwrap(), "{point}:{visit}");
            }
            sandbox.segno(&["doctor"]).expect_success();
            sandbox.segno(&words).expect_success();
            assert_eq!(workspace(&sandbox), folder.to_str().unwrap());
            let logged = sandbox.segno(&["logs", "stuck"]).expect_success();
            assert_eq!(
                logged.stdout.matches("moved to").count(),
                1,
                "{point}:{visit}"
            );
            sandbox.segno(&["doctor"]).expect_success();
        }
    }
    assert!(moved > 0 && moved < killed, "{moved} of {killed}");
}
