//! Forks: new sessions from the finished steps of others.

use std::collections::BTreeSet;

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use crate::commands::{
    edit, failing_chain, fix_answers, keys, normalize, scripted, session_statuses, shown, tree,
    write_asking_workflow,
};
use crate::sandbox;

/// A completed session `chain` of three steps, each of which uses the answer before it.
fn completed_session() -> Sandbox {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    fix_answers(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    sandbox
}

fn logs(sandbox: &Sandbox, session: &str) -> Vec<Value> {
    sandbox
        .segno(&["logs", session, "--json"])
        .expect_success()
        .json()
}

fn paths(session: &Value) -> BTreeSet<String> {
    let steps = session["steps"].as_array().unwrap().iter();
    steps
        .map(|step| step["path"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn fork_before_a_step_repeats_nothing_before_it() {
    let sandbox = completed_session();
    let before = logs(&sandbox, "chain");
    let output = sandbox
        .segno(&["fork", "chain", "--before", "steps/1"])
        .expect_success();
    insta::assert_snapshot!(normalize(&sandbox, &output.stdout), @r"
    forked chain into chain-fork ([ID]), paused: 1 step done
    resume it with `segno resume chain-fork`
    ");
    assert_eq!(
        session_statuses(&sandbox),
        [
            ("chain-fork".into(), "paused".into()),
            ("chain".into(), "completed".into())
        ]
    );
    let calls = sandbox.calls().len();
    let output = sandbox.segno(&["resume", "chain-fork"]).expect_success();
    assert!(
        output.stderr.contains("resumed: 1 of 3 steps"),
        "{}",
        output.stderr
    );
    assert_eq!(sandbox.calls()[calls..], ["steps/1", "steps/2"]);
    assert_eq!(logs(&sandbox, "chain"), before);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn fork_names_its_origin() {
    let sandbox = completed_session();
    sandbox
        .segno(&["fork", "chain", "--before", "steps/2"])
        .expect_success();
    let events = logs(&sandbox, "chain-fork");
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "session_created",
            "run_started",
            "session_forked",
            "step_started",
            "step_finished",
            "step_started",
            "step_finished",
            "run_ended"
        ]
    );
    let (copy, from) = (shown(&sandbox, "chain-fork"), shown(&sandbox, "chain"));
    let origin = &copy["forked_from"];
    assert_eq!(keys(origin), "before checkpoint name seq session");
    assert_eq!(origin["session"], from["session"]);
    assert_eq!(
        (&origin["seq"], &origin["before"]),
        (&6.into(), &"steps/2".into())
    );
    assert!(from["forked_from"].is_null());
    let output = sandbox.segno(&["show", "chain-fork"]).expect_success();
    assert!(
        normalize(&sandbox, &output.stdout).contains("fork of  chain ([ID]), before steps/2"),
        "{}",
        output.stdout
    );
    let output = sandbox.segno(&["logs", "chain-fork"]).expect_success();
    assert!(
        output.stdout.contains("forked from chain"),
        "{}",
        output.stdout
    );
}

#[test]
fn fork_without_a_step_copies_all_finished_steps() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    fix_answers(&sandbox);
    let output = sandbox
        .segno(&["fork", "chain", "--run", "--json"])
        .expect_success();
    let lines = output.json();
    assert_eq!(
        keys(&lines[0]),
        "checkpoint disarmed from kind name rescue session status steps_finished v workspace"
    );
    assert_eq!(lines[0]["steps_finished"], 2);
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["steps_skipped"]),
        (&"result".into(), &2.into())
    );
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/2", "steps/2"]
    );
    assert_eq!(shown(&sandbox, "chain")["status"], "failed");
}

