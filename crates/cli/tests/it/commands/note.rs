use super::{Live, keys, shown, start_waiting, waiting_chain};
use crate::sandbox;
use rustix::process::Signal;
use segno_testkit::sandbox::{Sandbox, until};
use serde_json::{Value, json};

/// The memos of a session, as they are listed.
fn listed(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    let words = [&["note", "list", "--json"], more].concat();
    sandbox.segno(&words).good().json()
}

/// A session with nothing to do any more.
fn done(sandbox: &Sandbox) {
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).good();
}

#[test]
fn what_a_person_notes_is_kept_with_its_session_and_has_a_name() {
    let sandbox = sandbox();
    done(&sandbox);
    let said = sandbox.segno(&[
        "note",
        "decision",
        "Use SQLite",
        "--type",
        "library",
        "--why",
        "one file",
        "--alternative",
        "PostgreSQL",
        "-a",
        "files",
    ]);
    assert_eq!(said.good().stdout.trim(), "noted in chain as d1");
    let error = [
        "note",
        "error",
        "cannot link",
        "-t",
        "build",
        "--session",
        "chain",
        "--json",
    ];
    let line = sandbox.segno(&error).good().json().remove(0);
    assert_eq!(keys(&line), "kind memos name session v waits_for_run");
    assert_eq!(line["memos"], json!(["e1"]));
    let feedback = [
        "note",
        "feedback",
        "security",
        "-c",
        "escape it",
        "-c",
        "and that",
    ];
    sandbox.segno(&feedback).good();
    sandbox.segno(&["note", "todo", "write the docs"]).good();
    let tests = [
        "note",
        "tests",
        "cargo test",
        "-p",
        "red",
        "-f",
        "a::b",
        "-e",
        "a::c",
    ];
    sandbox.segno(&tests).good();
    let memos = listed(&sandbox, &[]);
    let ids: Vec<&Value> = memos.iter().map(|memo| &memo["id"]).collect();
    assert_eq!(json!(ids), json!(["d1", "e1", "f1", "t1", null]));
    assert_eq!(
        memos[0]["memo"]["decision"],
        json!({"matter": "library", "text": "Use SQLite", "why": "one file", "alternatives": ["PostgreSQL", "files"]})
    );
    assert_eq!(memos[0]["source"], "person");
    assert_eq!(memos[4]["memo"]["tests"]["expected"], json!(["a::c"]));
    let table = sandbox.segno(&["note", "list"]).good().stdout;
    assert!(table.starts_with("MEMO  FROM"), "{table}");
    assert!(table.contains("error (unresolved): cannot link"), "{table}");
    for (memo, lines) in [
        (
            "d1",
            "memo       d1 of chain\ndecision   Use SQLite\nabout      library\nwhy        one file\nnot chosen PostgreSQL\nnot chosen files\nfrom       ",
        ),
        (
            "e1",
            "memo       e1 of chain\nerror      cannot link\ntype       build\nresolution unresolved\nfrom       ",
        ),
        (
            "f1",
            "memo       f1 of chain\nfeedback   security objects\nseverity   minor\ncomment    escape it\ncomment    and that\naddressed  no\nfrom       ",
        ),
        (
            "t1",
            "memo       t1 of chain\ntodo       write the docs\nprogress   pending\nfrom       ",
        ),
    ] {
        let whole = sandbox.segno(&["note", "show", memo]).good().stdout;
        assert!(whole.starts_with(lines), "{whole}");
        let shown = sandbox.segno(&["note", "show", memo, "--json"]).good();
        assert!(memos.contains(&shown.json()[0]), "{memo}");
    }
    sandbox
        .segno(&["note", "show", "d7", "--session", "chain"])
        .refused(2, &["[R0150]", "d7", "these hold: d1"]);
    // Where the session stands does not change, and its journal stays whole.
    assert_eq!(shown(&sandbox, "chain")["status"], "completed");
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_memo_is_corrected_and_withdrawn_and_what_was_first_stays_in_the_journal() {
    let sandbox = sandbox();
    done(&sandbox);
    sandbox.segno(&["note", "decision", "Use SQLite"]).good();
    sandbox.segno(&["note", "decision", "Use Rust"]).good();
    sandbox.segno(&["note", "error", "cannot link"]).good();
    let words = [
        "note",
        "correct",
        "d1",
        "--text",
        "Use PostgreSQL",
        "--why",
        "many writers",
    ];
    assert_eq!(
        sandbox.segno(&words).good().stdout.trim(),
        "noted in chain as d1"
    );
    sandbox
        .segno(&["note", "correct", "e1", "--resolution", "fixed"])
        .good();
    sandbox
        .segno(&["note", "withdraw", "d2", "--reason", "no choice"])
        .good();
    let memos = listed(&sandbox, &["--sort", "decision"]);
    assert_eq!(memos.len(), 1);
    assert_eq!(memos[0]["memo"]["decision"]["text"], "Use PostgreSQL");
    assert_eq!(memos[0]["corrected"], true);
    let whole = sandbox.segno(&["note", "show", "d2"]).good().stdout;
    assert!(whole.contains("\nwithdrawn  "), "{whole}");
    assert!(whole.contains("no choice"), "{whole}");
    let all = listed(&sandbox, &["--all"]);
    assert!(
        all[1]["withdrawn"]
            .as_str()
            .unwrap()
            .ends_with(": no choice")
    );
    assert_eq!(all[2]["memo"]["error"]["resolution"], "fixed");
    let journal = sandbox.segno(&["logs", "chain"]).good().stdout;
    assert!(journal.contains("decision: Use SQLite"), "{journal}");
    // A number is not used again.
    let third = sandbox.segno(&["note", "decision", "Use make"]).good();
    assert_eq!(third.stdout.trim(), "noted in chain as d3");
}

#[test]
fn a_memo_for_a_session_that_is_being_run_reaches_its_journal() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let said = sandbox.segno(&["note", "decision", "Use SQLite"]).good();
    assert_eq!(
        said.stdout.trim(),
        "noted for chain; its run takes it into the journal"
    );
    // It counts from the moment on that it was noted.
    assert_eq!(listed(&sandbox, &[])[0]["id"], "d1");
    until("the run takes it", || live.stderr().contains("Use SQLite"));
    sandbox.write("go", "");
    live.finish().good();
    let journal = sandbox.segno(&["logs", "chain", "--json"]).good().json();
    let written = journal
        .iter()
        .filter(|line| line["kind"] == "memos_written");
    assert_eq!(written.count(), 1);
    assert_eq!(listed(&sandbox, &[]).len(), 1);
}

