//! Rate limits that real programs hit, and the reset times that they report.

use std::process::Stdio;
use std::time::Duration;

use segno_testkit::model::{Call, Fault, FaultRepeat, Script, Turn};
use segno_testkit::programs::Agent;
use segno_testkit::sandbox::{run_to_end, wait_for_output, wait_until};
use serde_json::Value;

use super::Fixture;

/// Work, then a limit that is hit `often` times, then the end.
fn limited(wait: Duration, often: usize) -> Script {
    Script::new(
        "limited",
        [
            Turn::say("One.").call(Call::write("one.txt", "one\n")),
            Turn::fail(Fault::Limited(wait), FaultRepeat::First(often)),
        ],
    )
}

impl Fixture {
    /// The limits that attempts hit.
    fn suspensions(&self) -> Vec<Value> {
        let failed = self.events("step_failed");
        let met = failed.iter().map(|event| event["suspended"].clone());
        met.collect()
    }

    fn session_status(&self) -> Option<Value> {
        let output = self.segno(&["status", "--json"]);
        output.json().into_iter().next()
    }
}

#[test]
fn claude_code_waits_for_the_limit_reset_and_retries_once() {
    // Claude Code asks twice itself before it gives up.
    let fixture = Fixture::with(Agent::Claude, limited(Duration::from_secs(1), 2));
    let spec = std::fs::read_to_string(&fixture.spec).unwrap();
    let spec = spec.replace(
        "provider: claude-code",
        "provider: claude-code, failure_policy: {retries: 0}",
    );
    std::fs::write(&fixture.spec, spec).unwrap();
    let mut command = fixture.command(&["run", fixture.spec.to_str().unwrap()]);
    // Claude Code reports the reset time only to users with a subscription.
    command.env_remove("ANTHROPIC_API_KEY");
    command.env(
        "CLAUDE_CODE_OAUTH_TOKEN",
        "sk-ant-oat01-test-0000000000000000",
    );
    let output = run_to_end(command).expect_success();
    assert!(output.stdout.contains("It works again."), "{output:?}");
    let met = fixture.suspensions();
    assert_eq!(met.len(), 1, "{met:?}");
    assert_eq!(met[0]["provider"], "claude-code");
    assert_eq!(
        fixture.server.paid_turns("limited"),
        [0, 1],
        "nothing is asked twice"
    );
    let strategies: Vec<String> = fixture
        .opened()
        .into_iter()
        .map(|(_, strategy)| strategy)
        .collect();
    assert_eq!(strategies, ["-", "native"]);
}

#[test]
fn codex_limit_wait_survives_a_kill() {
    let fixture = Fixture::with(Agent::Codex, limited(Duration::from_hours(1), 1));
    let spec = std::fs::read_to_string(&fixture.spec).unwrap();
    std::fs::write(
        &fixture.spec,
        format!("{spec}continuity: {{max_wait_s: 7200}}\n"),
    )
    .unwrap();
    // Codex reports a time of day in the local time zone: here one whose offset has a quarter of an
    // hour.
    let start = |words: &[&str]| {
        let mut command = fixture.command(words);
        command.env("TZ", "Asia/Kathmandu");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut child = start(&["run", fixture.spec.to_str().unwrap()]);
    wait_until("it waits", || {
        fixture
            .session_status()
            .is_some_and(|status| status["suspended"]["provider"] == "codex")
    });
    child.kill().unwrap();
    wait_for_output(child);
    let failed = fixture.events("step_failed").remove(0);
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("ry again at "), "{message}");
    // An hour, plus at most one minute, because the message names whole minutes.
    let waits = failed["retry_in_ms"].as_u64().unwrap();
    assert!(
        (3_595_000..=3_660_000).contains(&waits),
        "{waits}: {message}"
    );
    assert!(
        failed["usage"]["input_tokens"].as_u64() == Some(0),
        "{failed}"
    );

    let calls = fixture.server.requests().len();
    let plan = fixture
        .segno(&["resume", "task", "--dry-run", "--json"])
        .expect_success();
    let step = &plan.json()[0]["steps"][0];
    assert_eq!(step["suspended"]["provider"], "codex", "{plan:?}");
    fixture
        .segno(&["resume", "task", "--on-limit", "pause"])
        .refused(20, &["(rate limit of codex)", "[R0123]"]);
    assert_eq!(fixture.server.requests().len(), calls, "nobody was asked");
    let output = fixture
        .segno(&["resume", "task", "--on-limit", "ask"])
        .expect_success();
    assert!(output.stdout.contains("It works again."), "{output:?}");
    assert_eq!(fixture.server.paid_turns("limited"), [0, 1]);
}

#[test]
fn codex_usage_before_a_limit_is_counted_once() {
    let fixture = Fixture::with(Agent::Codex, limited(Duration::from_hours(1), 1));
    let spec = std::fs::read_to_string(&fixture.spec).unwrap();
    let spec = spec.replace(
        "provider: codex",
        "provider: codex, budgets: {max_tokens: 1000}",
    );
    std::fs::write(&fixture.spec, spec).unwrap();
    // 1,000 tokens in and 50 out: the run does not wait for an hour to find that out.
    fixture
        .segno(&["run", fixture.spec.to_str().unwrap()])
        .refused(20, &["reached its limit `max_tokens`: 1050 of 1000"]);
    let calls = fixture.server.requests().len();
    fixture
        .segno(&["resume", "task", "--on-limit", "ask"])
        .refused(20, &["reached its limit `max_tokens`: 1050 of 1000"]);
    assert_eq!(
        fixture.server.requests().len(),
        calls,
        "it does not wake to overspend"
    );
}
