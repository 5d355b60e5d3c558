//! What killed and resumed agents used is counted once, and whole.

use segno_testkit::programs::{Agent, AgentFixture};
use serde_json::Value;

use super::Fixture;

/// Input tokens, output tokens, turns and tool calls of the task.
fn counts(workshop: &AgentFixture) -> [u64; 4] {
    let shown = workshop.segno(&["show", "task", "--json"]);
    let shown: Value = shown.expect_success().json().remove(0);
    let (step, total) = (&shown["steps"][0], &shown["usage"]);
    assert_eq!(&step["usage"], total, "{shown:#}");
    [
        &total["input_tokens"],
        &total["output_tokens"],
        &step["model_turns"],
        &step["tool_calls"],
    ]
    .map(|count| count.as_u64().unwrap())
}

/// What the scripted model reports for these turns.
fn usage_of(turns: &[usize]) -> [u64; 2] {
    let inputs = turns.iter().map(|number| 1_000 + 100 * *number as u64);
    [inputs.sum(), 50 * turns.len() as u64]
}

#[test]
fn usage_of_a_killed_attempt_is_complete() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::killed(agent);
        fixture.segno(&["resume", "task"]).expect_success();
        fixture.assert_done();
        let mut turns = fixture.server.paid_turns("standard");
        turns.extend(fixture.server.repaired_turns("standard"));
        if agent == Agent::Codex {
            // It writes down what an answer used when the answer's tool calls are done. Nobody knows
            // what the answer used whose command was killed.
            let killed = turns.iter().position(|turn| *turn == 4).unwrap();
            turns.remove(killed);
        }
        let [input, output, replies, calls] = counts(&fixture);
        assert_eq!([input, output], usage_of(&turns), "{agent:?} {turns:?}");
        assert!(replies > 0 && calls > 0, "{replies} {calls}");
    }
}
