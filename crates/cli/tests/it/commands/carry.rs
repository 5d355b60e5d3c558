//! Sessions that are carried elsewhere in a file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use segno_testkit::sandbox::{Said, Sandbox, finish};
use serde_json::Value;

use crate::commands::{
    failing_chain, keys, mend, scripted, standings, start_waiting, tidy, waiting_chain,
};
use crate::sandbox;

/// The binary with another home: another machine that has the same files.
fn elsewhere(sandbox: &Sandbox, words: &[&str]) -> Command {
    let mut command = sandbox.command(words);
    command.env("SEGNO_HOME", super::root(sandbox).join("elsewhere"));
    command
}

fn there(sandbox: &Sandbox, words: &[&str]) -> Said {
    finish(elsewhere(sandbox, words))
}

/// A session `stuck` that failed at its third step, exported to `stuck.segno`.
fn exported() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    sandbox.segno(&["sessions", "export", "stuck"]).good();
    sandbox
}

fn file(sandbox: &Sandbox) -> Vec<u8> {
    fs::read(sandbox.work().join("stuck.segno")).unwrap()
}

fn logs(said: &Said) -> Vec<Value> {
    said.json()
}

#[test]
fn a_session_goes_on_elsewhere_without_asking_again() {
    let sandbox = exported();
    let said = there(&sandbox, &["sessions", "import", "stuck.segno"]).good();
    insta::assert_snapshot!(tidy(&sandbox, &said.stdout), @r"
    imported stuck ([ID]), failed: 9 journal entries, 0 blobs
    `segno resume stuck` goes on
    ");
    let here = sandbox.segno(&["logs", "stuck", "--json"]).good();
    let copy = there(&sandbox, &["logs", "stuck", "--json"]).good();
    assert_eq!(logs(&here), logs(&copy));
    there(&sandbox, &["doctor"]).good();
    mend(&sandbox);
    let said = there(&sandbox, &["resume", "stuck"]).good();
    assert!(
        said.stderr.contains("resumed: 2 of 3 steps"),
        "{}",
        said.stderr
    );
    let calls = sandbox.calls();
    assert_eq!(calls, ["steps/0", "steps/1", "steps/2", "steps/2"]);
    there(&sandbox, &["doctor"]).good();
    assert_eq!(standings(&sandbox), [("stuck".into(), "failed".into())]);
}

#[test]
fn long_texts_travel_with_their_session() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x", "input: \"{{ steps[0].response | length }}\""],
        "answers: [{step: steps/1, fail: {kind: auth}}]\ndefault: {repeat: {text: \"ä\\n\", bytes: 3000000}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let said = sandbox
        .segno(&["sessions", "export", "chain", "--json"])
        .good();
    let line = &said.json()[0];
    insta::assert_snapshot!(keys(line), @"blobs bytes entries file kind name running session v");
    assert_eq!(
        (&line["blobs"], &line["running"]),
        (&1.into(), &false.into())
    );
    let said = there(&sandbox, &["sessions", "import", "chain.segno", "--json"]).good();
    insta::assert_snapshot!(keys(&said.json()[0]), @"blobs entries kind name session status v workspace");
    let said = there(&sandbox, &["doctor"]).good();
    assert!(said.stdout.contains("1 blob"), "{}", said.stdout);
    mend(&sandbox);
    there(&sandbox, &["resume", "chain"]).good();
}

#[test]
fn a_session_that_runs_is_exported_up_to_a_moment_and_stands_as_interrupted() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let said = sandbox.segno(&["sessions", "export", "chain"]).good();
    assert!(
        said.stderr.contains("chain is being run"),
        "{}",
        said.stderr
    );
    let said = there(&sandbox, &["sessions", "import", "chain.segno"]).good();
    assert!(said.stdout.contains("interrupted"), "{}", said.stdout);
    assert!(said.stderr.contains("was being run"), "{}", said.stderr);
    sandbox.write("go", "");
    live.finish().good();
    let before = sandbox.calls().len();
    fs::remove_dir_all(sandbox.work().join("artifacts")).unwrap();
    there(&sandbox, &["resume", "chain"]).good();
    assert_eq!(sandbox.calls()[before..], ["steps/1", "steps/2"]);
    there(&sandbox, &["doctor"]).good();
}

