//! A context that fills up: Segno knows its usage from the first run on, and acts when it is nearly
//! full.

use segno_testkit::model::{Call, Script, Turn, Usage, files};
use segno_testkit::programs::Agent;
use segno_testkit::sandbox::{wait_for_output, wait_until};

use super::Fixture;

/// A script whose second answer fills the context. The server holds the third answer back, so that
/// even on a slow machine the old conversation cannot end before a new one replaces it. It holds it
/// back in the middle of the text, so that the low usage of that answer is reported only in the new
/// conversation.
fn filling(input: u64) -> Script {
    let full = Usage {
        input,
        cached: 0,
        output: 50,
    };
    Script::new(
        "filling",
        [
            Turn::say("One.").call(Call::write("one.txt", "one\n")),
            Turn::say("Two.")
                .call(Call::write("two.txt", "two\n"))
                .using(full),
            Turn::say("And now comes the third, which is the last one of them.")
                .call(Call::write("three.txt", "three\n"))
                .held(),
            Turn::say("Done with all three."),
        ],
    )
}

impl Fixture {
    /// An agent whose context the second answer fills, by its program's own figures.
    fn filled(agent: Agent) -> Self {
        Self::filled_with(agent, 18_000, 225_000)
    }

    /// An agent whose second answer says that this many tokens of its window are used: 20,000 for
    /// Claude Code; Codex itself reports a window of 258,400.
    fn filled_with(agent: Agent, claude: u64, codex: u64) -> Self {
        match agent {
            Agent::Claude => {
                let fixture = Self::with(agent, filling(claude));
                fixture
                    .sandbox
                    .configure("[claude-code]\npermissions = \"all\"\ncontext_window = 20000\n");
                fixture
            }
            Agent::Codex => Self::with(agent, filling(codex)),
        }
    }

    fn append_to_spec(&self, more: &str) {
        let spec = std::fs::read_to_string(&self.spec).unwrap();
        std::fs::write(&self.spec, format!("{spec}{more}\n")).unwrap();
    }

    /// An agent that is ended between two turns may already have asked for the next one.
    fn assert_at_most_one_repeated_call(&self) {
        let mut paid = self.server.paid_turns("filling");
        let all = paid.len();
        paid.dedup();
        assert_eq!(paid, [0, 1, 2, 3]);
        assert!(all <= 5, "{all} calls for 4 turns");
    }

    /// The reported context usages, in percent.
    fn percents(&self) -> Vec<u64> {
        let messages = self.events("agent_said");
        let usages = messages.iter().map(|event| &event["context"]);
        let percent = |usage: &serde_json::Value| {
            Some(usage["used"].as_u64()? * 100 / usage["window"].as_u64()?)
        };
        usages.filter_map(percent).collect()
    }

    /// Runs to the end and asserts that all three files exist, written in two conversations.
    fn assert_conversation_is_replaced(&self) {
        let child = self.start();
        wait_until("the third turn is held back", || {
            self.server.is_held("filling", 2)
        });
        wait_until("a fresh conversation goes on", || self.opened().len() == 2);
        self.server.release("filling", 2);
        let output = wait_for_output(child).expect_success();
        assert!(output.stdout.contains("Done with all three."), "{output:?}");
        assert!(
            output.stdout.contains("% of the agent's context is used"),
            "{output:?}"
        );
        let strategies: Vec<String> = self
            .opened()
            .into_iter()
            .map(|(_, strategy)| strategy)
            .collect();
        assert_eq!(strategies, ["-", "summarized"], "{:?}", self.agent);
        let files = files(&self.agent_sandbox.work());
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["one.txt", "three.txt", "two.txt"]);
        self.assert_at_most_one_repeated_call();
    }
}

#[test]
fn nearly_full_context_is_replaced_by_a_new_conversation() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::filled(agent);
        fixture.assert_conversation_is_replaced();
        let most = fixture.percents().into_iter().max();
        assert!(most >= Some(85), "{agent:?} {most:?}");
    }
}

/// Asserts that the pause took a checkpoint, and that it shows how full the context was.
fn assert_checkpoint_shows_usage(fixture: &Fixture, context: &serde_json::Value) {
    let listed = fixture.segno(&["checkpoint", "list", "task", "--json"]);
    let newest = listed.expect_success().json().remove(0);
    assert_eq!(newest["trigger"], "exhaustion");
    let id = newest["checkpoint"].as_str().unwrap();
    let shown = fixture.segno(&["checkpoint", "show", id, "--usage", "--json"]);
    let usage = shown.expect_success().json()[0]["usage"].clone();
    for key in ["used", "window", "percent"] {
        assert_eq!(usage["context"][key], context[key], "{usage}");
    }
    let [used, window] = ["used", "window"].map(|key| context[key].as_u64().unwrap());
    assert_eq!(usage["context"]["remaining"], window.saturating_sub(used));
    let utilisation = usage["context"]["utilisation"].as_f64().unwrap();
    assert!((0.85..=1.0).contains(&utilisation), "{usage}");
    assert!(usage["model_calls"].as_u64() >= Some(2), "{usage}");
    assert!(usage["tool_calls"].as_u64() >= Some(1), "{usage}");
}

