//! What a session used, and which tools its agents were refused, with a program in the place of
//! Claude Code.

use segno_testkit::sandbox::{ProcessOutput, Sandbox};
use serde_json::{Value, json};

use super::checkpoint::{create_checkpoint, id};
use super::{scripted, shown};
use crate::sandbox;

/// A program in the place of Claude Code. It keeps a transcript, and writes the records in `answer`.
const CLAUDE: &str = r#"#!/bin/sh
for word in "$@"; do
  case "$word" in --session-id=*|--resume=*) id=${word#*=} ;; esac
done
cat > /dev/null
folder=$HOME/.claude/projects/p
mkdir -p "$folder"
record() { printf '{"type":"%s","uuid":"%s","parentUuid":%s,"sessionId":"%s","message":%s}\n' "$@" >> "$folder/$id.jsonl"; }
test -e "$folder/$id.jsonl" || record user u1 null "$id" '{"role":"user","content":"go"}'
printf '{"type":"system","subtype":"init","session_id":"%s"}\n' "$id"
sed "s/ID/$id/" answer
"#;

/// The result of a run, with these fields in addition.
fn result(more: &Value) -> String {
    let mut result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "ID"});
    let fields = result.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    format!("{result}\n")
}

fn claude() -> Sandbox {
    let sandbox = sandbox();
    let program = sandbox.write_script("claude", CLAUDE);
    let program = program.display().to_string();
    sandbox.configure(&format!("[claude-code]\nprogram = {program:?}\n"));
    sandbox.write("task.yaml", "version: 0\nname: task\nruntime: {provider: claude-code}\nagents: {worker: {prompt: Briefly.}}\npattern: {type: chain, config: {steps: [{agent: worker, input: go}]}}\n");
    sandbox
}

fn run(sandbox: &Sandbox, answer: &str) -> ProcessOutput {
    sandbox.write("answer", answer);
    sandbox.segno(&["run", "task.yaml"]).expect_success()
}

fn say(sandbox: &Sandbox, words: &[&str], answer: &str) {
    sandbox.write("answer", answer);
    let words = [&["chat"], words, &["go"]].concat();
    sandbox.segno(&words).expect_success();
}

