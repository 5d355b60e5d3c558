//! Tools that a person must agree to, and tools that nobody may use.

use segno_testkit::model::{ModelServer, Play};
use segno_testkit::sandbox::Sandbox;
use serde_json::json;

use super::{chain, run};
use crate::sandbox;

/// A model that wants to write a file, and then says what it heard.
fn writer() -> ModelServer {
    ModelServer::start(|_, asked| {
        let said = asked.body["messages"].to_string();
        if said.contains("tool_result") {
            let heard = &asked.body["messages"].as_array().unwrap().last().unwrap()["content"];
            return Play::Text(heard[0]["content"].to_string());
        }
        Play::Tools(
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
fn a_tool_waits_for_leave_and_is_used_once_it_is_given() {
    let (sandbox, server) = (sandbox(), writer());
    spec(&sandbox, &server, "file_write: ask");
    let said = run(&sandbox, &["run", "ask.yaml"]);
    said.refused(
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
    sandbox.segno(&["answer", "ask", "yes"]).good();
    let said = run(&sandbox, &["resume"]).good();
    assert!(said.stdout.contains("a.txt"), "{}", said.stdout);
    assert_eq!(sandbox.read("a.txt"), "done");
    assert_eq!(server.asked().len(), 2, "nothing was paid for twice");
}

#[test]
fn a_refusal_is_told_to_the_model_with_its_reason() {
    let (sandbox, server) = (sandbox(), writer());
    spec(&sandbox, &server, "'*': ask");
    run(&sandbox, &["run", "ask.yaml"]).refused(19, &[]);
    sandbox
        .segno(&["answer", "ask", "no, not on a Friday"])
        .good();
    let said = run(&sandbox, &["resume"]).good();
    assert!(
        said.stdout.contains("refused this call: not on a Friday"),
        "{}",
        said.stdout
    );
    assert!(!sandbox.work().join("a.txt").exists());
}

#[test]
fn leave_for_one_call_is_no_leave_for_another() {
    let (sandbox, server) = (
        sandbox(),
        ModelServer::start(|number, _| {
            let content = format!("call {number}");
            let input = json!({"path": "a.txt", "content": content});
            Play::Tools(String::new(), vec![("file_write".into(), input)])
        }),
    );
    spec(&sandbox, &server, "file_write: ask");
    run(&sandbox, &["run", "ask.yaml"]).refused(19, &["call 0"]);
    sandbox.segno(&["answer", "ask", "yes"]).good();
    // The next call has other arguments, and is asked about anew.
    run(&sandbox, &["resume"]).refused(19, &["call 1"]);
    assert_eq!(sandbox.read("a.txt"), "call 0");
}

#[test]
fn a_denied_tool_is_not_even_offered() {
    let (sandbox, server) = (sandbox(), writer());
    spec(&sandbox, &server, "file_write: deny");
    let said = run(&sandbox, &["run", "ask.yaml"]).good();
    assert!(
        said.stdout.contains("there is no tool `file_write`"),
        "{}",
        said.stdout
    );
    let offered = server.asked()[0].body["tools"].to_string();
    assert!(
        offered.contains("head") && !offered.contains("file_write"),
        "{offered}"
    );
    assert!(!sandbox.work().join("a.txt").exists());
}
