use crate::commands::{
    edit, failing_chain, mend, scripted, shown, standings, start_waiting, tidy, waiting_chain,
};
use crate::sandbox;

#[test]
fn a_session_is_found_by_id_name_and_unique_beginning() {
    for reference in ["id", "first", "fir", "id-beginning", "ID-lower"] {
        let sandbox = sandbox();
        failing_chain(&sandbox);
        sandbox
            .segno(&["run", "chain.yaml", "--name", "first"])
            .refused(10, &[]);
        mend(&sandbox);
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
        let said = sandbox.segno(&["resume", &reference]).good();
        assert_eq!(said.stdout, "fine\n");
        assert_eq!(sandbox.calls().len(), 4);
    }
}

#[test]
fn without_a_name_the_newest_of_this_folder_goes_on() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    for name in ["older", "newer"] {
        sandbox
            .segno(&["run", "chain.yaml", "--name", name])
            .refused(10, &[]);
    }
    mend(&sandbox);
    let said = sandbox.segno(&["resume"]).good();
    insta::assert_snapshot!(tidy(&sandbox, &said.stderr), @r"
    run 2 on [HOST] (process [PID])
      … steps/2 a (attempt 2)
      ✓ steps/2 [TOOK]
    completed newer: 3 steps, [TOOK]
    resumed: 2 of 3 steps were already done and not run again
    ");
    sandbox.segno(&["resume"]).good();
    assert!(
        standings(&sandbox)
            .iter()
            .all(|(_, status)| status == "completed")
    );
    let said = sandbox.segno(&["resume"]).refused(17, &[]);
    insta::assert_snapshot!(tidy(&sandbox, &said.stderr), @r"
    error: no session in [ROOT]/work can be resumed [S0106]
      hint: `segno sessions list --all` shows those of other folders
    ");
}

#[test]
fn a_session_of_another_folder_is_not_the_newest_here() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    mend(&sandbox);
    let mut command = sandbox.command(&["resume"]);
    command.current_dir(super::root(&sandbox));
    segno_testkit::sandbox::finish(command).refused(17, &["[S0106]"]);
    let mut command = sandbox.command(&["resume", "chain"]);
    command.current_dir(super::root(&sandbox));
    segno_testkit::sandbox::finish(command).good();
}

#[test]
fn a_step_in_flight_waits_for_a_person_if_the_spec_says_so() {
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
    let said = sandbox.segno(&["resume"]).refused(19, &[]);
    insta::assert_snapshot!(tidy(&sandbox, &said.stderr), @r"
    error: whether step steps/1 took effect is unknown: the run was lost while it was in flight [R0103]
      hint: look whether it did; `segno resume chain --in-flight repeat` asks again
    ");
    sandbox
        .segno(&["resume", "chain"])
        .refused(19, &["steps/1"]);
    assert_eq!(sandbox.calls().len(), 2);
    sandbox
        .segno(&["resume", "chain", "--in-flight", "repeat"])
        .good();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
}

#[test]
fn a_person_can_ask_to_be_asked() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    sandbox
        .segno(&["resume", "--in-flight", "stop"])
        .refused(19, &["steps/1", "[R0103]"]);
    sandbox.segno(&["resume", "chain"]).good();
}

#[test]
fn a_session_that_runs_is_not_resumed_beside_its_run() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["resume", "chain"]).refused(
        21,
        &["is being run by process", "[S0107]", "segno logs -f chain"],
    );
    sandbox.write("go", "");
    live.finish().good();
    assert_eq!(sandbox.calls().len(), 2);
}

#[test]
fn a_spec_that_is_gone_does_not_stop_a_session() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    mend(&sandbox);
    std::fs::remove_file(sandbox.work().join("chain.yaml")).unwrap();
    let said = sandbox.segno(&["resume"]).good();
    let note = "chain.yaml cannot be read any more (No such file or directory (os error 2)); going on with the copy that was kept";
    assert!(said.stderr.contains(note), "{}", said.stderr);
}

#[test]
fn variables_are_those_that_the_session_was_started_with() {
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
    let said = sandbox.segno(&["resume"]).good();
    assert_eq!(said.stdout, "about tides\n");
}

#[test]
fn a_refused_resume_leaves_a_lost_session_interrupted() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    sandbox
        .segno(&["resume", "--in-flight", "stop"])
        .refused(19, &[]);
    assert_eq!(
        standings(&sandbox),
        [("chain".into(), "interrupted".into())]
    );
    sandbox.segno(&["resume"]).good();
}

#[test]
fn auto_resume_does_not_ignore_what_it_is_given() {
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
    mend(&sandbox);
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
        .good();
    // Another question is another session.
    assert_eq!(shown(&sandbox, "second")["variables"]["topic"], "two");
}
