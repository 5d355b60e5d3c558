//! An API model whose context window fills up.

use segno_testkit::model::{Call, Part, Role, Script, Turn, Usage, conversation};
use segno_testkit::programs::AgentFixture;
use serde_json::json;

use crate::segno;

/// A model that writes two files; its second answer says that this many input tokens were used.
fn fixture(input: u64, continuity: &str) -> (AgentFixture, String) {
    let write = |path: &str| Call::Raw {
        name: "file_write".to_owned(),
        input: json!({"path": path, "content": "there\n"}),
    };
    let full = Usage {
        input,
        cached: 0,
        output: 50,
    };
    let turns = [
        Turn::say("One.").call(write("one.txt")),
        Turn::say("Two.").call(write("two.txt")).using(full),
        Turn::say("Done with both."),
    ];
    let script = Script::new("filling", turns).without_repairs();
    let marker = script.marker();
    let workshop = AgentFixture::new(segno(), [script], "all");
    let spec = format!(
        "version: 0
name: task
runtime: {{provider: anthropic, host: \"{}\", model_id: claude-sonnet-4-5}}
tools: {{python: [file_write]}}
agents: {{worker: {{prompt: You do tasks.}}}}
pattern: {{type: chain, config: {{steps: [{{agent: worker, input: \"Do the task. {marker}\"}}]}}}}
continuity: {{{continuity}}}
",
        workshop.server.host()
    );
    let spec = workshop.sandbox.write("task.yaml", &spec);
    (workshop, spec.display().to_string())
}

/// What the model was sent for its last turn.
fn last_conversation(workshop: &AgentFixture) -> Vec<Part> {
    conversation(&workshop.server.request("filling", 2).unwrap())
}

/// Asserts that the last turn was asked for in a new conversation with the resume context.
fn assert_started_again(workshop: &AgentFixture) {
    let sent = last_conversation(workshop);
    let texts: Vec<&str> = sent
        .iter()
        .map(|part| match part {
            Part::Text(Role::User, text) => text.as_str(),
            other => panic!("{other:?} in {sent:#?}"),
        })
        .collect();
    let told = texts.concat();
    for words in [
        "----- begin context ",
        "reason for the stop: the context of that conversation was full",
        "----- begin transcript ",
        "[agent uses file_write] {\"content\":\"there\\n\",\"path\":\"two.txt\"}",
        "Do the task. [script:filling]",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
}

#[test]
fn full_window_of_a_model_is_replaced_by_a_new_conversation() {
    let (workshop, spec) = fixture(171_000, "");
    let output = workshop.segno(&["run", &spec]).expect_success();
    assert!(
        output
            .stderr
            .contains("85 % of the context is used; continuing in a new conversation"),
        "{output:?}"
    );
    assert_started_again(&workshop);
    assert_eq!(workshop.events("task", "talk_shortened").len(), 1);
}

#[test]
fn nearly_full_window_of_a_model_is_reported() {
    for (continuity, input, warned) in [
        ("", 161_000, true),
        ("", 150_000, false),
        ("context_warning_percent: 70", 150_000, true),
        ("context_full: agent", 199_000, true),
    ] {
        let (workshop, spec) = fixture(input, continuity);
        let output = workshop.segno(&["run", &spec]).expect_success();
        let said = output.stderr.contains("% of the model's context is used");
        assert_eq!(said, warned, "{continuity} {input} {output:?}");
        let calls = |part: &&Part| matches!(part, Part::Call(..));
        let sent = last_conversation(&workshop);
        assert_eq!(sent.iter().filter(calls).count(), 2, "{sent:#?}");
    }
}

#[test]
fn full_window_of_a_model_can_pause_the_session() {
    let (workshop, spec) = fixture(101_000, "context_full: pause, context_full_percent: 50");
    workshop
        .segno(&["run", &spec])
        .refused(20, &["50 % of the agent's context is used [R0116]"]);
    assert!(workshop.server.request("filling", 2).is_none());
    let output = workshop.segno(&["resume", "task"]).expect_success();
    assert!(output.stdout.contains("Done with both."), "{output:?}");
    assert_started_again(&workshop);
}

#[test]
fn window_of_a_model_can_be_configured() {
    let (workshop, spec) = fixture(9_000, "");
    workshop
        .sandbox
        .configure("[context_windows]\nclaude-sonnet-4-5 = 10000\n");
    workshop.segno(&["run", &spec]).expect_success();
    assert_started_again(&workshop);
    workshop
        .sandbox
        .configure("[context_windows]\nclaude-sonnet-4-5 = 10\n");
    workshop.segno(&["run", &spec]).refused(
        2,
        &["`context_windows.claude-sonnet-4-5` must be a whole number from 1000 to 100000000"],
    );
}

#[test]
fn checkpoint_shows_the_window_of_a_model() {
    let (workshop, spec) = fixture(9_000, "checkpoint: {on: [complete]}");
    workshop.segno(&["run", &spec]).expect_success();
    let listed = workshop.segno(&["checkpoint", "list", "task", "--json"]);
    let listed = listed.expect_success().json();
    let id = listed[0]["checkpoint"].as_str().unwrap();
    let words = ["checkpoint", "show", id, "--usage"];
    let text = workshop.segno(&words).expect_success().stdout;
    let shown = workshop.segno(&[&words[..], &["--json"]].concat());
    let context = &shown.expect_success().json()[0]["usage"]["context"];
    assert_eq!(context["window"], 200_000, "{context}");
    let used = context["used"].as_u64().unwrap();
    assert!(used > 0, "{context}");
    assert_eq!(context["remaining"], 200_000 - used);
    let share = context["utilisation"].as_f64().unwrap();
    assert!((share - used as f64 / 200_000.0).abs() < 1e-9, "{context}");
    assert!(text.contains("of 200,000 tokens ("), "{text}");
}
