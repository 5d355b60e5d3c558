//! Deleted sessions can be restored until they are deleted permanently (P8).

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use segno_testkit::sandbox::Sandbox;

use crate::commands::{
    failing_chain, fix_answers, keys, normalize, scripted, session_statuses, tree,
};
use crate::sandbox;

/// A failed session that can be resumed.
fn failed_session() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    sandbox
}

/// A completed session whose answer is stored as a blob.
fn with_blob(sandbox: &Sandbox, name: &str, text: &str) {
    scripted(
        sandbox,
        &["input: x"],
        &format!("default: {{repeat: {{text: {text}, bytes: 300000}}}}"),
    );
    sandbox
        .segno(&["run", "chain.yaml", "--name", name])
        .expect_success();
}

fn blobs(sandbox: &Sandbox) -> usize {
    let files = tree(&sandbox.home().join("blobs"));
    files.iter().filter(|path| path.is_file()).count()
}

/// Makes every blob two days old.
fn age_blobs(sandbox: &Sandbox) {
    let then = SystemTime::now() - Duration::from_hours(48);
    for path in tree(&sandbox.home().join("blobs")) {
        if path.is_file() {
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(then)
                .unwrap();
        }
    }
}

fn trashed_names(sandbox: &Sandbox) -> Vec<String> {
    let output = sandbox
        .segno(&["sessions", "trash", "--json"])
        .expect_success();
    let name = |line: &serde_json::Value| line["name"].as_str().unwrap_or("?").to_owned();
    output.json().iter().map(name).collect()
}

#[test]
fn deleted_session_disappears_and_can_be_restored() {
    let sandbox = failed_session();
    let output = sandbox
        .segno(&["sessions", "delete", "stuck"])
        .expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    moved stuck ([ID]), failed, 9 events to the trash
    `segno sessions restore stuck` restores it
    ");
    assert!(session_statuses(&sandbox).is_empty());
    let status = sandbox.segno(&["status"]).expect_success().stdout;
    assert!(!status.contains("stuck"), "{status}");
    sandbox.segno(&["resume"]).refused(17, &["[S0106]"]);
    for words in [
        ["resume", "stuck"].as_slice(),
        &["show", "stuck"],
        &["logs", "stuck"],
        &["cancel", "stuck"],
    ] {
        sandbox
            .segno(words)
            .refused(17, &["[S0111]", "segno sessions restore stuck"]);
    }
    sandbox.segno(&["doctor"]).expect_success();
    let output = sandbox
        .segno(&["sessions", "restore", "stuck"])
        .expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @"restored stuck ([ID])");
    fix_answers(&sandbox);
    sandbox.segno(&["resume", "stuck"]).expect_success();
    let calls = sandbox.calls();
    assert_eq!(calls.iter().filter(|call| *call == "steps/0").count(), 1);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn trash_shows_its_sessions_and_their_expiry() {
    let sandbox = failed_session();
    let output = sandbox.segno(&["sessions", "trash"]).expect_success();
    assert_eq!(output.stdout, "the trash is empty\n");
    sandbox
        .segno(&["sessions", "delete", "stuck"])
        .expect_success();
    let output = sandbox.segno(&["sessions", "trash"]).expect_success();
    let table = normalize(&sandbox, &output.stdout);
    assert!(
        table.starts_with(
            "NAME  STATUS  DELETED  EXPIRES  ID\nstuck  failed  [TOOK] ago  in 6 d 23 h  [ID]\n"
        ),
        "{table}"
    );
    let output = sandbox
        .segno(&["sessions", "trash", "--json"])
        .expect_success();
    insta::assert_snapshot!(keys(&output.json()[0]), @"deleted_at events kind name session status until v");
    sandbox
        .segno(&["sessions", "restore", "nobody"])
        .refused(17, &["nobody", "[S0112]"]);
}

