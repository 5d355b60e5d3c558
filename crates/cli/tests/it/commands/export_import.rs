//! Sessions that are transferred in a file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use crate::commands::{
    failing_chain, fix_answers, keys, normalize, scripted, session_statuses, start_waiting,
    waiting_chain,
};
use crate::sandbox;

/// The binary with another home: another machine that has the same files.
fn command_elsewhere(sandbox: &Sandbox, words: &[&str]) -> Command {
    let mut command = sandbox.command(words);
    command.env("SEGNO_HOME", super::root(sandbox).join("elsewhere"));
    command
}

fn run_elsewhere(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    run_to_end(command_elsewhere(sandbox, words))
}

/// A session `stuck` that failed at its third step, exported to `stuck.segno`.
fn exported_session() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    sandbox
        .segno(&["sessions", "export", "stuck"])
        .expect_success();
    sandbox
}

fn file(sandbox: &Sandbox) -> Vec<u8> {
    fs::read(sandbox.work().join("stuck.segno")).unwrap()
}

fn logs(output: &ProcessOutput) -> Vec<Value> {
    output.json()
}

#[test]
fn imported_session_resumes_without_repeating_steps() {
    let sandbox = exported_session();
    let output = run_elsewhere(&sandbox, &["sessions", "import", "stuck.segno"]).expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    imported stuck ([ID]), failed: 9 events, 0 blobs
    resume it with `segno resume stuck`
    ");
    let here = sandbox.segno(&["logs", "stuck", "--json"]).expect_success();
    let copy = run_elsewhere(&sandbox, &["logs", "stuck", "--json"]).expect_success();
    assert_eq!(logs(&here), logs(&copy));
    run_elsewhere(&sandbox, &["doctor"]).expect_success();
    fix_answers(&sandbox);
    let output = run_elsewhere(&sandbox, &["resume", "stuck"]).expect_success();
    assert!(
        output.stderr.contains("resumed: 2 of 3 steps"),
        "{}",
        output.stderr
    );
    let calls = sandbox.calls();
    assert_eq!(calls, ["steps/0", "steps/1", "steps/2", "steps/2"]);
    run_elsewhere(&sandbox, &["doctor"]).expect_success();
    assert_eq!(
        session_statuses(&sandbox),
        [("stuck".into(), "failed".into())]
    );
}

#[test]
fn long_texts_are_exported_with_their_session() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x", "input: \"{{ steps[0].response | length }}\""],
        "answers: [{step: steps/1, fail: {kind: auth}}]\ndefault: {repeat: {text: \"ä\\n\", bytes: 3000000}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let output = sandbox
        .segno(&["sessions", "export", "chain", "--json"])
        .expect_success();
    let line = &output.json()[0];
    insta::assert_snapshot!(keys(line), @"blobs bytes events file kind name running session v");
    assert_eq!(
        (&line["blobs"], &line["running"]),
        (&1.into(), &false.into())
    );
    let output =
        run_elsewhere(&sandbox, &["sessions", "import", "chain.segno", "--json"]).expect_success();
    insta::assert_snapshot!(keys(&output.json()[0]), @"blobs events kind name session status v workspace");
    let output = run_elsewhere(&sandbox, &["doctor"]).expect_success();
    assert!(output.stdout.contains("1 blob"), "{}", output.stdout);
    fix_answers(&sandbox);
    run_elsewhere(&sandbox, &["resume", "chain"]).expect_success();
}

#[test]
fn export_of_a_running_session_imports_as_interrupted() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let output = sandbox
        .segno(&["sessions", "export", "chain"])
        .expect_success();
    assert!(
        output.stderr.contains("chain is running"),
        "{}",
        output.stderr
    );
    let output = run_elsewhere(&sandbox, &["sessions", "import", "chain.segno"]).expect_success();
    assert!(output.stdout.contains("interrupted"), "{}", output.stdout);
    assert!(output.stderr.contains("was running"), "{}", output.stderr);
    sandbox.write("go", "");
    live.finish().expect_success();
    let before = sandbox.calls().len();
    fs::remove_dir_all(sandbox.work().join("artifacts")).unwrap();
    run_elsewhere(&sandbox, &["resume", "chain"]).expect_success();
    assert_eq!(sandbox.calls()[before..], ["steps/1", "steps/2"]);
    run_elsewhere(&sandbox, &["doctor"]).expect_success();
}

