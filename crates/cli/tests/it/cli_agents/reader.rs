//! Claude Code and Codex as the reader that extracts notes before a pause.

use segno_testkit::model::Turn;
use serde_json::json;

use super::*;

/// The answer of the reader.
const NOTES: &str = r#"{"decisions": [{"decision_type": "library", "description": "SQLite keeps the coins. {tag}"}], "errors": []}"#;

/// A scripted step, a pause, and this agent as the reader.
fn reading_fixture(agent: Agent) -> AgentFixture {
    let script = Script::new("reader", [Turn::say(NOTES)]);
    let marker = script.marker();
    let fixture = AgentFixture::new(segno(), [script], "all");
    fixture
        .sandbox
        .write("answers.yaml", "default: {text: I chose SQLite.}\n");
    let spec = format!(
        "version: 0
name: task
runtime: {{provider: scripted, script: answers.yaml}}
agents:
  a: {{prompt: You work.}}
  reader: {{prompt: You read., provider: {}}}
continuity: {{pause: {{after_steps: 1}}, handoff: {{reader: reader, within_s: 300}}}}
pattern: {{type: chain, config: {{steps: [{{agent: a, input: \"Keep coins. {marker}\"}}, {{agent: a, input: Count.}}]}}}}
",
        agent.provider()
    );
    fixture.sandbox.write("task.yaml", &spec);
    fixture
}

#[test]
fn cli_agent_extracts_notes_and_leaves_nothing() {
    for agent in [Agent::Claude, Agent::Codex] {
        let fixture = reading_fixture(agent);
        let spec = fixture.sandbox.work().join("task.yaml");
        let before = files(&fixture.agent_sandbox.work());
        let output = fixture
            .segno(&["run", spec.to_str().unwrap()])
            .refused(130, &["`reader` extracts notes"]);
        assert!(!output.stderr.contains("extracted no notes"), "{output:?}");
        let notes = fixture.segno(&["note", "list", "task", "--json"]);
        let notes = notes.expect_success().json();
        assert_eq!(notes.len(), 1, "{agent:?} {notes:?} {output:?}");
        assert_eq!(notes[0]["source"], json!("model"));
        assert_eq!(notes[0]["by"], "reader");
        let text = notes[0]["note"]["decision"]["text"].as_str().unwrap();
        assert!(text.starts_with("SQLite keeps the coins."), "{text}");
        let listed = fixture.segno(&["checkpoint", "list", "task", "--json"]);
        let checkpoint = listed.expect_success().json().remove(0);
        let id = checkpoint["checkpoint"].as_str().unwrap();
        let shown = fixture.segno(&["checkpoint", "show", id, "--decisions"]);
        assert!(shown.expect_success().stdout.contains("SQLite keeps"));
        // It worked with its input alone, and keeps no conversation that could be resumed.
        assert_eq!(files(&fixture.agent_sandbox.work()), before);
        let program = match agent {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
        };
        let words = ["agents", "import", program, "--all", "--dry-run", "--json"];
        let kept = fixture.segno(&words);
        assert_eq!(kept.stdout, "", "{kept:?}");
        fixture.wait_until_idle();
    }
}
