//! The notes file (`context_policy.notes`) while others change it.

use segno_testkit::sandbox::{Sandbox, wait_for_output};

use crate::sandbox;

/// Three steps whose agent runs `body`, with notes in `notes.md`.
fn chain_with_notes(sandbox: &Sandbox, body: &str) {
    sandbox.command_chain(3, body);
    let policy = "context_policy: {notes: {file: notes.md, include_last: 2}}\n";
    let spec = sandbox.read("chain.yaml") + policy;
    sandbox.write("chain.yaml", &spec);
}

#[test]
fn notes_file_keeps_what_others_add_during_a_run() {
    let sandbox = sandbox();
    // One step adds a line without its end, and one replaces the file as editors do.
    chain_with_notes(
        &sandbox,
        "case $SEGNO_STEP in
           steps/1) printf 'by hand, without an end' >> notes.md;;
           steps/2) { echo 'at the top'; cat notes.md; } > new && mv new notes.md;;
         esac",
    );
    sandbox.write("notes.md", "# My notes\n\nWritten before the run.\n");
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let notes = sandbox.read("notes.md");
    for line in [
        "at the top",
        "# My notes",
        "Written before the run.",
        "by hand, without an end",
    ] {
        assert_eq!(
            notes.lines().filter(|own| *own == line).count(),
            1,
            "{notes}"
        );
    }
    for step in 0..3 {
        assert_eq!(
            notes.matches(&format!("/steps/{step} -->")).count(),
            1,
            "{notes}"
        );
    }
}

#[test]
fn sessions_share_a_notes_file() {
    let sandbox = sandbox();
    chain_with_notes(&sandbox, "");
    let names = ["one", "two", "three"];
    let started =
        names.map(|name| sandbox.start(&["run", "chain.yaml", "--name", name, "--out", name]));
    for child in started {
        wait_for_output(child).expect_success();
    }
    let notes = sandbox.read("notes.md");
    for step in 0..3 {
        let mark = format!("/steps/{step} -->");
        assert_eq!(notes.matches(&mark).count(), names.len(), "{notes}");
    }
}