#[test]
fn restored_session_gets_a_number_if_its_name_is_taken() {
    let sandbox = failed_session();
    let id = super::shown(&sandbox, "stuck")["session"].clone();
    sandbox
        .segno(&["sessions", "delete", "stuck"])
        .expect_success();
    fix_answers(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .expect_success();
    assert_eq!(
        session_statuses(&sandbox),
        [("stuck".into(), "completed".into())]
    );
    sandbox
        .segno(&["sessions", "restore", "stuck", "--name", "stuck"])
        .refused(17, &["stuck", "[S0102]"]);
    let output = sandbox
        .segno(&["sessions", "restore", "stuck", "--json"])
        .expect_success();
    assert_eq!(output.json()[0]["name"], "stuck-2");
    let shown = super::shown(&sandbox, "stuck-2");
    assert_eq!(shown["session"], id);
    let output = sandbox.segno(&["resume", "stuck-2"]).expect_success();
    assert!(
        output.stderr.contains("completed stuck-2"),
        "{}",
        output.stderr
    );
}

#[test]
fn permanent_deletion_needs_yes() {
    let sandbox = failed_session();
    sandbox
        .segno(&["sessions", "delete", "stuck", "--permanent"])
        .refused(2, &["stuck", "--yes", "--dry-run"]);
    assert_eq!(session_statuses(&sandbox).len(), 1);
    sandbox
        .segno(&["sessions", "delete", "stuck"])
        .expect_success();
    sandbox
        .segno(&["sessions", "trash", "--empty"])
        .refused(2, &["1 session in the trash", "--yes"]);
    let output = sandbox
        .segno(&["sessions", "trash", "--empty", "--dry-run"])
        .expect_success();
    assert!(
        output.stdout.contains("would delete 1 session"),
        "{}",
        output.stdout
    );
    assert_eq!(trashed_names(&sandbox), ["stuck"]);
    sandbox
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .expect_success();
    assert!(trashed_names(&sandbox).is_empty());
    sandbox
        .segno(&["sessions", "restore", "stuck"])
        .refused(17, &["[S0112]"]);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn trashed_session_can_be_deleted_permanently() {
    let sandbox = failed_session();
    sandbox
        .segno(&["sessions", "delete", "stuck"])
        .expect_success();
    sandbox
        .segno(&["sessions", "delete", "stuck", "--permanent", "--yes"])
        .expect_success();
    assert!(trashed_names(&sandbox).is_empty());
    sandbox.segno(&["show", "stuck"]).refused(17, &["[S0101]"]);
}

#[test]
fn old_unreferenced_blobs_are_deleted() {
    let sandbox = sandbox();
    with_blob(&sandbox, "one", "alpha");
    with_blob(&sandbox, "two", "beta");
    assert_eq!(blobs(&sandbox), 2);
    sandbox
        .segno(&["sessions", "delete", "one"])
        .expect_success();
    age_blobs(&sandbox);
    // The trash still references the blob.
    sandbox.segno(&["sessions", "cleanup"]).expect_success();
    assert_eq!(blobs(&sandbox), 2);
    // Only old blobs are deleted.
    sandbox
        .segno(&["sessions", "delete", "one", "--permanent", "--yes"])
        .expect_success();
    let blob = tree(&sandbox.home().join("blobs"));
    for path in blob.iter().filter(|path| path.is_file()) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }
    sandbox
        .segno(&["sessions", "trash", "--empty"])
        .expect_success();
    assert_eq!(blobs(&sandbox), 2);
    age_blobs(&sandbox);
    let output = sandbox
        .segno(&["sessions", "trash", "--empty"])
        .expect_success();
    assert!(
        output.stdout.contains("deleted 1 blob (300,000 bytes)"),
        "{}",
        output.stdout
    );
    assert_eq!(blobs(&sandbox), 1);
    sandbox.segno(&["show", "two"]).expect_success();
    let output = sandbox.segno(&["doctor"]).expect_success();
    assert!(!output.stdout.contains("note:"), "{}", output.stdout);
}

#[test]
fn cleanup_deletes_old_sessions_in_the_trash() {
    let sandbox = failed_session();
    sandbox
        .segno(&["sessions", "delete", "stuck"])
        .expect_success();
    sandbox.segno(&["sessions", "cleanup"]).expect_success();
    assert_eq!(trashed_names(&sandbox), ["stuck"]);
    sandbox.configure("[trash]\nkeep_days = 0\n");
    let output = sandbox
        .segno(&["sessions", "cleanup", "--dry-run"])
        .expect_success();
    assert!(
        output
            .stdout
            .contains("1 session would be deleted permanently"),
        "{}",
        output.stdout
    );
    assert_eq!(trashed_names(&sandbox), ["stuck"]);
    let output = sandbox
        .segno(&["sessions", "cleanup", "--json"])
        .expect_success();
    let line = &output.json()[0];
    assert_eq!(
        (&line["name"], &line["permanent"]),
        (&"stuck".into(), &true.into())
    );
    assert!(trashed_names(&sandbox).is_empty());
}

#[test]
fn auto_cleanup_runs_once_a_day() {
    let sandbox = failed_session();
    fix_answers(&sandbox);
    let settings = "[cleanup]\nmax_age_days = 0\nkeep_completed = false\n";
    sandbox.configure(settings);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "a"])
        .expect_success();
    assert_eq!(session_statuses(&sandbox).len(), 2, "nothing by itself");
    sandbox.configure(&format!("{settings}auto = true\n"));
    let output = sandbox
        .segno(&["run", "chain.yaml", "--name", "b"])
        .expect_success();
    assert!(
        output.stderr.contains(
            "note: cleaned up: 2 sessions moved to the trash (`segno sessions restore NAME`"
        ),
        "{}",
        output.stderr
    );
    assert_eq!(trashed_names(&sandbox).len(), 2);
    let output = sandbox
        .segno(&["run", "chain.yaml", "--name", "c"])
        .expect_success();
    assert!(!output.stderr.contains("cleaned up"), "{}", output.stderr);
    assert_eq!(
        session_statuses(&sandbox),
        [
            ("c".into(), "completed".into()),
            ("stuck".into(), "failed".into())
        ]
    );
    fs::write(sandbox.home().join("cleaned"), "1000\n").unwrap();
    let output = sandbox.segno(&["resume", "stuck"]).expect_success();
    assert!(
        output.stderr.contains("2 sessions moved"),
        "{}",
        output.stderr
    );
    assert!(session_statuses(&sandbox).is_empty());
    let output = sandbox.segno(&["doctor"]).expect_success();
    assert!(
        !output.stdout.contains("does not belong"),
        "{}",
        output.stdout
    );
}

