//! A spec that was edited between two runs.

use segno_testkit::sandbox::Sandbox;

use crate::commands::{edit, failing_chain, fix_answers, session_statuses, shown};
use crate::sandbox;

/// A session with two finished steps, whose first step was edited since.
fn edited() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    fix_answers(&sandbox);
    edit(&sandbox, "input: one", "input: uno");
    sandbox
}

#[test]
fn edit_is_reported_and_finished_steps_keep_results() {
    for more in [&[][..], &["--on-change", "warn"]] {
        let sandbox = edited();
        let output = sandbox
            .segno(&[&["resume"], more].concat())
            .expect_success();
        assert!(
            output.stderr.contains("chain.yaml was edited since this session last ran; it changes steps/0; finished steps among them keep their results"),
            "{}",
            output.stderr
        );
        assert_eq!(
            sandbox.calls(),
            ["steps/0", "steps/1", "steps/2", "steps/2"]
        );
    }
}

#[test]
fn rerun_repeats_only_changed_steps() {
    let sandbox = edited();
    let output = sandbox
        .segno(&["resume", "--on-change", "rerun"])
        .expect_success();
    assert!(
        output.stderr.contains("steps/0 runs again"),
        "{}",
        output.stderr
    );
    // The answer of the first step did not change, so the second one was not asked again.
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/2", "steps/0", "steps/2"]
    );
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn a_changed_answer_changes_the_steps_that_use_it() {
    let sandbox = edited();
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{step: steps/0, text: otherwise}]\ndefault: {text: fine}\n",
    );
    sandbox
        .segno(&["resume", "--on-change", "rerun"])
        .expect_success();
    let again = &sandbox.calls()[3..];
    assert_eq!(again, ["steps/0", "steps/1", "steps/2"]);
}

#[test]
fn edit_can_be_refused_before_anything_runs() {
    let sandbox = edited();
    let before = shown(&sandbox, "chain");
    sandbox.segno(&["resume", "--on-change", "refuse"]).refused(
        22,
        &[
            "the spec was edited",
            "chain",
            "steps/0",
            "[R0104]",
            "--on-change warn|rerun|pinned",
        ],
    );
    let after = shown(&sandbox, "chain");
    assert_eq!(before["events"], after["events"]);
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "failed".into())]
    );
    assert_eq!(sandbox.calls().len(), 3);
    sandbox.segno(&["resume"]).expect_success();
}

#[test]
fn pinned_ignores_the_edit() {
    let sandbox = edited();
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{contains: three after fine, text: as it was}]\n",
    );
    edit(&sandbox, "three after", "drei nach");
    let output = sandbox
        .segno(&["resume", "--on-change", "pinned"])
        .expect_success();
    assert_eq!(output.stdout, "as it was\n");
    assert!(!output.stderr.contains("edited"), "{}", output.stderr);
}

#[test]
fn added_steps_are_named() {
    let sandbox = edited();
    edit(&sandbox, "input: uno", "input: one");
    let spec = sandbox.read("chain.yaml");
    sandbox.write(
        "chain.yaml",
        &format!("{spec}      - {{agent: a, input: four}}\n"),
    );
    let output = sandbox.segno(&["resume", "--on-change", "refuse"]);
    let output = output.refused(22, &["steps/3 (added)"]);
    assert!(!output.stderr.contains("steps/0"), "{}", output.stderr);
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(sandbox.calls().last().unwrap(), "steps/3");
}

#[test]
fn invalid_edit_is_reported_and_the_session_stays() {
    let sandbox = edited();
    edit(&sandbox, "pattern:", "patern:");
    sandbox
        .segno(&["resume"])
        .refused(3, &["chain.yaml", "/patern", "did you mean `pattern`?"]);
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "failed".into())]
    );
    sandbox
        .segno(&["resume", "--on-change", "pinned"])
        .expect_success();
}
