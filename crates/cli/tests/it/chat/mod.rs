//! Chats, through the real binary.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests look at files and wait for processes"
)]

mod cli_agents;
mod expiry;
mod kills;
mod models;
mod refusals;
mod terminal;

use segno_testkit::sandbox::{ProcessOutput, Sandbox};
use serde_json::Value;

use crate::commands::tree;
use crate::sandbox;

/// A sandbox with the spec `bot.yaml`, whose agent answers as `answers` says; `calls.log` counts
/// the calls.
fn scripted(answers: &str) -> Sandbox {
    let sandbox = sandbox();
    sandbox.write("answers.yaml", &format!("ledger: calls.log\n{answers}\n"));
    spec(&sandbox, "provider: scripted, script: answers.yaml");
    sandbox
}

/// A sandbox whose agent is a program that writes its input to `asked-N`, runs `body`, and answers
/// with its number.
fn commanded(body: &str) -> Sandbox {
    let sandbox = sandbox();
    sandbox.write_script(
        "agent.sh",
        &format!(
            "#!/bin/sh\necho \"$SEGNO_RUN $SEGNO_ATTEMPT $SEGNO_STEP $SEGNO_STEP_ID a\" >> calls.log\nnumber=${{SEGNO_STEP#messages/}}\ncat > asked-$number\n{body}\necho \"answer $number\"\n"
        ),
    );
    spec(&sandbox, "provider: command, command: [./agent.sh]");
    sandbox
}

/// Writes `bot.yaml` with one agent.
fn spec(sandbox: &Sandbox, runtime: &str) {
    sandbox.write(
        "bot.yaml",
        &format!(
            "version: 0\nname: bot\nruntime: {{{runtime}, failure_policy: {{retries: 0, wait_min: 0, wait_max: 0}}}}\nagents: {{bot: {{prompt: You are brief.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: bot, input: hi}}]}}}}\n"
        ),
    );
}

/// Opens a chat called `talk` with this message.
fn open(sandbox: &Sandbox, message: &str) -> ProcessOutput {
    sandbox.segno(&["chat", "--spec", "bot.yaml", "--name", "talk", message])
}

/// Sends a message in the chat `talk`.
fn say(sandbox: &Sandbox, message: &str) -> ProcessOutput {
    sandbox.segno(&["chat", "--session", "talk", message])
}

/// `show --json` of the chat `talk`.
fn shown(sandbox: &Sandbox) -> Value {
    let output = sandbox.segno(&["show", "talk", "--json"]);
    output.expect_success().json().remove(0)
}

/// The events of one kind in the journal of `talk`.
fn events(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    let output = sandbox.segno(&["logs", "talk", "--json"]).expect_success();
    let own = output.json().into_iter();
    own.filter(|entry| entry["kind"] == kind).collect()
}

#[test]
fn chat_prints_only_the_answer_and_continues_by_name() {
    let sandbox = scripted(
        "answers: [{step: messages/0, text: one, usage: {input_tokens: 3, output_tokens: 2, cost_usd: 0.5}}]\ndefault: {text: two, usage: {input_tokens: 5, output_tokens: 1}}",
    );
    assert_eq!(open(&sandbox, "hello").expect_success().stdout, "one\n");
    assert_eq!(say(&sandbox, "and then?").expect_success().stdout, "two\n");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1"]);
    let shown = shown(&sandbox);
    assert_eq!(shown["session_kind"], "chat");
    assert_eq!(shown["status"], "paused");
    let chat = &shown["chat"];
    assert_eq!(chat["agent"], "bot");
    assert_eq!(chat["messages"], 2);
    assert_eq!(chat["answers"], 2);
    assert_eq!(chat["turns"], 2);
    assert_eq!(chat["tool_calls"], 0);
    assert_eq!(chat["last_ending"], "end_turn");
    assert_eq!(chat["usage"]["input_tokens"], 8);
    assert_eq!(chat["usage"]["output_tokens"], 3);
    assert_eq!(chat["usage"]["cost_usd"], 0.5);
    let status = sandbox.segno(&["status", "--json"]).expect_success().json();
    assert_eq!(status[0]["chat"]["messages"], 2);
}

