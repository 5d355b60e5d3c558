//! `segno answer`: questions that a run asks the user.

use segno_testkit::sandbox::{Sandbox, wait_until};

use super::{Live, normalize};
use crate::sandbox;

const SPEC: &str = "version: 0
name: report
runtime: {provider: scripted, script: answers.yaml}
agents: {a: {prompt: Answer.}}
pattern: {type: chain, config: {steps: [{agent: a, input: facts}, {type: hitl, prompt: Publish it?, context_display: \"It says: {{ steps[0].response }}\", default: \"no\", timeout_seconds: 3600}, {agent: a, input: \"{{ hitl_response }}\"}]}}
";

pub(crate) fn write_asking_workflow(sandbox: &Sandbox) {
    sandbox.write("report.yaml", SPEC);
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{contains: facts, text: the tide}, {contains: \"yes\", text: published}, {text: dropped}]\n",
    );
}

#[test]
fn question_ends_the_run_with_19_and_the_answer_resumes_it() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    let output = sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    insta::assert_snapshot!(normalize(&sandbox, &output.stderr), @r"
    session report ([ID])
      … steps/0 a
      ✓ steps/0 [TOOK]
      ? steps/1 asks: Publish it?
    waiting: session `report` waits for your answer: Publish it? [R0108]
      It says: the tide
      hint: answer with `segno answer report --step steps/1 TEXT`, then `segno resume report`
    ");
    let output = sandbox.segno(&["answer", "report"]).expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    steps/1: Publish it?
      It says: the tide
      default: no
      until [TIME]
    ");
    let status = sandbox.segno(&["status", "--json"]).expect_success().json();
    assert_eq!(status[0]["status"], "waiting");
    sandbox
        .segno(&["resume"])
        .refused(19, &["waits for your answer", "[R0108]"]);
    let output = sandbox
        .segno(&["answer", "report", "yes", "--resume"])
        .expect_success();
    assert!(output.stdout.ends_with("published\n"), "{}", output.stdout);
    assert_eq!(sandbox.calls(), ["steps/0", "steps/2"]);
}

#[test]
fn answer_is_stored_and_accepted_once() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    sandbox.segno(&["answer", "report", "yes"]).expect_success();
    sandbox
        .segno(&["answer", "report", "no"])
        .refused(2, &["has no open question", "[R0111]"]);
    let output = sandbox.segno(&["resume"]).expect_success();
    assert_eq!(output.stdout, "published\n");
    sandbox
        .segno(&["answer", "report", "no"])
        .refused(2, &["[R0111]"]);
}

#[test]
fn json_shows_the_question_and_its_answer() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    let output = sandbox
        .segno(&["run", "report.yaml", "--json"])
        .refused(19, &[]);
    let kinds: Vec<String> = output
        .json()
        .iter()
        .map(|line| line["kind"].as_str().unwrap().to_owned())
        .collect();
    assert!(kinds.contains(&"question_asked".to_owned()), "{kinds:?}");
    let asked = sandbox
        .segno(&["answer", "report", "--json"])
        .expect_success()
        .json();
    assert_eq!(asked[0]["prompt"], "Publish it?");
    assert_eq!(asked[0]["context"], "It says: the tide");
    assert_eq!(asked[0]["default"], "no");
    let answered = sandbox
        .segno(&["answer", "report", "yes", "--json"])
        .expect_success()
        .json();
    assert_eq!(answered[0]["kind"], "answered");
    assert_eq!(answered[0]["path"], "steps/1");
}

#[test]
fn secret_in_an_answer_is_redacted() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    let secret = ["sk-ant-api03-", &"aB3".repeat(31), "-aB3aB3AA"].concat();
    sandbox
        .segno(&["answer", "report", &secret])
        .expect_success();
    sandbox.segno(&["resume"]).expect_success();
    let logs = sandbox.segno(&["logs", "--json"]).expect_success().stdout;
    assert!(!logs.contains(&secret), "{logs}");
}

#[test]
fn waiting_session_can_be_cancelled() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    sandbox.segno(&["cancel", "report"]).expect_success();
    sandbox
        .segno(&["resume", "report"])
        .refused(17, &["cancelled"]);
}

#[test]
fn answer_reaches_a_run_with_other_branches() {
    let sandbox = sandbox();
    sandbox.write(
        "both.yaml",
        "version: 0
name: both
runtime: {provider: command, command: [./agent.sh]}
agents: {a: {prompt: Answer.}}
pattern: {type: parallel, config: {branches: [{id: l, steps: [{agent: a, input: l}]}, {id: r, steps: [{agent: a, input: r}, {type: hitl, prompt: Right?}]}]}}
",
    );
    sandbox.write_script(
        "agent.sh",
        "#!/bin/sh\ncase \"$(cat)\" in *l*) while [ ! -e go ]; do sleep 0.01; done;; esac\necho done\n",
    );
    let live = Live::start(&sandbox, &["run", "both.yaml"]);
    wait_until("it asks", || {
        sandbox.segno(&["answer", "both"]).stdout.contains("Right?")
    });
    sandbox.segno(&["answer", "both", "yes"]).expect_success();
    sandbox.write("go", "");
    // The branch that asked had already ended its part of the run; its answer counts at the resume.
    let output = live.finish();
    assert_eq!(output.code(), 19);
    let output = sandbox.segno(&["resume"]).expect_success();
    assert_eq!(output.stdout, "Branch l:\ndone\n\n---\n\nBranch r:\nyes\n");
}

#[cfg(feature = "failpoints")]
#[test]
fn question_and_answer_survive_a_kill_at_any_position() {
    let armed = |sandbox: &Sandbox, words: &[&str], point: &str, visit: u32| {
        let mut command = sandbox.command(words);
        command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
        segno_testkit::sandbox::run_to_end(command)
    };
    let mut kills = 0;
    for point in ["journal.before_commit", "journal.after_commit"] {
        for (stage, words) in [
            ("asks", ["run", "report.yaml"]),
            ("is answered", ["resume", "report"]),
        ] {
            for visit in 1.. {
                let sandbox = sandbox();
                write_asking_workflow(&sandbox);
                if stage == "is answered" {
                    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
                    sandbox.segno(&["answer", "report", "yes"]).expect_success();
                }
                let killed = armed(&sandbox, &words, point, visit).crashed();
                kills += u32::from(killed);
                // Whatever was lost, the resume asks once, accepts one answer, and ends the same.
                let journal = sandbox.segno(&["logs", "--json"]);
                let begin = if journal.status.success() {
                    "resume"
                } else {
                    "run"
                };
                let next = if begin == "run" {
                    vec!["run", "report.yaml"]
                } else {
                    vec!["resume", "report"]
                };
                let mut output = sandbox.segno(&next);
                if output.status.code() == Some(19) {
                    output = sandbox.segno(&["answer", "report", "yes", "--resume"]);
                }
                let log = sandbox
                    .segno(&["logs", "report", "--json"])
                    .expect_success()
                    .json();
                let count = |kind: &str| log.iter().filter(|event| event["kind"] == kind).count();
                let what = format!("{stage} {point}:{visit}: {}", output.stderr);
                assert_eq!(
                    (count("question_asked"), count("question_answered")),
                    (1, 1),
                    "{what}"
                );
                assert_eq!(log.last().unwrap()["status"], "completed", "{what}");
                let calls = sandbox.calls();
                let finished = calls.iter().filter(|call| *call == "steps/0").count();
                assert!(finished <= 2 && calls.len() <= 3, "{what}: {calls:?}");
                if !killed {
                    break;
                }
            }
        }
    }
    assert!(kills >= 12, "{kills}");
}
