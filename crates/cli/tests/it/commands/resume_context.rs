//! What the agents of a resumed run are told, observed in what programs read.

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use super::context::edit;
use crate::sandbox;

/// Writes a workflow whose agent, a program, records what it reads; `body` runs before it answers.
fn write_workflow(sandbox: &Sandbox, pattern: &str, more: &str, body: &str) {
    sandbox.write_script(
        "agent.sh",
        &format!(
            "#!/bin/sh\nmkdir -p heard\ncat > \"heard/$(echo $SEGNO_STEP | tr / .).$SEGNO_ATTEMPT\"\n{body}\necho answer\n"
        ),
    );
    let spec = format!(
        "version: 0
name: chain
runtime: {{provider: command, command: [./agent.sh], max_parallel: 1, failure_policy: {{retries: 1, wait_min: 0, wait_max: 0}}}}
agents: {{a: {{prompt: Answer.}}, b: {{prompt: Answer.}}}}
pattern: {pattern}
{more}
"
    );
    sandbox.write("chain.yaml", &spec);
}

const CHAIN: &str = "{type: chain, config: {steps: [{agent: a, input: one}, {agent: a, input: two}, {agent: b, input: three}, {agent: a, input: four}]}}";

/// What the program read for an attempt at a step.
fn heard(sandbox: &Sandbox, step: &str, attempt: u32) -> String {
    sandbox.read(&format!("heard/{}.{attempt}", step.replace('/', ".")))
}

fn is_told(sandbox: &Sandbox, step: &str, attempt: u32) -> bool {
    heard(sandbox, step, attempt).contains("----- begin context ")
}

/// Runs segno, and lets it crash before the `call`-th call of an agent.
fn crash(sandbox: &Sandbox, words: &[&str], call: u32) {
    let mut command = sandbox.command(words);
    command.env("SEGNO_FAILPOINT", format!("step.before_effect:{call}"));
    let output = run_to_end(command);
    assert!(output.crashed(), "{output:?}");
}

fn run(sandbox: &Sandbox) -> ProcessOutput {
    sandbox.segno(&["run", "chain.yaml"])
}

