//! Sessions whose folder was renamed, and sessions that come from another machine with their files.

use std::path::{Path, PathBuf};

use segno_testkit::sandbox::{Said, Sandbox, finish};
use serde_json::Value;

use super::{Live, failing_chain, root, start_waiting, waiting_chain};
use crate::sandbox;

/// Runs the binary in some folder.
fn within(sandbox: &Sandbox, folder: &Path, words: &[&str]) -> Said {
    let mut command = sandbox.command(words);
    command.current_dir(folder);
    finish(command)
}

/// Which folder a session works in, as it is listed.
fn workspace(sandbox: &Sandbox) -> String {
    let listed = within(
        sandbox,
        &root(sandbox),
        &["sessions", "list", "--all", "--json"],
    );
    let listed = listed.good().json();
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
fn a_session_whose_folder_was_renamed_goes_on_there() {
    let (sandbox, folder) = renamed();
    let place = folder.to_str().unwrap();
    let said = within(&sandbox, &folder, &["sessions", "move", "stuck", "."]).good();
    assert!(
        said.stdout.starts_with("stuck (") && said.stdout.ends_with(&format!("works in {place}\n")),
        "{said:?}"
    );
    let listed = within(&sandbox, &folder, &["sessions", "list"]).good();
    assert!(listed.stdout.contains("stuck  failed"), "{listed:?}");
    let listed = sandbox.segno(&["sessions", "list"]).good();
    assert!(listed.stdout.starts_with("no sessions;"), "{listed:?}");
    let shown = sandbox.segno(&["sessions", "show", "stuck"]).good();
    assert!(
        shown.stdout.contains(&format!("{place}/chain.yaml")),
        "{shown:?}"
    );
    let logged = sandbox.segno(&["logs", "stuck"]).good();
    assert!(
        logged.stdout.contains(&format!("moved to {place}")),
        "{logged:?}"
    );
    // The spec and its answers are read where they are now.
    let mended = "ledger: calls.log\ndefault: {text: fine}\n";
    std::fs::write(folder.join("answers.yaml"), mended).unwrap();
    let said = within(&sandbox, &folder, &["resume"]).good();
    assert!(!said.stderr.contains("cannot be read"), "{said:?}");
    let calls = std::fs::read_to_string(folder.join("calls.log")).unwrap();
    assert_eq!(calls.lines().count(), 4, "{calls}");
    assert_eq!(sandbox.read("calls.log"), "");
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_session_that_is_over_is_moved_too_and_its_checkpoints_follow() {
    let (sandbox, folder) = renamed();
    within(&sandbox, &folder, &["sessions", "move", "stuck", "."]).good();
    std::fs::write(folder.join("kept.txt"), "kept").unwrap();
    sandbox.segno(&["checkpoint", "create", "stuck"]).good();
    sandbox.segno(&["cancel", "stuck"]).good();
    let again = root(&sandbox).join("again");
    std::fs::rename(&folder, &again).unwrap();
    let words = ["sessions", "move", "stuck", again.to_str().unwrap()];
    let said = sandbox.segno(&[&words[..], &["--json"]].concat()).good();
    let said = &said.json()[0];
    assert_eq!(said["kind"], "moved");
    assert_eq!(said["from"], folder.to_str().unwrap());
    assert_eq!(said["workspace"], again.to_str().unwrap());
    let shown = sandbox
        .segno(&["sessions", "show", "stuck", "--json"])
        .good();
    assert_eq!(shown.json()[0]["status"], "cancelled");
    std::fs::remove_file(again.join("kept.txt")).unwrap();
    let kept = sandbox
        .segno(&["checkpoint", "list", "--all", "--json"])
        .good();
    let kept = kept.json()[0]["checkpoint"].as_str().unwrap().to_owned();
    sandbox.segno(&["checkpoint", "restore", &kept]).good();
    assert_eq!(
        std::fs::read_to_string(again.join("kept.txt")).unwrap(),
        "kept"
    );
    assert!(!folder.exists(), "nothing comes back where it was");
    let said = sandbox.segno(&words).good();
    assert!(said.stdout.contains("works already in"), "{said:?}");
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_session_is_not_moved_while_it_is_run_or_to_what_is_no_folder() {
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
    for (place, why) in [("nowhere", "No such file"), ("chain.yaml", "not a folder")] {
        sandbox
            .segno(&["sessions", "move", "busy", place])
            .refused(2, &["cannot be worked in", why, "[R0117]", "make it first"]);
    }
    assert_eq!(workspace(&sandbox), sandbox.work().to_str().unwrap());
    sandbox.segno(&["sessions", "move", "busy", to]).good();
    let shown = sandbox
        .segno(&["sessions", "show", "busy", "--json"])
        .good();
    let shown: &Value = &shown.json()[0];
    assert_eq!(shown["status"], "interrupted", "it stands as it stood");
}

#[test]
fn a_session_whose_folder_is_gone_is_not_begun_and_the_answer_says_how_to_go_on() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "test -e go || exit 1");
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let folder = root(&sandbox).join("renamed");
    std::fs::rename(sandbox.work(), &folder).unwrap();
    let entries = || {
        let words = ["sessions", "show", "chain", "--json"];
        within(&sandbox, &folder, &words).good().json()[0]["entries"].clone()
    };
    let before = entries();
    for words in [&["resume", "chain"][..], &["resume", "chain", "--plan"]] {
        within(&sandbox, &folder, words).refused(
            2,
            &[
                "is not there",
                "[R0118]",
                "`segno sessions move chain FOLDER`",
            ],
        );
    }
    assert_eq!(entries(), before);
    within(&sandbox, &folder, &["sessions", "move", "chain", "."]).good();
    std::fs::write(folder.join("go"), "").unwrap();
    within(&sandbox, &folder, &["resume", "chain"]).good();
}

/// What was killed is done or not done, and the same command finishes it.
#[cfg(feature = "failpoints")]
#[test]
fn a_session_that_is_killed_while_it_is_moved_is_moved_by_the_same_command() {
    let points = [
        "lease.after_acquire",
        "journal.before_commit",
        "journal.after_commit",
        "journal.after_witness",
    ];
    let (mut killed, mut moved) = (0, 0);
    for point in points {
        for visit in 1.. {
            let (sandbox, folder) = renamed();
            let words = ["sessions", "move", "stuck", folder.to_str().unwrap()];
            let mut command = sandbox.command(&words);
            command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
            if !finish(command).crashed() {
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
            sandbox.segno(&["doctor"]).good();
            sandbox.segno(&words).good();
            assert_eq!(workspace(&sandbox), folder.to_str().unwrap());
            let logged = sandbox.segno(&["logs", "stuck"]).good();
            assert_eq!(
                logged.stdout.matches("moved to").count(),
                1,
                "{point}:{visit}"
            );
            sandbox.segno(&["doctor"]).good();
        }
    }
    assert!(moved > 0 && moved < killed, "{moved} of {killed}");
}