#[test]
fn user_is_warned_before_the_context_is_full() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::filled_with(agent, 16_400, 212_000);
        let child = fixture.start();
        wait_until("the third turn is held back", || {
            fixture.server.is_held("filling", 2)
        });
        fixture.server.release("filling", 2);
        let output = wait_for_output(child).expect_success();
        let warning = "step steps/0: 82 % of the agent's context is used";
        assert_eq!(output.stdout.matches(warning).count(), 1, "{output:?}");
        assert_eq!(fixture.opened().len(), 1, "{agent:?}");
    }
}

#[test]
fn nearly_full_context_can_pause_the_session() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = Fixture::filled(agent);
        fixture.append_to_spec("continuity: {context_full: pause}");
        fixture
            .segno(&["run", fixture.spec.to_str().unwrap()])
            .refused(
                20,
                &["% of the agent's context is used", "segno resume task"],
            );
        let shown = fixture.segno(&["show", "task", "--json"]).expect_success();
        let usage = &shown.json()[0]["conversations"][0]["context"].clone();
        assert!(usage["percent"].as_u64() >= Some(85), "{agent:?} {usage}");
        let status = fixture.segno(&["status", "--json"]).expect_success();
        assert_eq!(&status.json()[0]["contexts"]["steps/0"], usage);
        assert_checkpoint_shows_usage(&fixture, usage);
        let plan = fixture
            .segno(&["resume", "task", "--dry-run"])
            .expect_success();
        assert!(
            plan.stdout
                .contains(&format!("summarized ({})", fixture.agent.provider())),
            "{plan:?}"
        );
        fixture.server.release("filling", 2);
        let output = fixture.segno(&["resume", "task"]).expect_success();
        assert!(output.stdout.contains("Done with all three."), "{output:?}");
        fixture.assert_at_most_one_repeated_call();
    }
}

#[test]
fn window_of_a_known_model_counts_in_its_first_run() {
    let fixture = Fixture::with(Agent::Claude, filling(180_000));
    let spec = std::fs::read_to_string(&fixture.spec).unwrap();
    let spec = spec.replace(
        "provider: claude-code",
        "provider: claude-code, model_id: claude-sonnet-4-5",
    );
    std::fs::write(&fixture.spec, spec).unwrap();
    fixture.assert_conversation_is_replaced();
}

#[test]
fn reported_window_is_known_to_later_steps() {
    let fixture = Fixture::with(Agent::Claude, filling(18_000));
    let spec = std::fs::read_to_string(&fixture.spec).unwrap();
    // Segno does not know this model; Claude Code reports a window of a million tokens.
    let spec = spec.replace(
        "provider: claude-code",
        "provider: claude-code, model_id: claude-stranger-9",
    );
    let step = "{agent: worker, input: \"Do the task. [script:filling]\"}";
    let spec = spec.replace(step, &format!("{step}, {step}"));
    std::fs::write(&fixture.spec, spec).unwrap();
    fixture.server.release("filling", 2);
    fixture
        .segno(&["run", fixture.spec.to_str().unwrap()])
        .expect_success();
    let of_step = |step: &str| {
        let messages = fixture.events("agent_said");
        let own = messages.into_iter().filter(|event| event["path"] == step);
        let mut usages = own.filter_map(|event| event.get("context").cloned());
        usages.next().unwrap()["window"].clone()
    };
    assert_eq!(of_step("steps/0"), serde_json::Value::Null);
    assert_eq!(of_step("steps/1"), 1_000_000);
}

#[test]
fn limits_of_a_full_context_can_be_configured() {
    let fixture = Fixture::with(Agent::Claude, filling(10_500));
    let settings = "[claude-code]\npermissions = \"all\"\ncontext_window = 20000\n";
    fixture.sandbox.configure(settings);
    fixture.append_to_spec("continuity: {context_full: pause, context_full_percent: 50}");
    fixture
        .segno(&["run", fixture.spec.to_str().unwrap()])
        .refused(20, &["52 % of the agent's context is used [R0116]"]);
    let plan = fixture
        .segno(&["resume", "task", "--dry-run"])
        .expect_success();
    assert!(plan.stdout.contains("summarized (claude-code)"), "{plan:?}");
}
