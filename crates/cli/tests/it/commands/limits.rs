//! Rate limits with a known reset time.

use std::process::Child;

use rustix::process::Signal;
use segno_testkit::sandbox::{Sandbox, run_to_end, wait_until};
use serde_json::Value;

use crate::commands::{Live, edit, of_kind, scripted, shown};
use crate::sandbox;

/// One step that hits a limit this many times.
fn limited(attempts: u32, retry_after_ms: u64) -> Sandbox {
    let sandbox = sandbox();
    let answers = format!(
        "default: {{text: fine, usage: {{input_tokens: 60}}, fail: {{kind: rate_limited, message: slow down, attempts: {attempts}, retry_after_ms: {retry_after_ms}}}}}"
    );
    scripted(&sandbox, &["input: x"], &answers);
    sandbox
}

fn add_continuity(sandbox: &Sandbox, more: &str) {
    let spec = sandbox.read("chain.yaml");
    sandbox.write("chain.yaml", &format!("{spec}continuity: {{{more}}}\n"));
}

/// The newest event that makes a step wait.
fn last_failure(sandbox: &Sandbox) -> Option<Value> {
    let output = sandbox.segno(&["logs", "--json"]);
    let lines = output.status.success().then(|| output.json())?;
    of_kind(&lines, "step_failed").last().copied().cloned()
}

/// Starts a run, and returns when it waits for a limit.
fn start_limited(sandbox: &Sandbox, words: &[&str]) -> Child {
    let child = sandbox.start(words);
    wait_until("it waits", || last_failure(sandbox).is_some());
    child
}

#[test]
fn limit_with_a_reset_time_uses_no_retries() {
    let sandbox = limited(4, 25);
    edit(&sandbox, "retries: 2", "retries: 0");
    let output = sandbox
        .segno(&["run", "chain.yaml", "--json"])
        .expect_success();
    let lines = output.json();
    let failed = of_kind(&lines, "step_failed");
    assert_eq!(failed.len(), 4);
    assert!(failed.iter().all(|line| line["retry_in_ms"] == 25));
    assert_eq!(failed[0]["suspended"]["provider"], "scripted");
    let until = |line: &Value| line["suspended"]["until"].as_str().unwrap().to_owned();
    let started = of_kind(&lines, "step_started");
    for (failed, again) in failed.iter().zip(&started[1..]) {
        assert!(again["at"].as_str().unwrap() >= until(failed).as_str());
    }
    assert_eq!(sandbox.calls().len(), 5, "asked once more each time");
}

