//! Steps that fail and are retried.

use segno_testkit::sandbox::{chain_spec, run_to_end};

use crate::commands::{edit, fix_answers, of_kind, scripted, shown, until_gone};
use crate::sandbox;

fn numbers(lines: &[&serde_json::Value], key: &str) -> Vec<Option<u64>> {
    lines.iter().map(|line| line[key].as_u64()).collect()
}

#[test]
fn transient_failure_is_retried() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x"],
        "default: {text: fine, usage: {input_tokens: 5}, fail: {kind: server, message: busy, attempts: 2}}",
    );
    let output = sandbox
        .segno(&["run", "chain.yaml", "--json"])
        .expect_success();
    let lines = output.json();
    let failed = of_kind(&lines, "step_failed");
    assert_eq!(numbers(&failed, "attempt"), [Some(1), Some(2)]);
    assert_eq!(numbers(&failed, "retry_in_ms"), [Some(10), Some(10)]);
    assert_eq!(of_kind(&lines, "step_finished")[0]["attempt"], 3);
    assert_eq!(sandbox.calls().len(), 3);
    let shown = shown(&sandbox, "chain");
    assert_eq!(shown["steps"][0]["attempts"], 3);
    assert_eq!(shown["usage"]["input_tokens"], 15);
}

#[test]
fn run_that_failed_for_good_can_be_resumed_when_fixed() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: x", "input: y"],
        "answers: [{step: steps/1, fail: {kind: network, message: line is down}}]\ndefault: {text: fine}",
    );
    let output = sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    insta::assert_snapshot!(super::normalize(&sandbox, &output.stderr), @r"
    session chain ([ID])
      … steps/0 a
      ✓ steps/0 [TOOK]
      … steps/1 a
      ✗ steps/1 attempt 1: line is down (network); retry in [TOOK]
      … steps/1 a (attempt 2)
      ✗ steps/1 attempt 2: line is down (network); retry in [TOOK]
      … steps/1 a (attempt 3)
      ✗ steps/1 attempt 3: line is down (network); gives up
    error: step steps/1 (agent `a`) failed after 3 attempts: line is down [R0101]
      hint: `segno resume chain` retries from this step
    ");
    fix_answers(&sandbox);
    let output = sandbox.segno(&["resume", "--json"]).expect_success();
    let lines = output.json();
    assert_eq!(of_kind(&lines, "step_finished")[0]["attempt"], 4);
    assert_eq!(sandbox.calls().len(), 5);
}

#[test]
fn permanent_failure_is_not_retried() {
    for kind in ["auth", "context_full", "not_found", "invalid"] {
        let sandbox = sandbox();
        let answers = format!("default: {{fail: {{kind: {kind}}}}}");
        scripted(&sandbox, &["input: x"], &answers);
        sandbox
            .segno(&["run", "chain.yaml"])
            .refused(10, &["after 1 attempt:", kind, "fix the cause"]);
        assert_eq!(sandbox.calls().len(), 1);
    }
}

#[test]
fn no_retries_means_one_attempt() {
    let sandbox = sandbox();
    scripted(&sandbox, &["input: x"], "default: {fail: {kind: server}}");
    edit(&sandbox, "retries: 2", "retries: 0");
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(10, &["after 1 attempt:"]);
    assert_eq!(sandbox.calls().len(), 1);
}

#[test]
fn agent_that_times_out_is_killed() {
    let sandbox = sandbox();
    super::waiting_chain(&sandbox, 1, 0);
    edit(
        &sandbox,
        "command: [./agent.sh]",
        "command: [./agent.sh], timeout_s: 0.5, failure_policy: {retries: 0}",
    );
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(10, &["no answer within 500 ms", "[R0101]"]);
    until_gone(sandbox.read("agent.pid").trim());
    assert_eq!(
        shown(&sandbox, "chain")["steps"][0]["error"]["kind"],
        "timeout"
    );
}

#[test]
fn missing_program_is_named_with_a_hint() {
    let correct = "hint: install it, or correct the `command` of the spec; then";
    for (runtime, message, hint) in [
        (
            "provider: claude-code",
            "`claude` was not found on PATH",
            "hint: npm install -g @anthropic-ai/claude-code, or set `[claude-code] program`; then",
        ),
        (
            "provider: codex",
            "`codex` was not found on PATH",
            "hint: npm install -g @openai/codex, or set `[codex] program`; then",
        ),
        (
            "provider: acp, command: [no-such-agent]",
            "`no-such-agent` was not found on PATH",
            correct,
        ),
        (
            "provider: command, command: [no-such-agent]",
            "`no-such-agent` was not found on PATH",
            correct,
        ),
        (
            "provider: command, command: [./nobody.sh]",
            "/nobody.sh` was not found",
            correct,
        ),
    ] {
        let sandbox = sandbox();
        sandbox.write("chain.yaml", &chain_spec(&format!("{{{runtime}}}"), 1));
        let mut command = sandbox.command(&["run", "chain.yaml"]);
        command.env("PATH", "/nowhere");
        let output = run_to_end(command).refused(10, &[message, "[A0107]", hint]);
        assert!(!output.stderr.contains("os error"), "{output:?}");
        assert!(output.stderr.contains("after 1 attempt:"), "{output:?}");
    }
    // A file without its interpreter, and one that may not be executed.
    let sandbox = sandbox();
    sandbox.command_chain(1, "");
    sandbox.write_script("agent.sh", "#!/nowhere/sh\n");
    let refused = |words: &[&str]| drop(sandbox.segno(&["run", "chain.yaml"]).refused(10, words));
    refused(&[
        "/agent.sh` was not found, or the interpreter in its first line",
        "[A0107]",
    ]);
    sandbox.write(
        "chain.yaml",
        &sandbox.read("chain.yaml").replace("./agent.sh", "/"),
    );
    refused(&["cannot be started: Permission denied", "[R0101]"]);
}
