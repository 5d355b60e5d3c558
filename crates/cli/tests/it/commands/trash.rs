//! What is deleted can be had back, until it goes for good (P8).

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use segno_testkit::sandbox::Sandbox;

use crate::commands::{failing_chain, keys, mend, scripted, standings, tidy, tree};
use crate::sandbox;

/// A session that failed and can go on.
fn stuck() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    sandbox
}

/// A completed session with an answer that is kept as a blob.
fn with_blob(sandbox: &Sandbox, name: &str, text: &str) {
    scripted(
        sandbox,
        &["input: x"],
        &format!("default: {{repeat: {{text: {text}, bytes: 300000}}}}"),
    );
    sandbox.segno(&["run", "chain.yaml", "--name", name]).good();
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

fn trash(sandbox: &Sandbox) -> Vec<String> {
    let said = sandbox.segno(&["sessions", "trash", "--json"]).good();
    let name = |line: &serde_json::Value| line["name"].as_str().unwrap_or("?").to_owned();
    said.json().iter().map(name).collect()
}

#[test]
fn a_deleted_session_disappears_and_can_be_had_back() {
    let sandbox = stuck();
    let said = sandbox.segno(&["sessions", "delete", "stuck"]).good();
    insta::assert_snapshot!(tidy(&sandbox, &said.stdout), @r"
    moved stuck ([ID]), failed, 9 journal entries to the trash
    `segno sessions restore stuck` brings it back
    ");
    assert!(standings(&sandbox).is_empty());
    let status = sandbox.segno(&["status"]).good().stdout;
    assert!(!status.contains("stuck"), "{status}");
    sandbox.segno(&["resume"]).refused(17, &["[S0106]"]);
    for words in [
        ["resume", "stuck"].as_slice(),
        &["sessions", "show", "stuck"],
        &["logs", "stuck"],
        &["cancel", "stuck"],
    ] {
        sandbox
            .segno(words)
            .refused(17, &["[S0111]", "segno sessions restore stuck"]);
    }
    sandbox.segno(&["doctor"]).good();
    let said = sandbox.segno(&["sessions", "restore", "stuck"]).good();
    insta::assert_snapshot!(tidy(&sandbox, &said.stdout), @"restored stuck ([ID])");
    mend(&sandbox);
    sandbox.segno(&["resume", "stuck"]).good();
    let calls = sandbox.calls();
    assert_eq!(calls.iter().filter(|call| *call == "steps/0").count(), 1);
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn the_trash_says_what_is_in_it_and_when_it_goes() {
    let sandbox = stuck();
    let said = sandbox.segno(&["sessions", "trash"]).good();
    assert_eq!(said.stdout, "the trash is empty\n");
    sandbox.segno(&["sessions", "delete", "stuck"]).good();
    let said = sandbox.segno(&["sessions", "trash"]).good();
    let table = tidy(&sandbox, &said.stdout);
    assert!(
        table.starts_with("NAME  STATUS  DELETED  GOES FOR GOOD  ID\nstuck  failed  [TOOK] ago  in 6 d 23 h  [ID]\n"),
        "{table}"
    );
    let said = sandbox.segno(&["sessions", "trash", "--json"]).good();
    insta::assert_snapshot!(keys(&said.json()[0]), @"deleted_at entries kind name session status until v");
    sandbox
        .segno(&["sessions", "restore", "nobody"])
        .refused(17, &["nobody", "[S0112]"]);
}

#[test]
fn a_name_in_the_trash_is_free_and_numbered_when_it_comes_back() {
    let sandbox = stuck();
    let id = super::shown(&sandbox, "stuck")["session"].clone();
    sandbox.segno(&["sessions", "delete", "stuck"]).good();
    mend(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .good();
    assert_eq!(standings(&sandbox), [("stuck".into(), "completed".into())]);
    sandbox
        .segno(&["sessions", "restore", "stuck", "--name", "stuck"])
        .refused(17, &["stuck", "[S0102]"]);
    let said = sandbox
        .segno(&["sessions", "restore", "stuck", "--json"])
        .good();
    assert_eq!(said.json()[0]["name"], "stuck-2");
    let shown = super::shown(&sandbox, "stuck-2");
    assert_eq!(shown["session"], id);
    let said = sandbox.segno(&["resume", "stuck-2"]).good();
    assert!(said.stderr.contains("completed stuck-2"), "{}", said.stderr);
}

#[test]
fn nothing_goes_for_good_without_a_yes() {
    let sandbox = stuck();
    sandbox
        .segno(&["sessions", "delete", "stuck", "--now"])
        .refused(2, &["stuck", "--yes", "--dry-run"]);
    assert_eq!(standings(&sandbox).len(), 1);
    sandbox.segno(&["sessions", "delete", "stuck"]).good();
    sandbox
        .segno(&["sessions", "trash", "--empty"])
        .refused(2, &["1 session in the trash", "--yes"]);
    let said = sandbox
        .segno(&["sessions", "trash", "--empty", "--dry-run"])
        .good();
    assert!(
        said.stdout.contains("would delete 1 session"),
        "{}",
        said.stdout
    );
    assert_eq!(trash(&sandbox), ["stuck"]);
    sandbox
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .good();
    assert!(trash(&sandbox).is_empty());
    sandbox
        .segno(&["sessions", "restore", "stuck"])
        .refused(17, &["[S0112]"]);
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn what_is_in_the_trash_can_be_deleted_for_good_by_itself() {
    let sandbox = stuck();
    sandbox.segno(&["sessions", "delete", "stuck"]).good();
    sandbox
        .segno(&["sessions", "delete", "stuck", "--now", "--yes"])
        .good();
    assert!(trash(&sandbox).is_empty());
    sandbox
        .segno(&["sessions", "show", "stuck"])
        .refused(17, &["[S0101]"]);
}

#[test]
fn blobs_go_when_nothing_refers_to_them_and_they_are_old() {
    let sandbox = sandbox();
    with_blob(&sandbox, "one", "alpha");
    with_blob(&sandbox, "two", "beta");
    assert_eq!(blobs(&sandbox), 2);
    sandbox.segno(&["sessions", "delete", "one"]).good();
    age_blobs(&sandbox);
    // The trash still refers to it.
    sandbox.segno(&["sessions", "cleanup"]).good();
    assert_eq!(blobs(&sandbox), 2);
    // Only what is old is swept.
    sandbox
        .segno(&["sessions", "delete", "one", "--now", "--yes"])
        .good();
    let blob = tree(&sandbox.home().join("blobs"));
    for path in blob.iter().filter(|path| path.is_file()) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }
    sandbox.segno(&["sessions", "trash", "--empty"]).good();
    assert_eq!(blobs(&sandbox), 2);
    age_blobs(&sandbox);
    let said = sandbox.segno(&["sessions", "trash", "--empty"]).good();
    assert!(
        said.stdout.contains("removed 1 blob (300,000 bytes)"),
        "{}",
        said.stdout
    );
    assert_eq!(blobs(&sandbox), 1);
    sandbox.segno(&["sessions", "show", "two"]).good();
    let said = sandbox.segno(&["doctor"]).good();
    assert!(!said.stdout.contains("note:"), "{}", said.stdout);
}

#[test]
fn cleanup_empties_the_trash_of_what_is_old() {
    let sandbox = stuck();
    sandbox.segno(&["sessions", "delete", "stuck"]).good();
    sandbox.segno(&["sessions", "cleanup"]).good();
    assert_eq!(trash(&sandbox), ["stuck"]);
    sandbox.configure("[trash]\nkeep_days = 0\n");
    let said = sandbox.segno(&["sessions", "cleanup", "--dry-run"]).good();
    assert!(
        said.stdout.contains("1 session would be deleted for good"),
        "{}",
        said.stdout
    );
    assert_eq!(trash(&sandbox), ["stuck"]);
    let said = sandbox.segno(&["sessions", "cleanup", "--json"]).good();
    let line = &said.json()[0];
    assert_eq!(
        (&line["name"], &line["for_good"]),
        (&"stuck".into(), &true.into())
    );
    assert!(trash(&sandbox).is_empty());
}

#[test]
fn a_run_cleans_up_once_a_day_if_the_person_wants_it() {
    let sandbox = stuck();
    mend(&sandbox);
    let settings = "[cleanup]\nmax_age_days = 0\nkeep_completed = false\n";
    sandbox.configure(settings);
    sandbox.segno(&["run", "chain.yaml", "--name", "a"]).good();
    assert_eq!(standings(&sandbox).len(), 2, "nothing by itself");
    sandbox.configure(&format!("{settings}auto = true\n"));
    let said = sandbox.segno(&["run", "chain.yaml", "--name", "b"]).good();
    assert!(
        said.stderr.contains(
            "note: cleaned up: 2 sessions moved to the trash (`segno sessions restore NAME`"
        ),
        "{}",
        said.stderr
    );
    assert_eq!(trash(&sandbox).len(), 2);
    let said = sandbox.segno(&["run", "chain.yaml", "--name", "c"]).good();
    assert!(!said.stderr.contains("cleaned up"), "{}", said.stderr);
    assert_eq!(
        standings(&sandbox),
        [
            ("c".into(), "completed".into()),
            ("stuck".into(), "failed".into())
        ]
    );
    fs::write(sandbox.home().join("cleaned"), "1000\n").unwrap();
    let said = sandbox.segno(&["resume", "stuck"]).good();
    assert!(said.stderr.contains("2 sessions moved"), "{}", said.stderr);
    assert!(standings(&sandbox).is_empty());
    let said = sandbox.segno(&["doctor"]).good();
    assert!(!said.stdout.contains("does not belong"), "{}", said.stdout);
}

#[test]
#[cfg(feature = "failpoints")]
fn a_deletion_that_is_killed_leaves_the_session_whole_or_gone() {
    for (words, now) in [
        (["sessions", "delete", "stuck"].as_slice(), false),
        (&["sessions", "delete", "stuck", "--now", "--yes"], true),
    ] {
        for point in ["journal.before_commit", "journal.after_commit"] {
            for visit in 1.. {
                let sandbox = stuck();
                let mut command = sandbox.command(words);
                command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
                let said = segno_testkit::sandbox::finish(command);
                if !said.crashed() {
                    said.good();
                    assert!(visit > 1);
                    break;
                }
                let (listed, thrown) = (standings(&sandbox).len(), trash(&sandbox).len());
                assert!(listed + thrown <= 1, "{words:?} {point}:{visit}");
                assert!(now || listed + thrown == 1, "{words:?} {point}:{visit}");
                sandbox.segno(&["doctor"]).good();
                if thrown == 1 {
                    sandbox.segno(&["sessions", "restore", "stuck"]).good();
                }
                if listed + thrown == 1 {
                    mend(&sandbox);
                    sandbox.segno(&["resume", "stuck"]).good();
                }
            }
        }
    }
}
