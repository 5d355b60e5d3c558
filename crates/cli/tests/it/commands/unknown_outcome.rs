//! Users say what became of steps whose run was killed while they were in flight.

use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::{Value, json};

use crate::commands::{Live, edit, normalize, root, shown, start_waiting, waiting_chain};
use crate::sandbox;

/// A session of a chain with three steps that was killed with `steps/1` in flight.
fn lost_chain(settings: &str) -> Sandbox {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    edit(&sandbox, "name: chain", &format!("name: chain\n{settings}"));
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    sandbox
}

fn events(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    let mut events = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .json();
    events.retain(|event| event["kind"] == kind);
    events
}

fn event_count(sandbox: &Sandbox) -> usize {
    let output = sandbox.segno(&["logs", "chain", "--json"]);
    output.expect_success().json().len()
}

fn planned(sandbox: &Sandbox, words: &[&str]) -> Value {
    let words = [&["resume", "chain", "--dry-run", "--json"], words].concat();
    sandbox.segno(&words).expect_success().json().remove(0)
}

#[test]
fn step_that_took_effect_is_finished_with_its_result() {
    let sandbox = lost_chain("continuity: {in_flight: stop}");
    let done = ["--in-flight", "done", "--result", "bill 7 is paid"];
    let plan = planned(&sandbox, &[]);
    assert_eq!(plan["unresolved"], json!(["steps/1"]));
    assert_eq!(plan["steps"][0]["outcome"], "unknown");
    let plan = planned(&sandbox, &done);
    assert_eq!(plan["unresolved"], json!([]));
    assert_eq!(plan["steps"][0]["outcome"], "done");
    let words = [&["resume", "chain"][..], &done[..]].concat();
    let mut command = sandbox.command(&words);
    command.env("USER", "ann");
    let output = segno_testkit::sandbox::run_to_end(command).expect_success();
    assert_eq!(output.stdout, "answer of steps/2\n");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
    let said = &events(&sandbox, "step_resolved")[0];
    assert_eq!(
        (&said["outcome"], &said["by"]),
        (&json!("done"), &json!("ann"))
    );
    let finished = events(&sandbox, "step_finished");
    assert_eq!(finished[1]["output"], "bill 7 is paid");
    assert_eq!(finished[1]["attempt"], 1);
    let asked = &events(&sandbox, "step_started")[2]["input"];
    assert_eq!(asked, "2 after bill 7 is paid");
    assert_eq!(shown(&sandbox, "chain")["steps_finished"], 3);
}

