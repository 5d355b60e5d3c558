//! Usage and refused tools that a program's results report.

use segno_core::cli_agent::{CliAgentKind, ConversationMode};
use segno_core::usage::{Cost, Usage};
use serde_json::{Value, json};

use super::{CLAUDE, CODEX, fake, run_stream};
use crate::event_log::EventLog;
use crate::fixture::{Fixture, runtime};

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": CLAUDE})
}

fn result(more: &Value) -> Value {
    let mut result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": CLAUDE});
    let fields = result.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    result
}

fn lines(records: &[Value]) -> String {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
}

/// What a run of Claude Code used whose conversation had cost `before`.
fn used(before: Option<Cost>, records: &[Value]) -> (Usage, Vec<String>) {
    let (fixture, events) = (Fixture::new(), EventLog::default());
    let stream = lines(records);
    let claude = fake(
        &fixture,
        CliAgentKind::ClaudeCode,
        &format!("cat > /dev/null; cat <<'END'\n{stream}END"),
    );
    let mut request = fixture.request();
    request.conversation_cost = before;
    let way = ConversationMode::Resume { id: CLAUDE };
    let answer = runtime().block_on(claude.ask(request, way, &events));
    (answer.unwrap().usage, events.lines())
}

#[test]
fn total_cost_counts_as_a_difference() {
    let total = |dollars: f64| result(&json!({"total_cost_usd": dollars}));
    let known = Some(Cost(450_000));
    for (before, records, expected) in [
        (known, vec![init(), total(0.6)], 150_000),
        // Each result of a run has the total.
        (known, vec![init(), total(0.6), total(0.7)], 250_000),
        // What earlier runs cost is unknown, and so is what this one cost.
        (None, vec![init(), total(0.6)], 0),
        (None, vec![init(), total(0.6), total(0.7)], 100_000),
        // A total below the known one cannot include it.
        (known, vec![init(), total(0.1)], 100_000),
    ] {
        let (usage, events) = used(before, &records);
        assert_eq!(usage.cost, Cost(expected), "{before:?} {events:?}");
    }
}

#[test]
fn cost_of_the_run_precedes_the_total() {
    let models = json!({"m": {"inputTokens": 5, "outputTokens": 2, "costUSD": 0.05}});
    let own = json!({"total_cost_usd": 0.6, "model_usage_since_last_result": models, "num_turns": 3, "duration_ms": 70});
    let (usage, events) = used(None, &[init(), result(&own)]);
    assert_eq!((usage.tokens(), usage.cost), (7, Cost(50_000)));
    assert_eq!(
        events.last().unwrap(),
        "report Some(3) Some(70) Some(600000)"
    );
    // Without it, the tokens of the result count.
    let plain =
        json!({"usage": {"input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 2}});
    let (usage, _) = used(None, &[init(), result(&plain)]);
    assert_eq!((usage.input_tokens, usage.output_tokens), (7, 2));
}

#[test]
fn refused_tools_are_reported_once_each() {
    let denial = |call: &str| json!({"tool_name": "Write", "tool_use_id": call, "tool_input": {}});
    let first = result(&json!({"permission_denials": [denial("a"), denial("b")]}));
    let second = result(&json!({"permission_denials": [denial("b"), denial("c")]}));
    let (_, events) = used(None, &[init(), first, second]);
    let refused = events.iter().filter(|line| line.starts_with("refused"));
    assert_eq!(
        refused.collect::<Vec<_>>(),
        ["refused Write permissions"; 3]
    );
}

#[test]
fn declined_call_of_codex_is_a_refused_tool() {
    let call =
        json!({"id": "i", "type": "command_execution", "command": "rm x", "status": "declined"});
    let stream = lines(&[
        json!({"type": "thread.started", "thread_id": CODEX}),
        json!({"type": "item.completed", "item": call}),
        json!({"type": "item.completed", "item": {"id": "j", "type": "agent_message", "text": "done"}}),
        json!({"type": "turn.completed"}),
    ]);
    let (answer, events) = run_stream(CliAgentKind::Codex, stream.as_bytes(), 0);
    assert_eq!(answer.unwrap().text, "done");
    assert!(
        events.contains(&"refused shell permissions".to_owned()),
        "{events:?}"
    );
}
