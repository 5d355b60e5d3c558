//! Limits that real programs run into, and when they say that these are lifted.

use std::process::Stdio;
use std::time::Duration;

use segno_testkit::model::{Call, Fault, Often, Script, Turn};
use segno_testkit::programs::Agent;
use segno_testkit::sandbox::{finish, until, wait};
use serde_json::Value;

use super::Set;

/// Work, then a limit that is met so often, then the end.
fn limited(wait: Duration, often: usize) -> Script {
    Script::new(
        "limited",
        [
            Turn::say("One.").call(Call::write("one.txt", "one\n")),
            Turn::fail(Fault::Limited(wait), Often::First(often)),
        ],
    )
}

impl Set {
    /// The limits that attempts met.
    fn suspensions(&self) -> Vec<Value> {
        let failed = self.journal("step_failed");
        let met = failed.iter().map(|entry| entry["suspended"].clone());
        met.collect()
    }

    fn standing(&self) -> Option<Value> {
        let said = self.segno(&["status", "--json"]);
        said.json().into_iter().next()
    }
}

#[test]
fn claude_code_waits_until_its_limit_is_lifted_and_asks_once_more() {
    // It asks twice itself before it gives up.
    let set = Set::with(Agent::Claude, limited(Duration::from_secs(1), 2));
    let spec = std::fs::read_to_string(&set.spec).unwrap();
    let spec = spec.replace(
        "provider: claude-code",
        "provider: claude-code, failure_policy: {retries: 0}",
    );
    std::fs::write(&set.spec, spec).unwrap();
    let mut command = set.command(&["run", set.spec.to_str().unwrap()]);
    // Only people with a subscription are told when.
    command.env_remove("ANTHROPIC_API_KEY");
    command.env(
        "CLAUDE_CODE_OAUTH_TOKEN",
        "sk-ant-oat01-test-0000000000000000",
    );
    let said = finish(command).good();
    assert!(said.stdout.contains("It works again."), "{said:?}");
    let met = set.suspensions();
    assert_eq!(met.len(), 1, "{met:?}");
    assert_eq!(met[0]["provider"], "claude-code");
    assert_eq!(set.server.paid("limited"), [0, 1], "nothing is asked twice");
    let rungs: Vec<String> = set.opened().into_iter().map(|(_, rung)| rung).collect();
    assert_eq!(rungs, ["-", "native"]);
}

#[test]
fn codex_says_when_in_words_and_a_kill_while_it_is_waited_for_changes_nothing() {
    let set = Set::with(Agent::Codex, limited(Duration::from_hours(1), 1));
    let spec = std::fs::read_to_string(&set.spec).unwrap();
    std::fs::write(
        &set.spec,
        format!("{spec}continuity: {{max_wait_s: 7200}}\n"),
    )
    .unwrap();
    // Codex tells the time of day, by the clocks of where it is: here a quarter to and past.
    let start = |words: &[&str]| {
        let mut command = set.command(words);
        command.env("TZ", "Asia/Kathmandu");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut child = start(&["run", set.spec.to_str().unwrap()]);
    until("it waits", || {
        set.standing()
            .is_some_and(|standing| standing["suspended"]["provider"] == "codex")
    });
    child.kill().unwrap();
    wait(child);
    let failed = set.journal("step_failed").remove(0);
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("ry again at "), "{message}");
    // An hour, and no more than the minute that is told besides.
    let waits = failed["retry_in_ms"].as_u64().unwrap();
    assert!(
        (3_595_000..=3_660_000).contains(&waits),
        "{waits}: {message}"
    );
    assert!(
        failed["usage"]["input_tokens"].as_u64() == Some(0),
        "{failed}"
    );

    let calls = set.server.asked().len();
    let plan = set.segno(&["resume", "task", "--plan", "--json"]).good();
    let step = &plan.json()[0]["steps"][0];
    assert_eq!(step["suspended"]["provider"], "codex", "{plan:?}");
    set.segno(&["resume", "task", "--on-limit", "pause"])
        .refused(20, &["(rate limit of codex)", "[R0123]"]);
    assert_eq!(set.server.asked().len(), calls, "nobody was asked");
    let said = set.segno(&["resume", "task", "--on-limit", "ask"]).good();
    assert!(said.stdout.contains("It works again."), "{said:?}");
    assert_eq!(set.server.paid("limited"), [0, 1]);
}

#[test]
fn what_codex_took_before_it_met_a_limit_is_counted_once() {
    let set = Set::with(Agent::Codex, limited(Duration::from_hours(1), 1));
    let spec = std::fs::read_to_string(&set.spec).unwrap();
    let spec = spec.replace(
        "provider: codex",
        "provider: codex, budgets: {max_tokens: 1000}",
    );
    std::fs::write(&set.spec, spec).unwrap();
    // 1,000 in and 50 out: it does not wait for an hour to find that out.
    set.segno(&["run", set.spec.to_str().unwrap()])
        .refused(20, &["used up its max_tokens: 1050 of 1000"]);
    let calls = set.server.asked().len();
    set.segno(&["resume", "task", "--on-limit", "ask"])
        .refused(20, &["used up its max_tokens: 1050 of 1000"]);
    assert_eq!(
        set.server.asked().len(),
        calls,
        "it does not wake to overspend"
    );
}
