//! Steps that go from an agent's program to a model behind an API, and back.

use segno_testkit::model::{Call, Part, Script, Turn, conversation, files};
use segno_testkit::sandbox::until;
use serde_json::json;

use super::acp::Ground;
use crate::sandbox;

/// A workflow of one step, which `agent` begins.
fn ground(agent: &str, turns: Vec<Turn>) -> Ground {
    let script = Script::new("task", turns).heedless();
    let marker = script.marker();
    Ground::new([script], "all", |host| {
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

/// A file that a model behind an API writes.
fn file_write(path: &str) -> Call {
    Call::Raw {
        name: "file_write".to_owned(),
        input: json!({"path": path, "content": "there\n"}),
    }
}

impl Ground {
    /// Runs until the model is in the middle of a turn, and is killed there.
    fn killed_in(&self, words: &[&str], turn: usize) {
        self.killed_when(words, turn, || true);
    }

    /// The same, once something else holds too.
    fn killed_when(&self, words: &[&str], turn: usize, holds: impl Fn() -> bool) {
        let child = self.start(words);
        until("the model is asked for that turn", || {
            self.server.holds("task", turn) && holds()
        });
        self.kill(child);
        self.server.release("task", turn);
    }

    /// Everything that a model was sent when it was asked for a turn.
    fn sent(&self, turn: usize) -> Vec<Part> {
        conversation(&self.server.request("task", turn).unwrap())
    }

    /// How the plan says that the step would go on.
    fn planned(&self, with: &[&str]) -> serde_json::Value {
        let words = [&["resume", "task", "--plan", "--json"], with].concat();
        let plan: serde_json::Value =
            serde_json::from_str(&self.segno(&words).good().stdout).unwrap();
        plan["steps"][0].clone()
    }
}

/// The calls of a conversation, by their tools' names.
fn calls(sent: &[Part]) -> Vec<&str> {
    let calls = sent.iter().filter_map(|part| match part {
        Part::Call(_, name, _) => Some(name.as_str()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_step_goes_from_a_program_to_a_model_and_back_and_each_knows_what_the_other_did() {
    let ground = ground(
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
    ground.killed_when(&["run", ground.spec()], 1, || {
        ground.written_down("task", "one.txt")
    });
    assert_eq!(ground.planned(&["--with", "helper"])["way"], "told");
    ground.killed_in(&["resume", "task", "--with", "helper"], 2);
    let sent = ground.sent(1);
    assert_eq!(calls(&sent), [""; 0], "{sent:#?}");
    let told = format!("{:?}", sent[0]);
    assert!(
        told.contains("one.txt") && told.contains("I begin."),
        "{told}"
    );

    // It stays with whoever had it last, who goes on from the journal.
    assert_eq!(ground.planned(&[])["way"], "journal");
    ground.killed_in(&["resume", "task"], 3);
    assert_eq!(calls(&ground.sent(2)), ["file_write"]);

    let plan = ground.planned(&["--with", "coder"]);
    assert_eq!(plan["rung"], "native", "{plan}");
    ground.segno(&["resume", "task", "--with", "coder"]).good();
    let sent = ground.sent(3);
    let told = format!("{:?}", sent.last().unwrap());
    // What its record had not got when it was killed, it is told.
    assert!(
        calls(&sent) == ["Write"] || told.contains("one.txt"),
        "{sent:#?}"
    );
    assert!(
        told.contains("two.txt") && told.contains("three.txt"),
        "{told}"
    );

    let made: Vec<String> = files(&ground.stage.work()).into_keys().collect();
    assert_eq!(made, ["four.txt", "one.txt", "three.txt", "two.txt"]);
    let begun = ground.journal("step_started");
    let who = |event: &serde_json::Value| event["agent"].as_str().unwrap().to_owned();
    let who: Vec<String> = begun.iter().map(who).collect();
    assert_eq!(who, ["coder", "helper", "helper", "coder"]);
    // Only what was in flight when it was killed was asked for again.
    assert_eq!(ground.server.paid("task"), [0, 1, 1, 2, 2, 3, 3, 4]);
}

#[test]
fn a_program_that_takes_over_from_a_model_is_told_what_the_model_did() {
    let ground = ground(
        "helper",
        vec![
            Turn::say("I begin.").call(file_write("one.txt")),
            Turn::say("The rest.")
                .call(Call::write("two.txt", "there\n"))
                .held(),
            Turn::say("All is done."),
        ],
    );
    ground.killed_in(&["run", ground.spec()], 1);
    let plan = ground.planned(&["--with", "claude"]);
    assert_eq!(plan["rung"], "compiled", "{plan}");
    ground.segno(&["resume", "task", "--with", "claude"]).good();
    let told = format!("{:?}", ground.sent(1));
    assert!(
        told.contains("file_write") && told.contains("one.txt"),
        "{told}"
    );
    let made: Vec<String> = files(&ground.stage.work()).into_keys().collect();
    assert_eq!(made, ["one.txt", "two.txt"]);
    assert_eq!(ground.server.paid("task"), [0, 1, 1, 2]);
}

#[test]
fn any_agent_takes_over_and_is_told_and_a_wish_that_changes_nothing_is_refused() {
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
        .segno(&["resume", "task", "--say", "Be quick."])
        .refused(2, &["R0127", "no program"]);
    sandbox
        .segno(&["resume", "task", "--with", "nobody"])
        .refused(2, &["R0115", "nobody"]);
    let words = ["resume", "task", "--with", "helper", "--say", "Be quick."];
    sandbox.segno(&words).good();
    let bundle = sandbox.segno(&["sessions", "export", "task", "-o", "-"]);
    let finished = bundle
        .json()
        .into_iter()
        .find(|record| record["kind"] == "step_finished");
    let told = finished.unwrap()["body"].to_string();
    assert!(
        told.contains("broken off") && told.contains("Be quick."),
        "{told}"
    );
}
