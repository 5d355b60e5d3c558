//! `segno context`: the resume context that a new agent receives.

use super::{keys, start_waiting, waiting_chain};
use crate::sandbox;
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::{Value, json};

/// A session that was paused after its first step, with notes.
fn paused(sandbox: &Sandbox) {
    waiting_chain(sandbox, 3, 1);
    let (live, _) = start_waiting(sandbox, &[]);
    sandbox
        .segno(&["pause", "--force", "-r", "lunch is ready"])
        .expect_success();
    live.finish().refused(130, &["paused"]);
    let noted = ["note", "decision", "Use SQLite", "--why", "one file"];
    sandbox.segno(&noted).expect_success();
    sandbox
        .segno(&["note", "error", "cannot link"])
        .expect_success();
}

pub(super) fn edit(sandbox: &Sandbox, script: &str) -> ProcessOutput {
    sandbox.write("editor", script);
    let mut command = sandbox.command(&["context", "chain", "--edit"]);
    command.env("EDITOR", "sh ./editor").env_remove("VISUAL");
    command.env("TMPDIR", sandbox.work());
    run_to_end(command)
}

#[test]
fn context_is_shown_whole_or_in_sections() {
    let sandbox = sandbox();
    paused(&sandbox);
    let text = sandbox.segno(&["context"]).expect_success().stdout;
    for words in [
        "## Session\nchain, session number 1",
        "1 of 3 done",
        "in progress: **steps/1**",
        "- [x] **steps/0**",
        "- [ ] **steps/1** (started)\n- [ ] **steps/2**",
        "- d1 [approach] Use SQLite Why: one file",
        "- e1 [unresolved] error: cannot link",
        "## Git\nthe folder is not a git repository",
        "next: **steps/1**",
        ": lunch is ready",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let words = [
        "context",
        "chain",
        "--section",
        "errors",
        "--section",
        "next",
        "--json",
    ];
    let shown = sandbox.segno(&words).expect_success().json().remove(0);
    assert_eq!(
        keys(&shown),
        "edited fragments kind max_tokens name session tokens v"
    );
    let sections: Vec<&Value> = shown["fragments"].as_array().unwrap().iter().collect();
    let sections: Vec<&Value> = sections.into_iter().map(|it| &it["section"]).collect();
    assert_eq!(json!(sections), json!(["errors", "next"]));
    assert_eq!(shown["fragments"][0]["origin"], "notes");
    sandbox
        .segno(&["context", "--section", "mood"])
        .refused(2, &["decisions"]);
}

#[test]
fn edited_context_lasts_until_a_run_has_ended() {
    let sandbox = sandbox();
    paused(&sandbox);
    let output = edit(&sandbox, "echo 'Only this.' > \"$1\"").expect_success();
    assert_eq!(
        output.stdout.trim(),
        "agents receive this text in the next run"
    );
    let shown = sandbox.segno(&["context"]).expect_success();
    assert_eq!(shown.stdout.trim(), "Only this.");
    assert!(
        shown.stderr.contains("this text was edited"),
        "{}",
        shown.stderr
    );
    // The next edit starts from this text, and an empty text brings the generated context back.
    let output = edit(&sandbox, "grep -q 'Only this' \"$1\" && : > \"$1\"").expect_success();
    assert_eq!(output.stdout.trim(), "the resume context is compiled again");
    let shown = sandbox.segno(&["context"]).expect_success().stdout;
    assert!(shown.contains("Use SQLite"), "{shown}");
    edit(&sandbox, "echo 'Only this.' > \"$1\"").expect_success();
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    let shown = sandbox.segno(&["context"]).expect_success().stdout;
    assert!(
        shown.contains("3 of 3 done") && !shown.contains("Only this"),
        "{shown}"
    );
}

#[test]
fn failed_edit_changes_nothing_and_keeps_the_text() {
    let sandbox = sandbox();
    paused(&sandbox);
    let before = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .stdout;
    edit(&sandbox, "exit 3").refused(2, &["`sh ./editor` failed", "exit status: 3"]);
    let same = edit(&sandbox, ":").expect_success();
    assert_eq!(same.stdout.trim(), "nothing was changed");
    let long = edit(&sandbox, "head -c 30000 /dev/zero | tr '\\0' x > \"$1\"");
    long.refused(2, &["[R0157]", "your text is in "]);
    let after = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .stdout;
    assert_eq!(before, after);
}

#[test]
fn context_of_a_running_session_cannot_be_edited() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let refused = edit(&sandbox, "echo mine > \"$1\"");
    let refused = refused.refused(21, &["[S0107]", "your text is in "]);
    let (_, path) = refused.stderr.split_once("your text is in ").unwrap();
    let path = path.lines().next().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "mine\n");
    sandbox.write("go", "");
    live.finish().expect_success();
}