#[test]
#[cfg(feature = "failpoints")]
fn killed_deletion_leaves_the_session_whole_or_gone() {
    for (words, now) in [
        (["sessions", "delete", "stuck"].as_slice(), false),
        (
            &["sessions", "delete", "stuck", "--permanent", "--yes"],
            true,
        ),
    ] {
        for point in ["journal.before_commit", "journal.after_commit"] {
            for visit in 1.. {
                let sandbox = failed_session();
                let mut command = sandbox.command(words);
                command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
                let output = segno_testkit::sandbox::run_to_end(command);
                if !output.crashed() {
                    output.expect_success();
                    assert!(visit > 1);
                    break;
                }
                let (listed, trashed) = (
                    session_statuses(&sandbox).len(),
                    trashed_names(&sandbox).len(),
                );
                assert!(listed + trashed <= 1, "{words:?} {point}:{visit}");
                assert!(now || listed + trashed == 1, "{words:?} {point}:{visit}");
                sandbox.segno(&["doctor"]).expect_success();
                if trashed == 1 {
                    sandbox
                        .segno(&["sessions", "restore", "stuck"])
                        .expect_success();
                }
                if listed + trashed == 1 {
                    fix_answers(&sandbox);
                    sandbox.segno(&["resume", "stuck"]).expect_success();
                }
            }
        }
    }
}
