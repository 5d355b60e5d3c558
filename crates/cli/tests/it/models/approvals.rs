//! Tools that need a user's approval, and tools that are denied.

use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::Sandbox;
use serde_json::json;

use super::{chain, run};
use crate::sandbox;

/// A model that wants to write a file, and then repeats the tool result.
fn writer() -> ModelServer {
    ModelServer::start(|_, asked| {
        let messages = asked.body["messages"].to_string();
        if messages.contains("tool_result") {
            let result = &asked.body["messages"].as_array().unwrap().last().unwrap()["content"];
            return ModelResponse::Text(result[0]["content"].to_string());
        }
        ModelResponse::Tools(
            String::new(),
            vec![(
                "file_write".into(),
                json!({"path": "a.txt", "content": "done"}),
            )],
        )
    })
}

fn spec(sandbox: &Sandbox, server: &ModelServer, permission: &str) {
    chain(sandbox, "anthropic", &server.host(), "", &["write"]);
    let prompt = format!("prompt: You are brief., permissions: {{{permission}}}");
    let spec = sandbox
        .read("ask.yaml")
        .replace("prompt: You are brief.", &prompt);
    sandbox.write(
        "ask.yaml",
        &(spec + "tools: {python: [file_write, head]}\n"),
    );
}

#[test]
fn tool_waits_for_approval_and_runs_once_approved() {
    let (sandbox, server) = (sandbox(), writer());
    spec(&sandbox, &server, "file_write: ask");
    let output = run(&sandbox, &["run", "ask.yaml"]);
    output.refused(
        19,
        &[
            "May agent `a` use `file_write`?",
            "\"path\": \"a.txt\"",
            "[R0108]",
        ],
    );
    assert!(!sandbox.work().join("a.txt").exists());
    sandbox
        .segno(&["answer", "ask", "maybe"])
        .refused(2, &["must match"]);
    sandbox.segno(&["answer", "ask", "yes"]).expect_success();
    let output = run(&sandbox, &["resume"]).expect_success();
    assert!(output.stdout.contains("a.txt"), "{}", output.stdout);
    assert_eq!(sandbox.read("a.txt"), "done");
    assert_eq!(server.requests().len(), 2, "nothing was paid for twice");
}

#[test]
fn model_receives_the_refusal_with_its_reason() {
    let (sandbox, server) = (sandbox(), writer());
    spec(&sandbox, &server, "'*': ask");
    run(&sandbox, &["run", "ask.yaml"]).refused(19, &[]);
    sandbox
        .segno(&["answer", "ask", "no, not on a Friday"])
        .expect_success();
    let output = run(&sandbox, &["resume"]).expect_success();
    assert!(
        output.stdout.contains("refused this call: not on a Friday"),
        "{}",
        output.stdout
    );
    assert!(!sandbox.work().join("a.txt").exists());
    let refused = "refused: a may not use file_write (1 time); a user refused it";
    assert!(output.stderr.contains(refused), "{}", output.stderr);
}

#[test]
fn approval_covers_one_call_only() {
    let (sandbox, server) = (
        sandbox(),
        ModelServer::start(|number, _| {
            let content = format!("call {number}");
            let input = json!({"path": "a.txt", "content": content});
            ModelResponse::Tools(String::new(), vec![("file_write".into(), input)])
        }),
    );
    spec(&sandbox, &server, "file_write: ask");
    run(&sandbox, &["run", "ask.yaml"]).refused(19, &["call 0"]);
    sandbox.segno(&["answer", "ask", "yes"]).expect_success();
    // The next call has other arguments and needs a new approval.
    run(&sandbox, &["resume"]).refused(19, &["call 1"]);
    assert_eq!(sandbox.read("a.txt"), "call 0");
}

#[test]
fn denied_tool_is_not_offered() {
    let (sandbox, server) = (sandbox(), writer());
    spec(&sandbox, &server, "file_write: deny");
    let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
    assert!(
        output.stdout.contains("there is no tool `file_write`"),
        "{}",
        output.stdout
    );
    let offered = server.requests()[0].body["tools"].to_string();
    assert!(
        offered.contains("head") && !offered.contains("file_write"),
        "{offered}"
    );
    let refused = "refused: a may not use file_write (1 time); `agents.a.permissions.file_write` in the spec allows it";
    assert!(output.stderr.contains(refused), "{}", output.stderr);
    assert!(!sandbox.work().join("a.txt").exists());
}