#[test]
fn fork_copies_only_finished_parallel_steps() {
    let sandbox = sandbox();
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\nanswers: [{step: branches/left/steps/0, text: slow, delay_ms: 400}]\ndefault: {text: fine}\n",
    );
    let branch =
        |id: &str| format!("{{id: {id}, steps: [{{agent: a, input: x}}, {{agent: a, input: y}}]}}");
    sandbox.write(
        "both.yaml",
        &format!(
            "version: 0\nname: both\nruntime: {{provider: scripted, script: answers.yaml, max_parallel: 2}}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: parallel\n  config:\n    branches: [{}, {}]\n",
            branch("left"),
            branch("right")
        ),
    );
    sandbox.segno(&["run", "both.yaml"]).expect_success();
    let step = "branches/right/steps/1";
    let events = logs(&sandbox, "both");
    let finished: BTreeSet<String> = events
        .iter()
        .take_while(|event| !(event["kind"] == "step_started" && event["path"] == step))
        .filter(|event| event["kind"] == "step_finished")
        .map(|event| event["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(finished, ["branches/right/steps/0".to_owned()].into());
    sandbox
        .segno(&["fork", "both", "--before", step])
        .expect_success();
    assert_eq!(paths(&shown(&sandbox, "both-fork")), finished);
    let calls = sandbox.calls().len();
    sandbox.segno(&["resume", "both-fork"]).expect_success();
    let again: BTreeSet<_> = sandbox.calls()[calls..].iter().cloned().collect();
    let expected = ["branches/left/steps/0", "branches/left/steps/1", step];
    assert_eq!(again, expected.map(str::to_owned).into());
    // A common path prefix names a whole branch.
    let output = sandbox
        .segno(&["fork", "both", "--before", "branches/left", "--json"])
        .expect_success();
    assert_eq!(output.json()[0]["name"], "both-fork-2");
}

#[test]
fn unknown_step_is_reported_with_similar_ones() {
    let sandbox = completed_session();
    sandbox
        .segno(&["fork", "chain", "--before", "step/1"])
        .refused(
            17,
            &["no step `step/1`", "did you mean `steps/1`", "[S0114]"],
        );
    sandbox
        .segno(&["fork", "chain", "--before", "elsewhere"])
        .refused(17, &["[S0114]", "segno show chain --all"]);
    assert_eq!(session_statuses(&sandbox).len(), 1);
}

#[test]
fn fork_can_run_an_edited_spec() {
    let sandbox = completed_session();
    sandbox
        .segno(&["fork", "chain", "--before", "steps/1", "--name", "other"])
        .expect_success();
    edit(&sandbox, "two after", "deux after");
    let output = sandbox.segno(&["resume", "other"]).expect_success();
    assert!(
        output.stderr.contains("it changes steps/1"),
        "{}",
        output.stderr
    );
    let full = sandbox
        .segno(&["logs", "other", "--full"])
        .expect_success()
        .stdout;
    assert!(full.contains("| deux after fine"), "{full}");
    sandbox
        .segno(&["fork", "chain", "--name", "other"])
        .refused(17, &["other", "[S0102]"]);
}

#[test]
fn fork_copies_answers_of_users() {
    let sandbox = sandbox();
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    sandbox
        .segno(&["answer", "report", "yes", "--resume"])
        .expect_success();
    let output = sandbox
        .segno(&["fork", "report", "--before", "steps/2", "--run"])
        .expect_success();
    assert!(output.stdout.ends_with("published\n"), "{}", output.stdout);
    assert_eq!(sandbox.calls(), ["steps/0", "steps/2", "steps/2"]);
    // A fork before the question asks it again.
    sandbox
        .segno(&["fork", "report", "--before", "steps/1", "--run"])
        .refused(19, &["Publish it?"]);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn fork_does_not_overwrite_artifacts_of_its_original() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--force"])
        .expect_success();
    let before = sandbox.read("artifacts/out.txt");
    sandbox.write(
        "answers.yaml",
        "ledger: calls.log\ndefault: {text: another}\n",
    );
    let fork = ["fork", "chain", "--before", "steps/1", "--run"];
    sandbox
        .segno(&fork)
        .refused(12, &["out.txt exists", "[F0202]"]);
    sandbox
        .segno(&[fork.as_slice(), &["--out", "apart"]].concat())
        .expect_success();
    assert_eq!(sandbox.read("apart/out.txt"), "another");
    assert_eq!(sandbox.read("artifacts/out.txt"), before);
}

#[test]
fn fork_keeps_its_texts_when_its_original_is_deleted() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x", "input: \"{{ steps[0].response | length }}\""],
        "default: {repeat: {text: x, bytes: 300000}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    sandbox
        .segno(&["fork", "chain", "--before", "steps/1"])
        .expect_success();
    sandbox
        .segno(&["sessions", "delete", "chain", "--permanent", "--yes"])
        .expect_success();
    for path in tree(&sandbox.home().join("blobs")) {
        if path.is_file() {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
    }
    sandbox
        .segno(&["sessions", "trash", "--empty"])
        .expect_success();
    sandbox.segno(&["doctor"]).expect_success();
    sandbox.segno(&["resume", "chain-fork"]).expect_success();
    let full = sandbox
        .segno(&["logs", "chain-fork", "--full"])
        .expect_success();
    assert!(full.stdout.contains("| 300000"), "{}", full.stdout);
}

#[test]
#[cfg(feature = "failpoints")]
fn killed_fork_leaves_nothing_or_the_whole_fork() {
    use segno_core::fault::Point;
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x", "input: y"],
        "default: {repeat: {text: x, bytes: 300000}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let mut kills = 0;
    for point in Point::ALL {
        for visit in 1.. {
            let name = format!("{}-{visit}", point.name());
            let mut command = sandbox.command(&["fork", "chain", "--name", &name]);
            command.env("SEGNO_FAILPOINT", format!("{}:{visit}", point.name()));
            let output = segno_testkit::sandbox::run_to_end(command);
            let crashed = output.crashed();
            kills += usize::from(crashed);
            let all = session_statuses(&sandbox);
            assert!(crashed || all.len() == 2, "{name}: {all:?}");
            if all.len() == 2 {
                assert_eq!(all[0], (name.clone(), "paused".into()));
                assert_eq!(shown(&sandbox, &name)["steps_finished"], 2, "{name}");
                sandbox
                    .segno(&["sessions", "delete", &name, "--permanent", "--yes"])
                    .expect_success();
            }
            if !crashed {
                break;
            }
        }
    }
    assert!(kills >= 5, "{kills} kills");
    sandbox.segno(&["doctor"]).expect_success();
}