#[test]
fn export_is_private_and_needs_force_to_replace() {
    let sandbox = exported_session();
    let path = sandbox.work().join("stuck.segno");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let before = file(&sandbox);
    sandbox
        .segno(&["sessions", "export", "stuck"])
        .refused(12, &["stuck.segno already exists", "[F0205]", "--force"]);
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
        .expect_success();
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
fn session_can_be_exported_through_a_pipe() {
    let sandbox = exported_session();
    let output = sandbox
        .segno(&["sessions", "export", "stuck", "-o", "-"])
        .expect_success();
    assert_eq!(output.stdout.as_bytes(), file(&sandbox));
    assert!(
        output.stderr.contains("exported stuck to stdout"),
        "{}",
        output.stderr
    );
    let mut child = command_elsewhere(&sandbox, &["sessions", "import", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(output.stdout.as_bytes()).unwrap();
    drop(stdin);
    let output = segno_testkit::sandbox::wait_for_output(child).expect_success();
    assert!(
        output.stdout.contains("imported stuck"),
        "{}",
        output.stdout
    );
    sandbox
        .segno(&["sessions", "export", "stuck", "-o", "-", "--json"])
        .refused(2, &["stdout"]);
}

#[test]
fn changed_or_truncated_file_is_refused_by_name() {
    let sandbox = exported_session();
    let sound = file(&sandbox);
    let refused = |bytes: &[u8]| {
        fs::write(sandbox.work().join("bad.segno"), bytes).unwrap();
        let output = run_elsewhere(&sandbox, &["sessions", "import", "bad.segno"]);
        let newer = output.stderr.contains("[F0103]");
        output.refused(if newer { 12 } else { 23 }, &["bad.segno"]);
    };
    for at in (0..sound.len()).step_by(sound.len() / 100) {
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        refused(&flipped);
        refused(&sound[..at]);
    }
    refused(&sound[..sound.len() - 1]);
    assert_eq!(
        run_elsewhere(&sandbox, &["sessions", "list", "--all", "--json"])
            .expect_success()
            .stdout,
        ""
    );
    let blobs = super::root(&sandbox).join("elsewhere/blobs");
    assert!(super::tree(&blobs).is_empty(), "nothing was written");
    sandbox.write("words.txt", "hello\n");
    run_elsewhere(&sandbox, &["sessions", "import", "words.txt"])
        .refused(23, &["words.txt", "not an exported session", "[F0204]"]);
    run_elsewhere(&sandbox, &["sessions", "import", "nothing.segno"])
        .refused(12, &["nothing.segno", "[F0201]"]);
}

#[test]
fn existing_session_is_not_imported_again() {
    let sandbox = exported_session();
    let import = |words: &[&str]| {
        sandbox
            .segno(&["sessions", "import", "stuck.segno"])
            .refused(17, &[&["stuck", "[S0113]"], words].concat());
    };
    import(&["the same journal", "nothing needs to be imported"]);
    // The copy is resumed elsewhere: its export has everything of the original, and more.
    fix_answers(&sandbox);
    run_elsewhere(&sandbox, &["sessions", "import", "stuck.segno"]).expect_success();
    run_elsewhere(&sandbox, &["resume", "stuck"]).expect_success();
    let older = file(&sandbox);
    run_elsewhere(&sandbox, &["sessions", "export", "stuck", "--force"]).expect_success();
    import(&["the file continues to event", "--permanent", "import again"]);
    let newer = file(&sandbox);
    // Here the session continues differently.
    sandbox.segno(&["resume", "stuck"]).expect_success();
    import(&["has diverged from"]);
    fs::write(sandbox.work().join("stuck.segno"), older).unwrap();
    import(&["only the first 9", "nothing needs to be imported"]);
    sandbox
        .segno(&["sessions", "delete", "stuck"])
        .expect_success();
    import(&["in the trash", "segno sessions restore"]);
    sandbox
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .expect_success();
    fs::write(sandbox.work().join("stuck.segno"), newer).unwrap();
    sandbox
        .segno(&["sessions", "import", "stuck.segno"])
        .expect_success();
    assert_eq!(
        session_statuses(&sandbox),
        [("stuck".into(), "completed".into())]
    );
}

#[test]
fn taken_name_gets_a_number_unless_it_was_given() {
    let sandbox = exported_session();
    fix_answers(&sandbox);
    run_elsewhere(&sandbox, &["run", "chain.yaml", "--name", "stuck"]).expect_success();
    run_elsewhere(
        &sandbox,
        &["sessions", "import", "stuck.segno", "--name", "stuck"],
    )
    .refused(17, &["[S0102]"]);
    let output = run_elsewhere(&sandbox, &["sessions", "import", "stuck.segno"]).expect_success();
    assert!(
        output.stdout.contains("`segno resume stuck-2`"),
        "{}",
        output.stdout
    );
    let output = run_elsewhere(&sandbox, &["resume", "stuck-2"]).expect_success();
    assert!(
        output.stderr.contains("completed stuck-2"),
        "{}",
        output.stderr
    );
}

#[test]
#[cfg(feature = "failpoints")]
fn killed_import_leaves_nothing_or_the_whole_session() {
    use segno_core::fault::Point;
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x", "input: y"],
        "answers: [{step: steps/1, fail: {kind: auth}}]\ndefault: {repeat: {text: x, bytes: 300000}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    sandbox
        .segno(&["sessions", "export", "chain"])
        .expect_success();
    let mut kills = 0;
    for point in Point::ALL {
        for visit in 1.. {
            let home = super::root(&sandbox).join("elsewhere");
            let _ = fs::remove_dir_all(&home);
            let mut command = command_elsewhere(&sandbox, &["sessions", "import", "chain.segno"]);
            command.env("SEGNO_FAILPOINT", format!("{}:{visit}", point.name()));
            let output = run_to_end(command);
            if !output.crashed() {
                output.expect_success();
                break;
            }
            kills += 1;
            let failpoint = format!("{}:{visit}", point.name());
            run_elsewhere(&sandbox, &["doctor"]).expect_success();
            let listed = run_elsewhere(&sandbox, &["sessions", "list", "--json"]).expect_success();
            let again = run_elsewhere(&sandbox, &["sessions", "import", "chain.segno"]);
            match listed.json().len() {
                0 => drop(again.expect_success()),
                1 => drop(again.refused(17, &["the same journal"])),
                more => panic!("{failpoint}: {more} sessions"),
            }
            let shown = run_elsewhere(&sandbox, &["show", "chain", "--json"]).expect_success();
            assert_eq!(shown.json()[0]["steps_finished"], 1, "{failpoint}");
            run_elsewhere(&sandbox, &["doctor"]).expect_success();
        }
    }
    assert!(kills >= 7, "{kills} kills");
}