#[test]
fn an_export_is_private_and_replaces_nothing_unless_told() {
    let sandbox = exported();
    let path = sandbox.work().join("stuck.segno");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let before = file(&sandbox);
    sandbox
        .segno(&["sessions", "export", "stuck"])
        .refused(12, &["stuck.segno exists", "[F0205]", "--force"]);
    sandbox.write("other.segno", "mine");
    sandbox
        .segno(&["sessions", "export", "stuck", "-o", "other.segno"])
        .refused(12, &["[F0205]"]);
    assert_eq!(sandbox.read("other.segno"), "mine");
    sandbox
        .segno(&[
            "sessions",
            "export",
            "stuck",
            "-o",
            "other.segno",
            "--force",
        ])
        .good();
    assert_eq!(
        fs::read(sandbox.work().join("other.segno")).unwrap(),
        before
    );
    sandbox
        .segno(&["sessions", "export", "stuck", "-o", "no/such/folder"])
        .refused(12, &["cannot be written", "[F0205]"]);
    let left: Vec<_> = super::tree(&sandbox.work())
        .into_iter()
        .filter(|path| path.display().to_string().contains("draft"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_session_can_be_piped() {
    let sandbox = exported();
    let said = sandbox
        .segno(&["sessions", "export", "stuck", "-o", "-"])
        .good();
    assert_eq!(said.stdout.as_bytes(), file(&sandbox));
    assert!(
        said.stderr.contains("exported stuck to stdout"),
        "{}",
        said.stderr
    );
    let mut child = elsewhere(&sandbox, &["sessions", "import", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(said.stdout.as_bytes()).unwrap();
    drop(stdin);
    let said = segno_testkit::sandbox::wait(child).good();
    assert!(said.stdout.contains("imported stuck"), "{}", said.stdout);
    sandbox
        .segno(&["sessions", "export", "stuck", "-o", "-", "--json"])
        .refused(2, &["stdout"]);
}

#[test]
fn a_file_that_was_changed_or_cut_is_refused_by_name() {
    let sandbox = exported();
    let sound = file(&sandbox);
    let refused = |bytes: &[u8]| {
        fs::write(sandbox.work().join("bad.segno"), bytes).unwrap();
        let said = there(&sandbox, &["sessions", "import", "bad.segno"]);
        let newer = said.stderr.contains("[F0103]");
        said.refused(if newer { 12 } else { 23 }, &["bad.segno"]);
    };
    for at in (0..sound.len()).step_by(sound.len() / 100) {
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        refused(&flipped);
        refused(&sound[..at]);
    }
    refused(&sound[..sound.len() - 1]);
    assert_eq!(
        there(&sandbox, &["sessions", "list", "--all", "--json"])
            .good()
            .stdout,
        ""
    );
    let blobs = super::root(&sandbox).join("elsewhere/blobs");
    assert!(super::tree(&blobs).is_empty(), "nothing was written");
    sandbox.write("words.txt", "hello\n");
    there(&sandbox, &["sessions", "import", "words.txt"])
        .refused(23, &["words.txt", "not an exported session", "[F0204]"]);
    there(&sandbox, &["sessions", "import", "nothing.segno"])
        .refused(12, &["nothing.segno", "[F0201]"]);
}

#[test]
fn a_session_that_is_here_is_not_imported_again() {
    let sandbox = exported();
    let import = |words: &[&str]| {
        sandbox
            .segno(&["sessions", "import", "stuck.segno"])
            .refused(17, &[&["stuck", "[S0113]"], words].concat());
    };
    import(&["the same journal", "nothing to import"]);
    // The copy goes on elsewhere: the file has all of it, and more.
    mend(&sandbox);
    there(&sandbox, &["sessions", "import", "stuck.segno"]).good();
    there(&sandbox, &["resume", "stuck"]).good();
    let older = file(&sandbox);
    there(&sandbox, &["sessions", "export", "stuck", "--force"]).good();
    import(&["the file goes on to entry", "--now", "import again"]);
    let newer = file(&sandbox);
    // Here it goes another way.
    sandbox.segno(&["resume", "stuck"]).good();
    import(&["went another way"]);
    fs::write(sandbox.work().join("stuck.segno"), older).unwrap();
    import(&["only the first 9", "nothing to import"]);
    sandbox.segno(&["sessions", "delete", "stuck"]).good();
    import(&["in the trash", "segno sessions restore"]);
    sandbox
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .good();
    fs::write(sandbox.work().join("stuck.segno"), newer).unwrap();
    sandbox.segno(&["sessions", "import", "stuck.segno"]).good();
    assert_eq!(standings(&sandbox), [("stuck".into(), "completed".into())]);
}

#[test]
fn a_name_that_is_taken_is_numbered_unless_it_was_given() {
    let sandbox = exported();
    mend(&sandbox);
    there(&sandbox, &["run", "chain.yaml", "--name", "stuck"]).good();
    there(
        &sandbox,
        &["sessions", "import", "stuck.segno", "--name", "stuck"],
    )
    .refused(17, &["[S0102]"]);
    let said = there(&sandbox, &["sessions", "import", "stuck.segno"]).good();
    assert!(
        said.stdout.contains("`segno resume stuck-2`"),
        "{}",
        said.stdout
    );
    let said = there(&sandbox, &["resume", "stuck-2"]).good();
    assert!(said.stderr.contains("completed stuck-2"), "{}", said.stderr);
}

#[test]
#[cfg(feature = "failpoints")]
fn an_import_that_is_killed_leaves_nothing_or_the_whole_session() {
    use segno_core::fault::Point;
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x", "input: y"],
        "answers: [{step: steps/1, fail: {kind: auth}}]\ndefault: {repeat: {text: x, bytes: 300000}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    sandbox.segno(&["sessions", "export", "chain"]).good();
    let mut kills = 0;
    for point in Point::ALL {
        for visit in 1.. {
            let home = super::root(&sandbox).join("elsewhere");
            let _ = fs::remove_dir_all(&home);
            let mut command = elsewhere(&sandbox, &["sessions", "import", "chain.segno"]);
            command.env("SEGNO_FAILPOINT", format!("{}:{visit}", point.name()));
            let said = finish(command);
            if !said.crashed() {
                said.good();
                break;
            }
            kills += 1;
            let place = format!("{}:{visit}", point.name());
            there(&sandbox, &["doctor"]).good();
            let listed = there(&sandbox, &["sessions", "list", "--json"]).good();
            let again = there(&sandbox, &["sessions", "import", "chain.segno"]);
            match listed.json().len() {
                0 => drop(again.good()),
                1 => drop(again.refused(17, &["the same journal"])),
                more => panic!("{place}: {more} sessions"),
            }
            let shown = there(&sandbox, &["sessions", "show", "chain", "--json"]).good();
            assert_eq!(shown.json()[0]["steps_finished"], 1, "{place}");
            there(&sandbox, &["doctor"]).good();
        }
    }
    assert!(kills >= 7, "{kills} kills");
}