#[test]
fn json_output_is_one_line_with_the_usage() {
    let sandbox = scripted("default: {text: fine, usage: {input_tokens: 3, output_tokens: 2}}");
    open(&sandbox, "hello").expect_success();
    let output = sandbox.segno(&["chat", "--session", "talk", "more", "--json"]);
    let lines = output.expect_success().json();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(line["kind"], "exchange");
    assert_eq!(line["name"], "talk");
    assert_eq!(line["message"], 1);
    assert_eq!(line["answer"], "fine");
    assert_eq!(line["ending"], "end_turn");
    assert_eq!(line["status"], "paused");
    assert_eq!(line["usage"]["input_tokens"], 3, "of this exchange alone");
    assert_eq!(line["chat"]["usage"]["input_tokens"], 6);
}

#[test]
fn message_defaults_to_stdin() {
    let sandbox = commanded("");
    for words in [
        &["chat", "--spec", "bot.yaml"][..],
        &["chat", "--spec", "bot.yaml", "-"],
    ] {
        let mut command = sandbox.command(words);
        let file = sandbox.write("message", "first line\nsecond line\n");
        command.stdin(std::fs::File::open(file).unwrap());
        let output = segno_testkit::sandbox::run_to_end(command).expect_success();
        assert_eq!(output.stdout, "answer 0\n");
        let asked = sandbox.read("asked-0");
        assert!(
            asked.ends_with("first line\nsecond line\n") || asked.ends_with("second line"),
            "{asked}"
        );
    }
}

#[test]
fn stateless_agent_receives_the_history_before_the_message() {
    let sandbox = commanded("");
    open(&sandbox, "my name is Ada").expect_success();
    say(&sandbox, "who am I?").expect_success();
    assert!(!sandbox.read("asked-0").contains("quoted"));
    let asked = sandbox.read("asked-1");
    let question = asked.find("[user] my name is Ada").unwrap();
    let answered = asked.find("[agent] answer 0").unwrap();
    let message = asked.rfind("who am I?").unwrap();
    assert!(question < answered && answered < message, "{asked}");
    assert_eq!(asked.matches("who am I?").count(), 1, "{asked}");
}

#[test]
fn chat_of_this_folder_continues_only_on_request() {
    let sandbox = scripted("default: {text: fine}");
    for _ in 0..2 {
        sandbox
            .segno(&["chat", "--spec", "bot.yaml", "hello"])
            .expect_success();
    }
    let names = crate::commands::session_statuses(&sandbox);
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["chat-2", "chat"]);
    sandbox
        .segno(&["chat", "--continue", "more"])
        .expect_success();
    let output = sandbox.segno(&["show", "chat-2", "--json"]);
    assert_eq!(output.expect_success().json()[0]["chat"]["messages"], 2);
}

#[test]
fn secret_in_a_message_or_answer_is_never_stored() {
    let secret = "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4";
    let sandbox = scripted(&format!("default: {{text: \"the key is {secret}\"}}"));
    let output = open(&sandbox, &format!("use {secret}")).expect_success();
    assert!(!output.stdout.contains(secret), "{output:?}");
    assert!(
        output.stderr.contains("a likely secret in the message"),
        "{output:?}"
    );
    say(&sandbox, "again").expect_success();
    let files = tree(&sandbox.home());
    let files: Vec<_> = files.iter().filter(|path| path.is_file()).collect();
    assert!(files.iter().any(|path| path.ends_with("journal.db")));
    for path in files {
        let bytes = std::fs::read(path).unwrap();
        let mut parts = bytes.windows(secret.len());
        let is_there = parts.any(|part| part == secret.as_bytes());
        assert!(!is_there, "{}", path.display());
    }
}

#[test]
fn fork_of_a_chat_knows_the_history() {
    let sandbox = commanded("");
    open(&sandbox, "my name is Ada").expect_success();
    sandbox
        .segno(&["fork", "talk", "--name", "twin"])
        .expect_success();
    let output = sandbox
        .segno(&["chat", "--session", "twin", "who am I?"])
        .expect_success();
    assert_eq!(output.stdout, "answer 1\n");
    assert!(sandbox.read("asked-1").contains("[user] my name is Ada"));
    assert_eq!(shown(&sandbox)["chat"]["messages"], 1);
}