#[test]
fn a_memo_that_waited_while_its_run_was_killed_is_taken_once() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    // Stopped, it cannot take anything; then it is killed.
    live.signal(Signal::STOP);
    sandbox.segno(&["note", "todo", "look at it"]).good();
    live.kill();
    assert_eq!(listed(&sandbox, &[])[0]["id"], "t1");
    // Between runs, what waited comes first.
    let second = sandbox.segno(&["note", "todo", "and that"]).good();
    assert_eq!(second.stdout.trim(), "noted in chain as t2");
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).good();
    let texts: Vec<Value> = listed(&sandbox, &[])
        .into_iter()
        .map(|memo| memo["memo"]["todo"]["text"].clone())
        .collect();
    assert_eq!(texts, ["look at it", "and that"]);
}

#[test]
fn many_notes_at_once_are_all_kept() {
    let sandbox = sandbox();
    done(&sandbox);
    let all: Vec<Live> = (0..8)
        .map(|n| Live::start(&sandbox, &["note", "todo", &format!("thing {n}")]))
        .collect();
    for one in all {
        one.finish().good();
    }
    sandbox.segno(&["note", "todo", "last"]).good();
    let memos = listed(&sandbox, &[]);
    assert_eq!(memos.len(), 9);
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_copy_of_a_session_knows_what_was_noted_under_the_same_names() {
    let sandbox = sandbox();
    done(&sandbox);
    sandbox.segno(&["note", "decision", "Use SQLite"]).good();
    sandbox.segno(&["note", "decision", "Use Rust"]).good();
    sandbox.segno(&["note", "withdraw", "d1"]).good();
    sandbox
        .segno(&["sessions", "fork", "chain", "--name", "copy"])
        .good();
    let memos = listed(&sandbox, &["copy"]);
    assert_eq!(memos.len(), 1);
    assert_eq!(
        (&memos[0]["id"], &memos[0]["memo"]["decision"]["text"]),
        (&json!("d2"), &json!("Use Rust"))
    );
}

#[test]
fn a_step_that_failed_for_good_is_an_error_until_it_is_done() {
    let sandbox = sandbox();
    sandbox.command_chain(
        1,
        "test -e there || { echo nothing there >&2; exit 1; }\necho ok",
    );
    let said = sandbox.segno(&["run", "chain.yaml"]);
    assert_eq!(said.code(), 10, "{}", said.stderr);
    let errors = listed(&sandbox, &[]);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["id"], Value::Null);
    let error = &errors[0]["memo"]["error"];
    assert_eq!(error["resolution"], "unresolved");
    assert_eq!(error["subject"], "step steps/0");
    sandbox.write("there", "");
    sandbox.segno(&["resume", "chain"]).good();
    let errors = listed(&sandbox, &[]);
    assert_eq!(errors[0]["memo"]["error"]["resolution"], "fixed");
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_is_kept() {
    let sandbox = sandbox();
    let nowhere = sandbox.segno(&["note", "todo", "x"]);
    nowhere.refused(2, &["no session works in", "hint:"]);
    done(&sandbox);
    sandbox.segno(&["note", "decision", "Use SQLite"]).good();
    let before = sandbox.segno(&["logs", "chain", "--json"]).good().stdout;
    for (words, code, told) in [
        (&["note", "todo", "  "][..], 2, "[R0152]"),
        (&["note", "withdraw", "d9"], 2, "these hold: d1"),
        (&["note", "withdraw", "e1"], 2, "[R0150]"),
        (
            &["note", "withdraw", "x1"],
            2,
            "memos are called d1, e2, f3 or t4",
        ),
        (&["note", "correct", "d1"], 2, "required"),
        (&["note", "correct", "d9", "--why", "x"], 2, "[R0150]"),
        (
            &["note", "correct", "d1", "--progress", "done"],
            2,
            "which has no `--progress`",
        ),
        (
            &["note", "decision", "x", "--type", "mood"],
            2,
            "clarification",
        ),
        (&["note", "todo", "x", "--session", "other"], 17, "other"),
        (&["note", "todo", "x", "--step", "a//b"], 2, "a//b"),
    ] {
        sandbox.segno(words).refused(code, &[told]);
    }
    let after = sandbox.segno(&["logs", "chain", "--json"]).good().stdout;
    assert_eq!(before, after);
}

#[test]
fn a_long_memo_is_cut_and_a_secret_in_it_is_hidden() {
    let sandbox = sandbox();
    done(&sandbox);
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let long = format!("{} {secret}", "x".repeat(1990));
    sandbox
        .segno(&["note", "decision", &long, "--why", secret])
        .good();
    let memos = listed(&sandbox, &[]);
    let decision = &memos[0]["memo"]["decision"];
    assert!(decision["text"].as_str().unwrap().chars().count() <= 2001);
    for text in [
        decision.to_string(),
        sandbox.segno(&["logs", "chain", "--json"]).good().stdout,
    ] {
        assert!(!text.contains("ghp_01"), "{text}");
    }
}

#[test]
#[cfg(feature = "failpoints")]
fn a_note_that_is_killed_anywhere_is_there_once_or_not_at_all() {
    use segno_core::fault::Point;
    let (mut kills, mut there) = (0, 0);
    for point in Point::ALL {
        let sandbox = sandbox();
        done(&sandbox);
        let mut command = sandbox.command(&["note", "todo", "look at it"]);
        command.env("SEGNO_FAILPOINT", point.name());
        if !segno_testkit::sandbox::finish(command).crashed() {
            continue;
        }
        let memos = listed(&sandbox, &[]).len();
        assert!(memos <= 1, "{}", point.name());
        kills += 1;
        there += memos;
        sandbox.segno(&["note", "todo", "and that"]).good();
        assert_eq!(listed(&sandbox, &[]).len(), memos + 1, "{}", point.name());
        sandbox.segno(&["doctor"]).good();
    }
    assert!(kills > 3 && there > 0, "{kills} {there}");
}
