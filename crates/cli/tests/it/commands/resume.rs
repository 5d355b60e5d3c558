//! `segno resume`.

use crate::commands::{
    edit, failing_chain, fix_answers, normalize, scripted, session_statuses, shown, start_waiting,
    waiting_chain,
};
use crate::sandbox;

#[test]
fn session_is_found_by_id_name_or_unique_prefix() {
    for reference in ["id", "first", "fir", "id-beginning", "ID-lower"] {
        let sandbox = sandbox();
        failing_chain(&sandbox);
        sandbox
            .segno(&["run", "chain.yaml", "--name", "first"])
            .refused(10, &[]);
        fix_answers(&sandbox);
        let id = shown(&sandbox, "first")["session"]
            .as_str()
            .unwrap()
            .to_owned();
        let reference = match reference {
            "id" => id,
            "id-beginning" => id[..12].to_owned(),
            "ID-lower" => id.to_lowercase(),
            other => other.to_owned(),
        };
        let output = sandbox.segno(&["resume", &reference]).expect_success();
        assert_eq!(output.stdout, "fine\n");
        assert_eq!(sandbox.calls().len(), 4);
    }
}

#[test]
fn resume_without_a_name_takes_the_newest_of_the_folder() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    for name in ["older", "newer"] {
        sandbox
            .segno(&["run", "chain.yaml", "--name", name])
            .refused(10, &[]);
    }
    fix_answers(&sandbox);
    let output = sandbox.segno(&["resume"]).expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stderr), @r"
    note: session number 1 failed [TOOK] ago: step steps/2 (agent `a`) failed after 1 attempt: no key; 2 steps done, 1 remaining; this is session number 2
      … steps/2 a (attempt 2), with the resume context
      ✓ steps/2 [TOOK]
    completed newer: 3 steps, [TOOK]
    resumed: 2 of 3 steps were already done and not run again
    ");
    sandbox.segno(&["resume"]).expect_success();
    assert!(
        session_statuses(&sandbox)
            .iter()
            .all(|(_, status)| status == "completed")
    );
    let output = sandbox.segno(&["resume"]).refused(17, &[]);
    insta::assert_snapshot!(normalize(&sandbox, &output.stderr), @r"
    error: no session in [ROOT]/work can be resumed [S0106]
      hint: `segno sessions list --all` lists the sessions of all folders
    ");
}

#[test]
fn resume_ignores_sessions_of_other_folders() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    fix_answers(&sandbox);
    let mut command = sandbox.command(&["resume"]);
    command.current_dir(super::root(&sandbox));
    segno_testkit::sandbox::run_to_end(command).refused(17, &["[S0106]"]);
    let mut command = sandbox.command(&["resume", "chain"]);
    command.current_dir(super::root(&sandbox));
    segno_testkit::sandbox::run_to_end(command).expect_success();
}

#[test]
fn spec_can_stop_at_a_step_in_flight() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    edit(
        &sandbox,
        "name: chain",
        "name: chain\ncontinuity: {in_flight: stop}",
    );
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    let output = sandbox.segno(&["resume"]).refused(19, &[]);
    insta::assert_snapshot!(normalize(&sandbox, &output.stderr), @r"
    error: the outcome of step steps/1 is unknown: the run was lost while it was in flight [R0103]
      hint: check whether it took effect; if it did, `segno resume chain --in-flight done --result TEXT`; if not, `segno resume chain --in-flight failed`; `segno resume chain --in-flight repeat` runs it again
    ");
    sandbox
        .segno(&["resume", "chain"])
        .refused(19, &["steps/1"]);
    assert_eq!(sandbox.calls().len(), 2);
    sandbox
        .segno(&["resume", "chain", "--in-flight", "repeat"])
        .expect_success();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
}

#[test]
fn option_can_stop_at_a_step_in_flight() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    sandbox
        .segno(&["resume", "--in-flight", "stop"])
        .refused(19, &["steps/1", "[R0103]"]);
    sandbox.segno(&["resume", "chain"]).expect_success();
}

#[test]
fn running_session_cannot_be_resumed() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["resume", "chain"]).refused(
        21,
        &["is running in process", "[S0107]", "segno logs -f chain"],
    );
    sandbox.write("go", "");
    live.finish().expect_success();
    assert_eq!(sandbox.calls().len(), 2);
}

#[test]
fn deleted_spec_does_not_block_a_resume() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    fix_answers(&sandbox);
    std::fs::remove_file(sandbox.work().join("chain.yaml")).unwrap();
    let output = sandbox.segno(&["resume"]).expect_success();
    let note = "chain.yaml can no longer be read (No such file or directory (os error 2)); continuing with the stored copy";
    assert!(output.stderr.contains(note), "{}", output.stderr);
}

#[test]
fn resume_keeps_the_variables_of_the_session() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: \"{{ topic }}\"", "input: \"{{ topic }}\""],
        "answers: [{step: steps/1, fail: {kind: auth}}]\ndefault: {text: fine}",
    );
    edit(
        &sandbox,
        "name: chain",
        "name: chain\ninputs: {required: {topic: string}}",
    );
    sandbox
        .segno(&["run", "chain.yaml", "--var", "topic=tides"])
        .refused(10, &[]);
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{contains: tides, text: about tides}]\n",
    );
    let output = sandbox.segno(&["resume"]).expect_success();
    assert_eq!(output.stdout, "about tides\n");
}

#[test]
fn refused_resume_leaves_the_session_interrupted() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    sandbox
        .segno(&["resume", "--in-flight", "stop"])
        .refused(19, &[]);
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "interrupted".into())]
    );
    sandbox.segno(&["resume"]).expect_success();
}

#[test]
fn auto_resume_with_other_variables_starts_a_new_session() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    edit(
        &sandbox,
        "name: chain",
        "name: chain\ninputs: {required: {topic: string}}",
    );
    sandbox
        .segno(&["run", "chain.yaml", "--var", "topic=one"])
        .refused(10, &[]);
    fix_answers(&sandbox);
    sandbox
        .segno(&[
            "run",
            "chain.yaml",
            "--auto-resume",
            "--var",
            "topic=two",
            "--name",
            "second",
        ])
        .expect_success();
    // Other variables make another session.
    assert_eq!(shown(&sandbox, "second")["variables"]["topic"], "two");
}
