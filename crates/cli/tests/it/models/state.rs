//! Models that store values for their later steps.

use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::{Sandbox, run_to_end};
use serde_json::{Value, json};

use super::{APIS, chain, run};
use crate::sandbox;

/// A model that counts: it stores 1 if there is nothing yet, and reads it. Its second step only
/// answers.
fn counter() -> ModelServer {
    ModelServer::start(|_, asked| {
        let body = asked.body["messages"].to_string();
        let said = |words: &str| body.contains(words);
        if said("then ") {
            return ModelResponse::Text("over".into());
        }
        if !said("state_set") {
            let first = json!({"key": "count", "value": 1, "expected": null});
            return ModelResponse::Tools(String::new(), vec![("state_set".into(), first)]);
        }
        if !said("state_get") {
            return ModelResponse::Tools(String::new(), vec![("state_get".into(), json!({}))]);
        }
        ModelResponse::Text("counted".into())
    })
}

/// A chain of two questions that name what the agent stored.
fn counting_chain(sandbox: &Sandbox, provider: &str, host: &str) {
    let questions = [
        "begin {{ agent_state.count | default('empty') }}",
        "then {{ agent_state.count }}",
    ];
    chain(sandbox, provider, host, "", &questions);
    let tools = "tools: {python: [state_get, state_set]}\nagents:";
    let spec = sandbox.read("ask.yaml").replace("agents:", tools);
    sandbox.write("ask.yaml", &spec);
}

fn events(sandbox: &Sandbox, session: &str, kind: &str) -> Vec<Value> {
    let log = sandbox.segno(&["logs", session, "--json"]);
    let mut log = log.expect_success().json();
    log.retain(|event| event["kind"] == kind);
    log
}

#[test]
fn stored_value_reaches_tools_and_templates() {
    for (provider, _) in APIS {
        let (sandbox, server) = (sandbox(), counter());
        counting_chain(&sandbox, provider, &server.host());
        run(&sandbox, &["run", "ask.yaml"]).expect_success();
        let asked = server.requests();
        let names = asked[0].body["tools"].to_string();
        assert!(names.contains("state_get") && names.contains("state_set"));
        assert!(asked[0].last_message().contains("begin empty"));
        let results = asked[2].body["messages"].to_string();
        assert!(results.contains(r#"{\"count\":1}"#), "{results}");
        assert!(asked[3].last_message().contains("then 1"));
        let shown = sandbox.segno(&["show", "ask", "--json"]).expect_success();
        assert_eq!(shown.json()[0]["agent_state"], json!({"a": {"count": 1}}));
        let changed = events(&sandbox, "ask", "agent_state_changed");
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0]["source"], "agent");
        assert_eq!(changed[0]["path"], "steps/0");
    }
}

#[test]
fn tools_for_state_must_be_declared() {
    let (sandbox, server) = (sandbox(), counter());
    counting_chain(&sandbox, "openai", &server.host());
    let spec = sandbox.read("ask.yaml").replace(", state_set]", "]");
    sandbox.write("ask.yaml", &spec);
    run(&sandbox, &["run", "ask.yaml"]).refused(10, &["`agent_state.count` is undefined"]);
    let messages = server.requests()[1].body["messages"].to_string();
    assert!(messages.contains("there is no tool `state_set`"));
}

/// The change and the result of its tool are in one commit: a kill leaves both or neither.
#[test]
fn killed_change_takes_effect_once() {
    let mut kills = 0;
    for point in ["journal.before_commit", "journal.after_commit"] {
        for visit in 1.. {
            let (sandbox, server) = (sandbox(), counter());
            counting_chain(&sandbox, "anthropic", &server.host());
            let mut command = sandbox.command(&["run", "ask.yaml"]);
            command
                .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
                .env("SEGNO_FAILPOINT", format!("{point}:{visit}"));
            let output = run_to_end(command);
            if !output.crashed() {
                output.expect_success();
                break;
            }
            kills += 1;
            let place = format!("{point}:{visit}");
            let known = sandbox.segno(&["status", "ask", "--json"]);
            if !known.status.success() {
                run(&sandbox, &["run", "ask.yaml"]).expect_success();
            } else if known.json()[0]["status"] != "completed" {
                run(&sandbox, &["resume"]).expect_success();
            }
            let changed = events(&sandbox, "ask", "agent_state_changed");
            assert_eq!(changed.len(), 1, "{place}");
            // The conversation continued with the same question, whatever was stored by then.
            for asked in server.requests() {
                let messages = asked.body["messages"].to_string();
                assert!(
                    !messages.contains("is not what was expected"),
                    "{place}: {messages}"
                );
                let begun = messages.contains("begin empty");
                assert!(begun, "{place}: {messages}");
            }
        }
    }
    assert!(kills >= 12, "{kills}");
}

#[test]
fn value_changed_by_hand_reaches_the_unfinished_step() {
    let sandbox = sandbox();
    let server = ModelServer::start(|number, asked| match number {
        0 => {
            let change = json!({"key": "count", "value": 1});
            ModelResponse::Tools(String::new(), vec![("state_set".into(), change)])
        }
        1 => ModelResponse::Status(400, "", String::new()),
        _ => ModelResponse::Text(asked.last_message()),
    });
    counting_chain(&sandbox, "anthropic", &server.host());
    run(&sandbox, &["run", "ask.yaml"]).refused(10, &[]);
    sandbox
        .segno(&["state", "set", "count", "7"])
        .expect_success();
    let output = run(&sandbox, &["resume"]).expect_success();
    assert!(output.stdout.contains("then 7"), "{output:?}");
    let asked = server.requests();
    assert!(asked[0].last_message().contains("begin empty"));
    // The step that stored 1 itself starts again with what the user set.
    assert!(asked[2].last_message().contains("begin 7"), "{asked:?}");
}

#[test]
fn finished_step_does_not_rerun_for_its_own_change() {
    let (sandbox, server) = (sandbox(), counter());
    counting_chain(&sandbox, "anthropic", &server.host());
    let spec = sandbox.read("ask.yaml");
    let fails = spec.replace(
        "then {{ agent_state.count }}",
        "then {{ agent_state.missing }}",
    );
    sandbox.write("ask.yaml", &fails);
    run(&sandbox, &["run", "ask.yaml"]).refused(10, &["undefined"]);
    let before = server.requests().len();
    sandbox.write("ask.yaml", &spec);
    run(&sandbox, &["resume", "--on-change", "rerun"]).expect_success();
    // Only the second step was asked: the first has the same question, though `count` is 1 now.
    assert_eq!(server.requests().len(), before + 1);
}