#[test]
fn total_cost_of_a_conversation_is_counted_once() {
    let sandbox = claude();
    let words = ["--agent", "claude", "--name", "talk"];
    let total = |dollars: f64| result(&json!({"total_cost_usd": dollars}));
    let said = r#"{"type":"assistant","session_id":"ID","message":{"id":"m","role":"assistant","model":"x","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"output_tokens":1}}}"#;
    say(&sandbox, &words, &format!("{said}\n{}", total(0.25)));
    let again = ["--session", "talk"];
    say(&sandbox, &again, &total(0.375));
    say(&sandbox, &again, &total(0.5));
    let shown = shown(&sandbox, "talk");
    let conversations = shown["conversations"].as_array().unwrap();
    let ids: std::collections::BTreeSet<&str> = conversations
        .iter()
        .map(|talk| talk["conversation"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 1, "{conversations:?}");
    assert_eq!(shown["usage"]["cost_usd"], 0.5, "{shown:#}");
    assert_eq!(shown["usage"]["input_tokens"], 3);
    assert_eq!(shown["usage"]["estimated_tokens"], Value::Null);
}

#[test]
fn turns_and_tool_calls_of_programs_are_shown() {
    let sandbox = claude();
    let answer = [
        r#"{"type":"assistant","session_id":"ID","message":{"id":"m1","role":"assistant","model":"x","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":3,"output_tokens":1}}}"#,
        r#"{"type":"user","session_id":"ID","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a"}]}}"#,
        r#"{"type":"assistant","session_id":"ID","message":{"id":"m2","role":"assistant","model":"x","content":[{"type":"text","text":"done"}],"usage":{"input_tokens":4,"output_tokens":1}}}"#,
    ]
    .join("\n");
    let end = result(&json!({
        "num_turns": 2,
        "duration_ms": 1500,
        "total_cost_usd": 0.25,
        "model_usage_since_last_result": {"x": {"inputTokens": 7, "outputTokens": 20, "costUSD": 0.25}},
    }));
    run(&sandbox, &format!("{answer}\n{end}"));
    let shown = shown(&sandbox, "task");
    let step = &shown["steps"][0];
    assert_eq!(
        (&step["model_turns"], &step["tool_calls"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(step["reported"], json!({"turns": 2, "duration_ms": 1500}));
    let usage = json!({"input_tokens": 7, "output_tokens": 20, "cost_usd": 0.25});
    assert_eq!((&step["usage"], &shown["usage"]), (&usage, &usage));
}

#[test]
fn tokens_are_estimated_from_cost_alone() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: one", "input: two"],
        "default: {text: fine, usage: {cost_usd: 0.45}}",
    );
    let output = sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let estimate = "about 100,000 tokens (estimated), $0.90";
    assert!(output.stderr.contains(estimate), "{}", output.stderr);
    let checkpoint = create_checkpoint(&sandbox);
    let usage = |shown: &Value| shown["usage"]["estimated_tokens"].clone();
    assert_eq!(usage(&shown(&sandbox, "chain")), 100_000);
    for words in [&["status", "chain"][..], &["show", "chain"]] {
        let output = sandbox.segno(words).expect_success();
        assert!(output.stdout.contains("about 100,000"), "{}", output.stdout);
    }
    let status = sandbox.segno(&["status", "chain", "--json"]);
    assert_eq!(usage(&status.expect_success().json()[0]), 100_000);
    let words = ["checkpoint", "show", id(&checkpoint), "--usage"];
    let text = sandbox.segno(&words).expect_success().stdout;
    for words in [
        "about 100,000 tokens more, estimated from the cost",
        "100,000 of 200,000 tokens (50 %), 100,000 remaining (estimated from the cost)",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let words = [&words[..], &["--json"]].concat();
    let taken = sandbox.segno(&words).expect_success().json().remove(0);
    assert_eq!(usage(&taken), 100_000);
    let context = &taken["usage"]["context"];
    assert_eq!(
        (&context["estimated"], &context["utilisation"]),
        (&json!(true), &json!(0.5))
    );
}

#[test]
fn estimated_tokens_count_for_the_token_limit() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: one", "input: two"],
        "default: {text: fine, usage: {cost_usd: 0.45}}",
    );
    super::edit(
        &sandbox,
        "  script: answers.yaml\n",
        "  script: answers.yaml\n  budgets: {max_tokens: 40000}\n",
    );
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(20, &["max_tokens", "50000"]);
}

#[test]
fn refused_tools_are_in_the_result() {
    let sandbox = claude();
    let denial = |call: &str| json!({"tool_name": "Write", "tool_use_id": call, "tool_input": {}});
    let answer = result(&json!({"permission_denials": [denial("a"), denial("b")]}));
    let output = run(&sandbox, &answer);
    let advice = "worker may not use Write (2 times); `claude-code.allow` or `claude-code.permissions` in config.toml, or the option `--permissions`, allows it";
    assert!(output.stderr.contains(advice), "{}", output.stderr);
    let text = sandbox.segno(&["show", "task"]).expect_success().stdout;
    assert!(text.contains(advice), "{text}");
    let logs = sandbox.segno(&["logs", "task"]).expect_success().stdout;
    assert!(
        logs.contains("steps/0 is refused the tool Write (permissions)"),
        "{logs}"
    );
    let refused = json!([{
        "agent": "worker",
        "program": "claude-code",
        "tool": "Write",
        "count": 2,
        "reason": "permissions",
        "settings": ["claude-code.allow", "claude-code.permissions", "--permissions"],
    }]);
    assert_eq!(shown(&sandbox, "task")["refused_tools"], refused);
    let words = ["run", "task.yaml", "--json", "--name", "again"];
    let lines = sandbox.segno(&words).expect_success().json();
    assert_eq!(lines.last().unwrap()["refused_tools"], refused);
}