#[test]
fn failed_attempt_is_retried_where_the_spec_retries() {
    let sandbox = lost_chain("");
    edit(
        &sandbox,
        "command: [./agent.sh]",
        "command: [./agent.sh], failure_policy: {retries: 1, wait_min: 0, wait_max: 0}",
    );
    let failed = ["--in-flight", "failed", "--result", "no bill was sent"];
    let plan = planned(&sandbox, &failed);
    assert_eq!(plan["steps"][0]["outcome"], "failed");
    assert_eq!(plan["steps"][0]["retried"], true);
    sandbox
        .segno(&[&["resume", "chain"][..], &failed[..]].concat())
        .expect_success();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
    let failure = &events(&sandbox, "step_failed")[0];
    let message = failure["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("no bill was sent (reported by "),
        "{message}"
    );
    assert_eq!(
        (&failure["attempt"], &failure["retry_in_ms"]),
        (&json!(1), &json!(0))
    );
}

#[test]
fn failed_attempt_without_retries_fails_the_step() {
    let sandbox = lost_chain("");
    edit(
        &sandbox,
        "command: [./agent.sh]",
        "command: [./agent.sh], failure_policy: {retries: 0}",
    );
    let failed = ["--in-flight", "failed", "--result", "no bill was sent"];
    let plan = planned(&sandbox, &failed);
    assert_eq!(plan["steps"][0]["retried"], false);
    sandbox
        .segno(&[&["resume", "chain"][..], &failed[..]].concat())
        .refused(10, &["no bill was sent (reported by"]);
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
    let notes = sandbox.segno(&["note", "list", "chain"]).expect_success();
    assert!(notes.stdout.contains("no bill was sent"), "{notes:?}");
    // The next resume starts the step again, like after any failure.
    sandbox.segno(&["resume", "chain"]).expect_success();
    assert_eq!(sandbox.calls().len(), 4);
}

#[test]
fn open_outcomes_are_shown_with_the_commands_that_resolve_them() {
    let sandbox = lost_chain("");
    let output = sandbox.segno(&["show", "chain"]).expect_success();
    let listed = output.stdout.split_once("\nthe outcome").unwrap().1;
    insta::assert_snapshot!(normalize(&sandbox, listed), @r"
     of step steps/1 is unknown; say it with
      segno resume chain --in-flight done --result TEXT
      segno resume chain --in-flight failed
      segno resume chain --in-flight repeat

    resume it with `segno resume chain`
    ");
    let resolve = &shown(&sandbox, "chain")["steps"][1]["resolve"];
    assert_eq!(resolve.as_array().unwrap().len(), 3);
    let status = sandbox.segno(&["status", "--json"]).expect_success();
    let unknown = &status.json()[0]["unknown_steps"];
    assert_eq!(unknown[0]["path"], "steps/1");
    assert_eq!(&unknown[0]["resolve"], resolve);
    let status = sandbox.segno(&["status"]).expect_success().stdout;
    assert!(
        status.contains("the outcome of step steps/1 is unknown"),
        "{status}"
    );
    // The shown commands work.
    for (command, calls) in [(1, 3), (2, 4)] {
        let sandbox = lost_chain("");
        let resolve = &shown(&sandbox, "chain")["steps"][1]["resolve"];
        let words: Vec<&str> = resolve[command].as_str().unwrap().split(' ').collect();
        let _ = sandbox.segno(&words[1..]);
        assert!(sandbox.calls().len() >= calls, "{:?}", sandbox.calls());
    }
}

#[test]
fn wrong_decisions_change_nothing() {
    let sandbox = lost_chain("");
    let before = event_count(&sandbox);
    for (words, code, says) in [
        (&["--in-flight", "done"][..], 2, "needs the result"),
        (&["--in-flight", "repeat", "--result", "x"], 2, "--result"),
        (&["--result", "x"], 2, "--in-flight"),
        (
            &["--in-flight", "done", "--result", "@no-file"],
            2,
            "no-file cannot be read",
        ),
        (
            &["--in-flight", "failed", "--step", "steps/0"],
            17,
            "no step of session `chain` has an unknown outcome at steps/0 [R0164]",
        ),
        (
            &["--fork", "--in-flight", "failed"],
            2,
            "not about a fork of it",
        ),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let words = [&["resume", "chain"], words, more].concat();
            sandbox.segno(&words).refused(code, &[says]);
        }
    }
    assert_eq!(event_count(&sandbox), before);
    sandbox.segno(&["resume", "chain"]).expect_success();
    sandbox
        .segno(&["resume", "chain", "--in-flight", "failed"])
        .refused(17, &["[S0108]"]);
}

#[test]
fn result_is_checked_redacted_and_stored_like_an_answer() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    edit(
        &sandbox,
        "{prompt: Answer.}",
        "{prompt: Answer., output_schema: {type: object, required: [paid]}}",
    );
    let agent = sandbox.read("agent.sh");
    let answers = agent.replace(
        "cat > /dev/null",
        "cat > /dev/null; echo '{\"paid\": false}'",
    );
    sandbox.write_script("agent.sh", &answers);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.write("go", "");
    let resume = |result: &str| {
        let words = ["resume", "chain", "--in-flight", "done", "--result", result];
        sandbox.segno(&words)
    };
    let before = event_count(&sandbox);
    resume("it is paid").refused(2, &["cannot be that of step steps/1", "[R0166]"]);
    assert_eq!(event_count(&sandbox), before);
    let secret = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";
    let long = "x".repeat(300 * 1024);
    // Outside of the workspace, whose files are captured as they are.
    let result = format!("{{\"paid\": true, \"key\": \"{secret}\", \"more\": \"{long}\"}}");
    std::fs::write(root(&sandbox).join("result.json"), result).unwrap();
    resume("@../result.json").expect_success();
    let said = &events(&sandbox, "step_resolved")[0];
    assert!(said["text"]["blob"].is_string(), "{said}");
    let mut finished = events(&sandbox, "step_finished").into_iter();
    let finished = finished.find(|event| event["path"] == "steps/1").unwrap();
    assert_eq!(finished["output"], said["text"]);
    for file in walk(&sandbox.home()) {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!found, "{}", file.display());
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            files.extend(walk(&path));
        } else if entry.file_type().unwrap().is_file() {
            files.push(path);
        }
    }
    files
}

/// Two branches that were in flight when their run was killed.
fn lost_branches(settings: &str) -> Sandbox {
    let sandbox = sandbox();
    sandbox.command_chain(1, "while [ ! -e go ]; do sleep 0.01; done");
    let spec = format!(
        "version: 0\nname: chain\n{settings}\nruntime: {{provider: command, command: [./agent.sh], max_parallel: 2}}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: parallel\n  config:\n    branches:\n      - {{id: left, steps: [{{agent: a, input: l}}]}}\n      - {{id: right, steps: [{{agent: a, input: r}}]}}\n"
    );
    sandbox.write("chain.yaml", &spec);
    let live = Live::start(&sandbox, &["run", "chain.yaml"]);
    wait_until("both agents work", || sandbox.calls().len() == 2);
    live.kill();
    sandbox.write("go", "");
    sandbox
}

