//! Chats, through the real binary.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests look at files and wait for processes"
)]

mod kills;
mod models;
mod programs;
mod refusals;
mod rest;
mod terminal;

use segno_testkit::sandbox::{Said, Sandbox};
use serde_json::Value;

use crate::sandbox;

/// A sandbox with the spec `bot.yaml`, whose agent answers as `answers` says; calls are counted in
/// `calls.log`.
fn scripted(answers: &str) -> Sandbox {
    let sandbox = sandbox();
    sandbox.write("answers.yaml", &format!("ledger: calls.log\n{answers}\n"));
    spec(&sandbox, "provider: scripted, script: answers.yaml");
    sandbox
}

/// A sandbox whose agent is a program that keeps what it was asked in `asked-N`, runs `body`, and
/// answers with its number.
fn commanded(body: &str) -> Sandbox {
    let sandbox = sandbox();
    sandbox.script(
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
fn open(sandbox: &Sandbox, message: &str) -> Said {
    sandbox.segno(&["chat", "--spec", "bot.yaml", "--name", "talk", message])
}

/// Says something in the chat `talk`.
fn say(sandbox: &Sandbox, message: &str) -> Said {
    sandbox.segno(&["chat", "--session", "talk", message])
}

/// `sessions show --json` of the chat `talk`.
fn shown(sandbox: &Sandbox) -> Value {
    let said = sandbox.segno(&["sessions", "show", "talk", "--json"]);
    said.good().json().remove(0)
}

/// The entries of one kind in the journal of `talk`.
fn entries(sandbox: &Sandbox, kind: &str) -> Vec<Value> {
    let said = sandbox.segno(&["logs", "talk", "--json"]).good();
    let own = said.json().into_iter();
    own.filter(|entry| entry["kind"] == kind).collect()
}

#[test]
fn an_answer_is_printed_alone_and_the_chat_goes_on_when_named() {
    let sandbox = scripted(
        "answers: [{step: messages/0, text: one, usage: {input_tokens: 3, output_tokens: 2, cost_usd: 0.5}}]\ndefault: {text: two, usage: {input_tokens: 5, output_tokens: 1}}",
    );
    assert_eq!(open(&sandbox, "hello").good().stdout, "one\n");
    assert_eq!(say(&sandbox, "and then?").good().stdout, "two\n");
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
    let status = sandbox.segno(&["status", "--json"]).good().json();
    assert_eq!(status[0]["chat"]["messages"], 2);
}

#[test]
fn a_script_gets_one_line_of_json_with_what_the_exchange_took() {
    let sandbox = scripted("default: {text: fine, usage: {input_tokens: 3, output_tokens: 2}}");
    open(&sandbox, "hello").good();
    let said = sandbox.segno(&["chat", "--session", "talk", "more", "--json"]);
    let lines = said.good().json();
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
fn a_message_comes_from_stdin_if_none_is_given() {
    let sandbox = commanded("");
    for words in [
        &["chat", "--spec", "bot.yaml"][..],
        &["chat", "--spec", "bot.yaml", "-"],
    ] {
        let mut command = sandbox.command(words);
        let file = sandbox.write("message", "first line\nsecond line\n");
        command.stdin(std::fs::File::open(file).unwrap());
        let said = segno_testkit::sandbox::finish(command).good();
        assert_eq!(said.stdout, "answer 0\n");
        let asked = sandbox.read("asked-0");
        assert!(
            asked.ends_with("first line\nsecond line\n") || asked.ends_with("second line"),
            "{asked}"
        );
    }
}

#[test]
fn an_agent_that_keeps_nothing_is_told_what_was_said_and_then_the_message() {
    let sandbox = commanded("");
    open(&sandbox, "my name is Ada").good();
    say(&sandbox, "who am I?").good();
    assert!(!sandbox.read("asked-0").contains("quoted"));
    let asked = sandbox.read("asked-1");
    let said = asked.find("[user] my name is Ada").unwrap();
    let answered = asked.find("[agent] answer 0").unwrap();
    let message = asked.rfind("who am I?").unwrap();
    assert!(said < answered && answered < message, "{asked}");
    assert_eq!(asked.matches("who am I?").count(), 1, "{asked}");
}

#[test]
fn a_chat_of_this_folder_is_taken_up_only_when_asked_for() {
    let sandbox = scripted("default: {text: fine}");
    for _ in 0..2 {
        sandbox
            .segno(&["chat", "--spec", "bot.yaml", "hello"])
            .good();
    }
    let names = crate::commands::standings(&sandbox);
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["chat-2", "chat"]);
    sandbox.segno(&["chat", "--continue", "more"]).good();
    let said = sandbox.segno(&["sessions", "show", "chat-2", "--json"]);
    assert_eq!(said.good().json()[0]["chat"]["messages"], 2);
}

#[test]
fn a_secret_in_a_message_or_an_answer_is_kept_nowhere() {
    let secret = "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4";
    let sandbox = scripted(&format!("default: {{text: \"the key is {secret}\"}}"));
    let said = open(&sandbox, &format!("use {secret}")).good();
    assert!(!said.stdout.contains(secret), "{said:?}");
    assert!(said.stderr.contains("looks like a secret"), "{said:?}");
    say(&sandbox, "again").good();
    for entry in std::fs::read_dir(sandbox.home()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[test]
fn a_copy_of_a_chat_knows_what_was_said_and_goes_on_by_itself() {
    let sandbox = commanded("");
    open(&sandbox, "my name is Ada").good();
    sandbox
        .segno(&["sessions", "fork", "talk", "--name", "twin"])
        .good();
    let said = sandbox
        .segno(&["chat", "--session", "twin", "who am I?"])
        .good();
    assert_eq!(said.stdout, "answer 1\n");
    assert!(sandbox.read("asked-1").contains("[user] my name is Ada"));
    assert_eq!(shown(&sandbox)["chat"]["messages"], 1);
}