#[test]
fn waiting_session_shows_its_reset_time() {
    let sandbox = limited(1, 600_000);
    let mut child = start_limited(&sandbox, &["run", "chain.yaml"]);
    let until_then = last_failure(&sandbox).unwrap()["suspended"]["until"].clone();
    for words in [
        &["status", "--json"][..],
        &["sessions", "list", "--json"],
        &["show", "chain", "--json"],
    ] {
        let line = sandbox.segno(words).expect_success().json().remove(0);
        assert_eq!(line["status"], "running", "{words:?}");
        assert_eq!(line["suspended"]["until"], until_then, "{words:?}");
        assert_eq!(line["suspended"]["provider"], "scripted");
        assert_eq!(line["suspended"]["path"], "steps/0");
    }
    for words in [
        &["status"][..],
        &["sessions", "list"],
        &["show", "chain"],
        &["logs"],
    ] {
        let mut command = sandbox.command(words);
        // Five hours and three quarters ahead of UTC, all year.
        command.env("TZ", "Asia/Kathmandu").env("COLUMNS", "200");
        let output = run_to_end(command).expect_success();
        assert!(
            output.stdout.contains("suspended until 2")
                && output.stdout.contains(" +05:45 (rate limit of scripted)"),
            "{words:?}: {output:?}"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(sandbox.calls().len(), 1);
}

#[test]
fn resume_waits_for_the_rest_and_calls_once() {
    let sandbox = limited(1, 2500);
    let mut child = start_limited(&sandbox, &["run", "chain.yaml"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let until_then = last_failure(&sandbox).unwrap()["suspended"]["until"].clone();
    let plan = sandbox
        .segno(&["resume", "--dry-run", "--json"])
        .expect_success();
    assert_eq!(plan.json()[0]["steps"][0]["suspended"]["until"], until_then);
    let plan = sandbox.segno(&["resume", "--dry-run"]).expect_success();
    assert!(plan.stdout.contains("suspended until 2"), "{plan:?}");
    let plan = sandbox.segno(&["resume", "--dry-run", "--on-limit", "ask"]);
    assert!(!plan.expect_success().stdout.contains("suspended"));

    let output = sandbox.segno(&["resume", "--json"]).expect_success();
    let lines = output.json();
    assert_eq!(of_kind(&lines, "step_suspended")[0]["until"], until_then);
    let again = of_kind(&lines, "step_started")[0]["at"].as_str().unwrap();
    assert!(again >= until_then.as_str().unwrap(), "{again}");
    assert_eq!(sandbox.calls().len(), 2);
    let ended = sandbox.segno(&["status", "--json"]).expect_success();
    assert_eq!(ended.json(), Vec::<Value>::new());
}

#[test]
fn expired_limit_is_not_waited_for() {
    let sandbox = limited(1, 300);
    let mut child = start_limited(&sandbox, &["run", "chain.yaml"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let until_then = last_failure(&sandbox).unwrap()["suspended"]["until"].clone();
    wait_until("the limit is lifted", || {
        let status = sandbox
            .segno(&["status", "--json"])
            .expect_success()
            .json()
            .remove(0);
        status["suspended"].is_null()
    });
    let output = sandbox.segno(&["resume", "--json"]).expect_success();
    let lines = output.json();
    assert!(of_kind(&lines, "step_suspended").is_empty(), "{until_then}");
    assert_eq!(sandbox.calls().len(), 2);
}

#[test]
fn resumed_wait_is_reported_and_can_be_stopped() {
    let sandbox = limited(1, 600_000);
    let mut child = start_limited(&sandbox, &["run", "chain.yaml"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let live = Live::start(&sandbox, &["resume"]);
    wait_until("it says that it waits", || {
        live.stderr().contains("… steps/0 suspended until 2")
    });
    live.signal(Signal::INT);
    live.finish()
        .refused(130, &["session `chain` is paused, requested by Ctrl-C"]);
    assert_eq!(sandbox.calls().len(), 1);
    let shown = shown(&sandbox, "chain");
    assert_eq!(shown["status"], "paused");
    assert!(shown["suspended"]["until"].is_string(), "{shown}");
}

#[test]
fn limit_beyond_the_policy_pauses_the_run() {
    for (policy, words) in [
        ("on_limit: pause", "`on_limit` is `pause`"),
        ("max_wait_s: 60", "`max_wait_s` is 1 min 00 s"),
        ("max_total_wait_s: 60", "`max_total_wait_s` is 1 min 00 s"),
    ] {
        let sandbox = limited(1, 600_000);
        add_continuity(&sandbox, policy);
        sandbox.segno(&["run", "chain.yaml"]).refused(
            20,
            &[
                "suspended: step steps/0 is suspended until 2",
                "(rate limit of scripted)",
                words,
                "[R0123]",
                "after that, `segno resume chain` continues; `--on-limit ask` sends a request now",
            ],
        );
        assert_eq!(shown(&sandbox, "chain")["status"], "paused");
        if policy.starts_with("on_limit") {
            // Too early: no agent is called.
            let output = sandbox.segno(&["resume", "chain"]);
            output.refused(20, &[words, "[R0123]"]);
            assert_eq!(sandbox.calls().len(), 1);
        }
        sandbox
            .segno(&["resume", "chain", "--on-limit", "ask"])
            .expect_success();
        assert_eq!(sandbox.calls().len(), 2, "{policy}");
    }
}

#[test]
fn a_used_up_budget_ends_the_run_instead_of_a_wait() {
    let sandbox = limited(1, 600_000);
    edit(
        &sandbox,
        "failure_policy",
        "budgets: {max_tokens: 50}\n  failure_policy",
    );
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(20, &["reached its limit `max_tokens`: 60 of 50"]);
    sandbox
        .segno(&["resume", "chain"])
        .refused(20, &["reached its limit `max_tokens`"]);
    assert_eq!(sandbox.calls().len(), 1, "nobody is asked again");
}

#[test]
fn repeated_limits_of_concurrent_steps_give_a_tip() {
    for (max_parallel, branches, attempts, given) in
        [(4, 4, 1, true), (2, 2, 2, true), (1, 4, 1, false)]
    {
        let sandbox = sandbox();
        sandbox.write(
            "answers.yaml",
            &format!("default: {{text: fine, delay_ms: 20, fail: {{kind: rate_limited, message: slow down, attempts: {attempts}, retry_after_ms: 25}}}}\n"),
        );
        let branch = |id: &str| format!("{{id: {id}, steps: [{{agent: a, input: x}}]}}");
        let branches = ["a", "b", "c", "d"].map(branch)[..branches].join(", ");
        sandbox.write(
            "fan.yaml",
            &format!(
                "version: 0\nname: fan\nruntime: {{provider: scripted, script: answers.yaml, max_parallel: {max_parallel}}}\nagents: {{a: {{prompt: Briefly.}}}}\npattern: {{type: parallel, config: {{branches: [{branches}]}}}}\n"
            ),
        );
        let output = sandbox.segno(&["run", "fan.yaml"]).expect_success();
        let tip =
            format!("a `runtime.max_parallel` below {max_parallel} in the spec makes fewer calls");
        assert_eq!(output.stderr.contains(&tip), given, "{}", output.stderr);
    }
}