#[test]
fn one_of_several_steps_must_be_named() {
    let sandbox = lost_branches("continuity: {in_flight: stop}");
    let (left, right) = ("branches/left/steps/0", "branches/right/steps/0");
    let before = event_count(&sandbox);
    sandbox
        .segno(&["resume", "--in-flight", "done", "--result", "l"])
        .refused(2, &[left, right, "[R0165]", "--step"]);
    assert_eq!(event_count(&sandbox), before);
    let done = |step| {
        [
            "resume",
            "--in-flight",
            "done",
            "--result",
            "said",
            "--step",
            step,
        ]
    };
    // What is said about one is recorded, though the other one is still left to the user.
    let mut command = sandbox.command(&done(left));
    command.env("USER", "ann");
    segno_testkit::sandbox::run_to_end(command).refused(19, &[right, "[R0103]"]);
    let step = &shown(&sandbox, "chain")["steps"][0];
    assert_eq!(step["said"], json!({"outcome": "done", "by": "ann"}));
    assert_eq!(step["resolve"], Value::Null);
    let status = sandbox.segno(&["status", "--json"]).expect_success();
    let unknown = status.json()[0]["unknown_steps"].clone();
    assert_eq!(unknown.as_array().unwrap().len(), 1);
    sandbox.segno(&done(right)).expect_success();
    assert_eq!(sandbox.calls().len(), 2);
    let finished = events(&sandbox, "step_finished");
    assert_eq!(finished.len(), 2);
    assert!(finished.iter().all(|event| event["output"] == "said"));
}

#[test]
fn other_steps_follow_the_policy() {
    let sandbox = lost_branches("");
    let left = "branches/left/steps/0";
    sandbox
        .segno(&[
            "resume",
            "--in-flight",
            "done",
            "--result",
            "said",
            "--step",
            left,
        ])
        .expect_success();
    let mut calls = sandbox.calls();
    calls.sort();
    let right = "branches/right/steps/0";
    assert_eq!(calls, [left, right, right]);
}

#[test]
fn ask_without_a_terminal_stops() {
    let sandbox = lost_chain("");
    sandbox.segno(&["resume", "--in-flight", "ask"]).refused(
        19,
        &["steps/1", "[R0103]", "--in-flight done --result TEXT"],
    );
    assert_eq!(sandbox.calls().len(), 2);
}

/// Kills the resume that resolves a step at every commit and around it. What the user said is in the
/// journal or is not, and the step is called once in either case.
#[test]
#[cfg(feature = "failpoints")]
fn killed_resolution_is_there_or_not() {
    let done = ["resume", "chain", "--in-flight", "done", "--result", "paid"];
    let (mut kills, mut recorded) = (0, 0);
    for point in [
        "lease.after_acquire",
        "journal.before_commit",
        "journal.after_commit",
        "journal.after_ack_marker",
        "step.before_effect",
        "step.after_effect",
        "run.before_end",
    ] {
        for visit in 1.. {
            let sandbox = lost_chain("continuity: {in_flight: stop}");
            let mut command = sandbox.command(&done);
            command.env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
            if !segno_testkit::sandbox::run_to_end(command).crashed() {
                break;
            }
            kills += 1;
            let said = events(&sandbox, "step_resolved").len();
            let finished = events(&sandbox, "step_finished").len();
            let place = format!("{point}:{visit}: {said} said, {finished} finished");
            if said == 0 {
                assert_eq!(finished, 1, "{place}");
                sandbox.segno(&["resume", "chain"]).refused(19, &["R0103"]);
                sandbox.segno(&done).expect_success();
            } else {
                recorded += 1;
                if shown(&sandbox, "chain")["status"] != "completed" {
                    // A later step may have been in flight at the kill.
                    sandbox
                        .segno(&["resume", "chain", "--in-flight", "repeat"])
                        .expect_success();
                }
            }
            let calls = sandbox.calls();
            let times = calls.iter().filter(|step| *step == "steps/1").count();
            assert_eq!(times, 1, "{place}: {calls:?}");
            let output = &events(&sandbox, "step_finished")[1]["output"];
            assert_eq!(output, "paid", "{place}");
            assert_eq!(events(&sandbox, "step_resolved").len(), 1, "{place}");
            sandbox.segno(&["doctor"]).expect_success();
        }
    }
    assert!(
        kills > 8 && recorded > 4,
        "{kills} kills, {recorded} recorded"
    );
}
