//! A spec that was edited between two runs.

use segno_testkit::sandbox::Sandbox;
use serde_json::json;

use crate::commands::{edit, failing_chain, fix_answers, scripted, session_statuses, shown};
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
    let sandbox = edited();
    sandbox
        .segno(&["resume"])
        .refused(22, &["steps/0 (asks something else)", "[R0104]"]);
    let output = sandbox
        .segno(&["resume", "--on-change", "warn"])
        .expect_success();
    assert!(
        output.stderr.contains("chain.yaml was edited since this session last ran; it changes steps/0 (asks something else); finished steps among them keep their results"),
        "{}",
        output.stderr
    );
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/2", "steps/2"]
    );
}

#[test]
fn agent_may_change_without_a_choice() {
    let sandbox = edited();
    edit(&sandbox, "input: uno", "input: one");
    edit(&sandbox, "prompt: ", "prompt: New ");
    let output = sandbox.segno(&["resume"]).expect_success();
    assert!(
        output.stderr.contains(
            "it changes steps/0, steps/1, steps/2; finished steps among them keep their results"
        ),
        "{}",
        output.stderr
    );
    assert_eq!(sandbox.calls()[3..], ["steps/2"]);
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
    sandbox
        .segno(&["resume", "--on-change", "warn"])
        .expect_success();
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
    sandbox.segno(&["resume"]).refused(
        3,
        &[
            "chain.yaml",
            "/patern",
            "did you mean `pattern`?",
            "`segno resume chain --on-change pinned` continues with the spec as it was",
        ],
    );
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "failed".into())]
    );
    sandbox
        .segno(&["resume", "--on-change", "pinned"])
        .expect_success();
}

/// A session of a chain with two finished steps, which failed at the third.
fn stopped_with(steps: &[&str]) -> Sandbox {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        steps,
        "answers: [{contains: third, fail: {kind: auth, message: no key}}]\ndefault: {text: fine}",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{contains: new, text: new}, {contains: third finefine, text: answers by name}]\ndefault: {text: fine}\n",
    );
    sandbox
}

const PLAIN: [&str; 3] = ["input: first", "input: second", "input: third"];
const NAMED: [&str; 3] = [
    "id: x, input: first",
    "id: y, input: second",
    "id: z, input: \"third {{ steps.x.response }}{{ steps.y.response }}\"",
];

#[test]
fn step_inserted_in_front_gets_no_old_answer() {
    let sandbox = stopped_with(&PLAIN);
    let before = shown(&sandbox, "chain");
    edit(
        &sandbox,
        "steps:\n",
        "steps:\n      - {agent: a, input: new}\n",
    );
    for words in [&["resume"][..], &["resume", "--dry-run"]] {
        sandbox.segno(words).refused(
            22,
            &[
                "steps/0 (now steps/1), steps/1 (now steps/2)",
                "[R0104]",
                "`segno resume chain --on-change rerun`",
                "--on-change pinned",
            ],
        );
    }
    assert_eq!(shown(&sandbox, "chain")["events"], before["events"]);
    assert_eq!(sandbox.calls().len(), 3);
    sandbox
        .segno(&["resume", "--on-change", "rerun"])
        .expect_success();
    assert_eq!(
        sandbox.calls()[3..],
        ["steps/0", "steps/1", "steps/2", "steps/3"]
    );
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn steps_with_ids_keep_results_in_any_order() {
    let sandbox = stopped_with(&NAMED);
    let spec = sandbox.read("chain.yaml");
    let mut lines: Vec<&str> = spec.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.contains("id: x"))
        .unwrap();
    lines.swap(first, first + 1);
    lines.insert(first, "      - {agent: a, id: w, input: new}");
    sandbox.write("chain.yaml", &lines.join("\n"));
    let plan = sandbox.segno(&["plan", "chain.yaml"]).expect_success();
    assert!(plan.stdout.contains("steps/w"), "{}", plan.stdout);
    let dry = sandbox
        .segno(&["resume", "--dry-run", "--json"])
        .expect_success();
    assert_eq!(
        dry.json()[0]["spec_edit"],
        json!({"steps": ["steps/w (added)"], "policy": "warn"})
    );
    let output = sandbox.segno(&["resume"]).expect_success();
    assert!(
        output.stderr.contains("it changes steps/w (added)"),
        "{}",
        output.stderr
    );
    assert_eq!(sandbox.calls()[3..], ["steps/w", "steps/z"]);
    assert_eq!(output.stdout, "answers by name\n");
}

#[test]
fn an_id_given_to_a_finished_step_is_a_choice() {
    let sandbox = stopped_with(&PLAIN);
    edit(&sandbox, "input: first", "id: x, input: first");
    sandbox
        .segno(&["resume"])
        .refused(22, &["steps/0 (now steps/x)", "[R0104]"]);
    sandbox
        .segno(&["resume", "--on-change", "pinned"])
        .expect_success();
    assert_eq!(sandbox.calls()[3..], ["steps/2"]);
}

