//! Steps that move from a CLI agent to an API model, and back.

use segno_testkit::model::{Call, Part, Role, Script, Turn, conversation, files};
use segno_testkit::sandbox::wait_until;
use serde_json::json;

use super::acp::WorkflowFixture;
use crate::sandbox;

/// A workflow with one step, which `agent` starts.
fn fixture(agent: &str, turns: Vec<Turn>) -> WorkflowFixture {
    let script = Script::new("task", turns).without_repairs();
    let marker = script.marker();
    WorkflowFixture::new([script], "all", |host| {
        format!(
            "version: 0
name: task
runtime: {{provider: anthropic, host: \"{host}\"}}
tools: {{python: [file_write]}}
agents:
  coder: {{prompt: You do tasks., provider: claude-code}}
  helper: {{prompt: You help out., provider: anthropic}}
pattern: {{type: chain, config: {{steps: [{{agent: {agent}, input: \"Do the task. {marker}\"}}]}}}}
"
        )
    })
}

/// A call with which an API model writes a file.
fn file_write(path: &str) -> Call {
    Call::Raw {
        name: "file_write".to_owned(),
        input: json!({"path": path, "content": "there\n"}),
    }
}

impl WorkflowFixture {
    /// Runs until the model is in the middle of a turn, and kills the run there.
    fn kill_at_turn(&self, words: &[&str], turn: usize) {
        self.kill_at_turn_when(words, turn, || true);
    }

    /// The same, once another condition holds, too.
    fn kill_at_turn_when(&self, words: &[&str], turn: usize, holds: impl Fn() -> bool) {
        let child = self.start(words);
        wait_until("the model is asked for that turn", || {
            self.server.is_held("task", turn) && holds()
        });
        self.kill(child);
        self.server.release("task", turn);
    }

    /// Everything that a model was sent when it was asked for a turn.
    fn sent(&self, turn: usize) -> Vec<Part> {
        conversation(&self.server.request("task", turn).unwrap())
    }

    /// How the step would continue according to the plan.
    fn planned_step(&self, with: &[&str]) -> serde_json::Value {
        let words = [&["resume", "task", "--dry-run", "--json"], with].concat();
        let plan: serde_json::Value =
            serde_json::from_str(&self.segno(&words).expect_success().stdout).unwrap();
        plan["steps"][0].clone()
    }
}

/// The names of the tools that a conversation calls.
fn calls(sent: &[Part]) -> Vec<&str> {
    let calls = sent.iter().filter_map(|part| match part {
        Part::Call(_, name, _) => Some(name.as_str()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn step_moves_between_cli_agent_and_model_with_context() {
    let fixture = fixture(
        "coder",
        vec![
            Turn::say("I begin.").call(Call::write("one.txt", "there\n")),
            Turn::say("The helper's first.")
                .call(file_write("two.txt"))
                .held(),
            Turn::say("The helper's second.")
                .call(file_write("three.txt"))
                .held(),
            Turn::say("The rest.")
                .call(Call::write("four.txt", "there\n"))
                .held(),
            Turn::say("All is done."),
        ],
    );
    fixture.kill_at_turn_when(&["run", fixture.spec()], 1, || {
        fixture.is_persisted("task", "one.txt")
    });
    assert_eq!(
        fixture.planned_step(&["--agent", "helper"])["continuation"],
        "text"
    );
    fixture.kill_at_turn(&["resume", "task", "--agent", "helper"], 2);
    let sent = fixture.sent(1);
    assert_eq!(calls(&sent), [""; 0], "{sent:#?}");
    let prompt = format!("{:?}", sent[0]);
    assert!(
        prompt.contains("one.txt") && prompt.contains("I begin."),
        "{prompt}"
    );

    // The step stays with its last agent, which continues from the journal.
    assert_eq!(fixture.planned_step(&[])["continuation"], "journal");
    fixture.kill_at_turn(&["resume", "task"], 3);
    assert_eq!(calls(&fixture.sent(2)), ["file_write"]);

    let plan = fixture.planned_step(&["--agent", "coder"]);
    assert_eq!(plan["strategy"], "native", "{plan}");
    fixture
        .segno(&["resume", "task", "--agent", "coder"])
        .expect_success();
    let sent = fixture.sent(3);
    let prompt = format!("{:?}", sent.last().unwrap());
    // What the transcript lacked at the kill comes in the prompt.
    assert!(
        calls(&sent) == ["Write"] || prompt.contains("one.txt"),
        "{sent:#?}"
    );
    assert!(
        prompt.contains("two.txt") && prompt.contains("three.txt"),
        "{prompt}"
    );

    let made: Vec<String> = files(&fixture.agent_sandbox.work()).into_keys().collect();
    assert_eq!(made, ["four.txt", "one.txt", "three.txt", "two.txt"]);
    let begun = fixture.events("step_started");
    let who = |event: &serde_json::Value| event["agent"].as_str().unwrap().to_owned();
    let who: Vec<String> = begun.iter().map(who).collect();
    assert_eq!(who, ["coder", "helper", "helper", "coder"]);
    // Only turns in flight at a kill were asked for again.
    assert_eq!(fixture.server.paid_turns("task"), [0, 1, 1, 2, 2, 3, 3, 4]);
}

#[test]
fn other_agent_keeps_the_prompt_of_the_step() {
    let fixture = fixture(
        "coder",
        vec![
            Turn::say("I begin.").call(Call::write("one.txt", "there\n")),
            Turn::say("The rest.").held(),
        ],
    );
    fixture.kill_at_turn_when(&["run", fixture.spec()], 1, || {
        fixture.is_persisted("task", "one.txt")
    });
    fixture
        .segno(&["resume", "task", "--agent", "codex"])
        .expect_success();
    let asked = fixture.server.request("task", 1).unwrap();
    assert!(asked.path.contains("/responses"), "{}", asked.path);
    let sent = fixture.sent(1);
    let Some(Part::Text(Role::User, prompt)) = sent.last() else {
        panic!("{sent:#?}")
    };
    assert!(prompt.starts_with("You do tasks.\n\n"), "{prompt}");
    assert!(prompt.contains("was interrupted"), "{prompt}");
}

#[test]
fn cli_agent_receives_the_work_of_the_model_before_it() {
    let fixture = fixture(
        "helper",
        vec![
            Turn::say("I begin.").call(file_write("one.txt")),
            Turn::say("The rest.")
                .call(Call::write("two.txt", "there\n"))
                .held(),
            Turn::say("All is done."),
        ],
    );
    fixture.kill_at_turn(&["run", fixture.spec()], 1);
    let plan = fixture.planned_step(&["--agent", "claude"]);
    assert_eq!(plan["strategy"], "summarized", "{plan}");
    fixture
        .segno(&["resume", "task", "--agent", "claude"])
        .expect_success();
    let prompt = format!("{:?}", fixture.sent(1));
    assert!(
        prompt.contains("file_write") && prompt.contains("one.txt"),
        "{prompt}"
    );
    let made: Vec<String> = files(&fixture.agent_sandbox.work()).into_keys().collect();
    assert_eq!(made, ["one.txt", "two.txt"]);
    assert_eq!(fixture.server.paid_turns("task"), [0, 1, 1, 2]);
}

#[test]
fn handoff_works_for_any_agent_and_needs_an_effect() {
    let sandbox = sandbox();
    let spec = "version: 0
name: task
runtime: {provider: command, command: [cat]}
agents:
  broken: {prompt: You break., command: [\"false\"]}
  helper: {prompt: You help.}
pattern: {type: chain, config: {steps: [{agent: broken, input: Do it}, {agent: helper, input: The rest}]}}
";
    let spec = sandbox.write("task.yaml", spec);
    sandbox
        .segno(&["run", spec.to_str().unwrap()])
        .refused(10, &["broken"]);
    sandbox
        .segno(&["resume", "task", "--message", "Be quick."])
        .refused(2, &["R0127", "no CLI agent"]);
    sandbox
        .segno(&["resume", "task", "--agent", "nobody"])
        .refused(2, &["R0115", "nobody"]);
    let words = [
        "resume",
        "task",
        "--agent",
        "helper",
        "--message",
        "Be quick.",
    ];
    sandbox.segno(&words).expect_success();
    let bundle = sandbox.segno(&["sessions", "export", "task", "-o", "-"]);
    let finished = bundle
        .json()
        .into_iter()
        .find(|record| record["kind"] == "step_finished");
    let prompt = finished.unwrap()["body"].to_string();
    assert!(
        prompt.contains("interrupted") && prompt.contains("Be quick."),
        "{prompt}"
    );
    // The message has the resume context, the system prompt does not.
    let contexts = prompt.matches("----- begin context ").count();
    assert_eq!(contexts, 1, "{prompt}");
}