/// The bodies of the `step_started` events.
fn started(sandbox: &Sandbox) -> Vec<Value> {
    let bundle = sandbox.segno(&["sessions", "export", "chain", "-o", "-"]);
    let records = bundle.expect_success().json().into_iter();
    let starts = records.filter(|record| record["kind"] == "step_started");
    starts
        .map(|record| serde_json::from_str(record["body"].as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn first_step_of_each_agent_is_told_after_a_crash() {
    let sandbox = sandbox();
    write_workflow(&sandbox, CHAIN, "", "");
    crash(&sandbox, &["run", "chain.yaml"], 2);
    sandbox.segno(&["resume", "chain"]).expect_success();
    assert!(!is_told(&sandbox, "steps/0", 1));
    let told = heard(&sandbox, "steps/1", 2);
    let (before, after) = told.split_once("\n\ntwo").unwrap();
    assert!(
        before.starts_with("Answer.\n\nThe resume context"),
        "{told}"
    );
    assert_eq!(after, "");
    for words in [
        "chain, session number 2",
        "1 of 4 done",
        "- [x] **steps/0**",
        "- [ ] **steps/1** (started)",
        "the folder is not a git repository",
        "next: **steps/1**",
        "reason for the stop: the process was lost",
        "for details, use the commands `segno note list chain`",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    assert!(
        is_told(&sandbox, "steps/2", 1),
        "it is the first step of `b`"
    );
    assert!(!is_told(&sandbox, "steps/3", 1));
    // The context is in the journal once, beside the input.
    let started = started(&sandbox);
    let of = |path: &str| -> Vec<&Value> {
        started
            .iter()
            .filter(|event| event["path"] == path)
            .collect()
    };
    let [first, second] = of("steps/1")[..] else {
        panic!("{started:#?}")
    };
    assert_eq!(first["input_digest"], second["input_digest"]);
    assert_eq!(
        (&first["input"], &second["input"]),
        (&"two".into(), &"two".into())
    );
    assert!(first["resume_context"].is_null());
    let kept = second["resume_context"].as_str().unwrap();
    assert!(told.contains(kept), "{kept}");
    let logs = sandbox.segno(&["logs", "chain", "--full"]).expect_success();
    assert_eq!(logs.stdout.matches(", with the resume context").count(), 2);
    assert!(
        logs.stdout.contains("| chain, session number 2"),
        "{logs:?}"
    );
}

#[test]
fn retry_is_told_the_same_again() {
    let sandbox = sandbox();
    let body = "[ $SEGNO_STEP != steps/1 ] || [ $SEGNO_ATTEMPT -gt 2 ] || exit 1";
    write_workflow(&sandbox, CHAIN, "", body);
    crash(&sandbox, &["run", "chain.yaml"], 2);
    sandbox.segno(&["resume", "chain"]).expect_success();
    let (second, third) = (heard(&sandbox, "steps/1", 2), heard(&sandbox, "steps/1", 3));
    assert!(is_told(&sandbox, "steps/1", 2));
    assert_eq!(second, third);
    let kept = |event: &&Value| event["resume_context"].is_string();
    assert_eq!(started(&sandbox).iter().filter(kept).count(), 2);
}

#[test]
fn each_branch_is_told_in_its_first_step() {
    let sandbox = sandbox();
    let pattern = "{type: parallel, config: {branches: [{id: x, steps: [{agent: a, input: 1}, {agent: a, input: 2}, {agent: a, input: 3}]}, {id: y, steps: [{agent: a, input: 1}, {agent: a, input: 2}, {agent: a, input: 3}]}]}}";
    let pattern = pattern.replace("input: 1", "input: \"1\"");
    let pattern = pattern
        .replace("input: 2", "input: \"2\"")
        .replace("input: 3", "input: \"3\"");
    let body = "[ $SEGNO_RUN -gt 1 ] || [ $SEGNO_STEP = branches/x/steps/0 ] || [ $SEGNO_STEP = branches/y/steps/0 ] || exit 1";
    write_workflow(&sandbox, &pattern, "", body);
    run(&sandbox).refused(10, &["branches/"]);
    sandbox.segno(&["resume", "chain"]).expect_success();
    for branch in ["x", "y"] {
        let told = |step: u32| {
            let starts = started(&sandbox).into_iter();
            let path = format!("branches/{branch}/steps/{step}");
            let mut own = starts.filter(|event| event["path"] == path.as_str());
            own.any(|event| event["resume_context"].is_string())
        };
        assert_eq!(
            [told(0), told(1), told(2)],
            [false, true, false],
            "{branch}"
        );
    }
}

#[test]
fn failure_and_fork_are_named_as_the_reason() {
    let sandbox = sandbox();
    let body = "[ -e whole ] || [ $SEGNO_STEP != steps/1 ] || exit 1";
    write_workflow(&sandbox, CHAIN, "", body);
    run(&sandbox).refused(10, &["steps/1"]);
    sandbox
        .segno(&["fork", "chain", "--name", "copy"])
        .expect_success();
    sandbox.write("whole", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    let told = heard(&sandbox, "steps/1", 3);
    assert!(
        told.contains("[unresolved] crashed: step steps/1"),
        "{told}"
    );
    let (_, ended) = told.split_once("reason for the stop: ").unwrap();
    let ended = ended.lines().next().unwrap();
    assert!(ended.contains("exited with code 1"), "{told}");
    std::fs::remove_dir_all(sandbox.work().join("heard")).unwrap();
    sandbox.segno(&["resume", "copy"]).expect_success();
    let attempts = (1..=3).map(|attempt| format!("heard/steps.1.{attempt}"));
    let told: String = attempts.map(|file| sandbox.read(&file)).collect();
    assert!(told.contains("copy, session number 1"), "{told}");
    let fork = "reason for the stop: this session is a fork of `chain`";
    assert!(told.contains(fork), "{told}");
}

#[test]
fn edited_context_is_sent_to_each_agent_once() {
    let sandbox = sandbox();
    write_workflow(&sandbox, CHAIN, "continuity: {pause: {after_steps: 1}}", "");
    run(&sandbox).refused(130, &["[R0102]"]);
    let note = ["note", "decision", "Use SQLite", "--session", "chain"];
    sandbox.segno(&note).expect_success();
    edit(&sandbox, "echo 'Only this counts.' > \"$1\"").expect_success();
    for _ in 0..2 {
        sandbox
            .segno(&["resume", "chain"])
            .refused(130, &["[R0102]"]);
    }
    let first = heard(&sandbox, "steps/1", 1);
    assert!(first.contains("\nOnly this counts.\n"), "{first}");
    assert!(!first.contains("Use SQLite"), "{first}");
    let next = heard(&sandbox, "steps/2", 1);
    assert!(next.contains("Use SQLite"), "{next}");
    assert!(!next.contains("Only this counts."), "{next}");
}

#[test]
fn spec_can_turn_the_resume_context_off() {
    let sandbox = sandbox();
    let off = "continuity: {handoff: {resume_context: false}}";
    write_workflow(&sandbox, CHAIN, off, "");
    crash(&sandbox, &["run", "chain.yaml"], 2);
    sandbox.segno(&["resume", "chain"]).expect_success();
    assert_eq!(heard(&sandbox, "steps/1", 2), "Answer.\n\ntwo");
}

#[test]
fn nothing_is_told_where_nothing_is_known() {
    let sandbox = sandbox();
    write_workflow(&sandbox, CHAIN, "", "");
    crash(&sandbox, &["run", "chain.yaml"], 1);
    sandbox.segno(&["resume", "chain"]).expect_success();
    assert_eq!(heard(&sandbox, "steps/0", 2), "Answer.\n\none");
    assert!(!is_told(&sandbox, "steps/1", 1));
}