#[test]
fn unfinished_step_may_change_and_starts_again() {
    let sandbox = stopped_with(&PLAIN);
    edit(&sandbox, "input: third", "input: new");
    let plan = sandbox.segno(&["resume", "--dry-run"]).expect_success();
    assert!(
        plan.stdout
            .contains("it changes steps/2 (asks something else)"),
        "{}",
        plan.stdout
    );
    let output = sandbox.segno(&["resume"]).expect_success();
    assert_eq!(output.stdout, "new\n");
    assert_eq!(sandbox.calls()[3..], ["steps/2"]);
    let events = sandbox.segno(&["logs", "chain", "--json"]).expect_success();
    assert!(
        events.stdout.contains("step_discarded"),
        "{}",
        events.stdout
    );
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn edit_that_changes_nothing_says_so() {
    let sandbox = stopped_with(&PLAIN);
    let spec = sandbox.read("chain.yaml");
    sandbox.write(
        "chain.yaml",
        &format!("# a comment\ndescription: words\n{spec}"),
    );
    let output = sandbox
        .segno(&["resume", "--on-change", "refuse"])
        .expect_success();
    assert!(
        output
            .stderr
            .contains("only comments, formatting or descriptions changed"),
        "{}",
        output.stderr
    );
    assert_eq!(sandbox.calls().len(), 4);
}

#[test]
fn rerun_that_was_lost_is_continued_as_one() {
    let sandbox = edited();
    edit(&sandbox, "two after", "zwei nach");
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{step: steps/0, fail: {kind: auth, message: no key}}]\ndefault: {text: fine}\n",
    );
    sandbox
        .segno(&["resume", "--on-change", "rerun"])
        .refused(10, &[]);
    fix_answers(&sandbox);
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(
        sandbox.calls()[3..],
        ["steps/0", "steps/0", "steps/1", "steps/2"]
    );
}

#[test]
fn human_answer_stays_with_its_question() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: one"], "default: {text: fine}");
    let question = "      - {type: hitl, prompt: \"Publish it?\"}\n";
    let spec = sandbox.read("chain.yaml");
    sandbox.write("chain.yaml", &format!("{spec}{question}"));
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(19, &["Publish it?"]);
    // An open question that the edit replaces is asked anew.
    edit(&sandbox, "Publish it?", "Delete it?");
    sandbox.segno(&["resume"]).refused(19, &["Delete it?"]);
    sandbox.segno(&["answer", "chain", "yes"]).expect_success();
    edit(
        &sandbox,
        "\"Delete it?\"",
        "\"Delete it?\"}\n      - {agent: nobody",
    );
    edit(&sandbox, "agent: nobody", "agent: a, input: two");
    sandbox.segno(&["resume"]).expect_success();
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn hint_of_an_unusable_answer_works() {
    let sandbox = sandbox();
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{contains: Say JSON, text: '{\"route\": \"a\"}'}]\ndefault: {text: words}\n",
    );
    sandbox.write(
        "chain.yaml",
        "version: 0\nname: triage\nruntime: {provider: scripted, script: answers.yaml}\nagents: {b: {prompt: p}}\npattern: {type: routing, config: {router: {agent: b, input: Choose, max_retries: 1}, routes: {a: {then: [{id: only, agent: b}]}}}}\n",
    );
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(10, &["[R0105]", "`segno resume triage --on-change rerun`"]);
    edit(&sandbox, "input: Choose", "input: Say JSON");
    sandbox
        .segno(&["resume", "triage", "--on-change", "rerun"])
        .expect_success();
    assert_eq!(
        sandbox.calls(),
        ["router", "router#2", "router", "routes/a/steps/only"]
    );
}

#[test]
fn edit_that_starts_other_programs_needs_consent() {
    let sandbox = stopped_with(&PLAIN);
    edit(
        &sandbox,
        "runtime:",
        "tools: {mcp: [{id: fs, command: npx}]}\nruntime:",
    );
    let words = ["MCP server `fs` (`npx`)", "[R0119]"];
    for more in [
        &[][..],
        &["--json"],
        &["--dry-run"],
        &["--on-change", "warn"],
    ] {
        sandbox
            .segno(&[&["resume", "chain"], more].concat())
            .refused(19, &words);
    }
    assert_eq!(sandbox.calls().len(), 3);
    sandbox
        .segno(&["resume", "--on-change", "pinned"])
        .expect_success();
}

#[test]
fn consent_lets_the_edited_spec_start_its_programs() {
    let sandbox = stopped_with(&PLAIN);
    edit(
        &sandbox,
        "input: third",
        "input: third}\n      - {agent: other, input: four",
    );
    edit(
        &sandbox,
        "agents: {",
        "agents: {other: {prompt: p, provider: command, command: [sh, -c, 'echo started']}, ",
    );
    sandbox.segno(&["resume"]).refused(
        19,
        &["program `sh -c echo started`", "segno resume chain --yes"],
    );
    let output = sandbox.segno(&["resume", "--yes"]).expect_success();
    assert_eq!(output.stdout, "started\n");
}

#[test]
fn edit_by_an_agent_does_not_change_the_run() {
    let sandbox = sandbox();
    sandbox.write(
        "edit.sh",
        "sed -i 's/pass: two/pass: other/; s/sh, edit.sh/sh, other.sh/' chain.yaml\necho done\n",
    );
    sandbox.write(
        "chain.yaml",
        "version: 0\nname: chain\nruntime: {provider: command, command: [cat]}\nagents: {a: {prompt: p, command: [sh, edit.sh]}, b: {prompt: ''}}\npattern: {type: chain, config: {steps: [{id: x, agent: a}, {id: y, agent: b, input: 'pass: two'}, {id: z, type: hitl, prompt: Ok?}]}}\n",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(19, &["Ok?"]);
    assert!(sandbox.read("chain.yaml").contains("pass: other"));
    let shown = shown(&sandbox, "chain").to_string();
    assert!(!shown.contains("pass: other"), "{shown}");
    sandbox.segno(&["answer", "chain", "yes"]).expect_success();
    sandbox
        .segno(&["resume", "chain"])
        .refused(19, &["program `sh other.sh`", "[R0119]"]);
}
