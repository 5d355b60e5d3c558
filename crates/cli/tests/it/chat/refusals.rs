//! Messages that a chat refuses, and failures of its agent.

use std::io::Write;
use std::process::Stdio;

use segno_testkit::sandbox::wait_for_output;

use super::{open, say, scripted, spec};
use crate::commands::scripted as workflow;

#[test]
fn chat_needs_a_named_agent() {
    let sandbox = scripted("default: {text: fine}");
    sandbox
        .segno(&["chat", "hello"])
        .refused(2, &["[R0140]", "--agent claude"]);
    sandbox.configure(&format!(
        "[chat]\nspec = \"{}\"\n",
        sandbox.work().join("bot.yaml").display()
    ));
    assert_eq!(
        sandbox.segno(&["chat", "hello"]).expect_success().stdout,
        "fine\n"
    );
}

#[test]
fn unknown_agent_is_refused_with_the_known_ones() {
    let sandbox = scripted("default: {text: fine}");
    sandbox
        .segno(&["chat", "--agent", "nobody", "hello"])
        .refused(2, &["unknown agent `nobody`", "[R0141]"]);
    sandbox
        .segno(&["chat", "--spec", "bot.yaml", "--agent", "nobody", "hello"])
        .refused(
            2,
            &["unknown agent `nobody`", "bot.yaml; it has bot", "[R0141]"],
        );
    let two = sandbox
        .read("bot.yaml")
        .replace("agents: {", "agents: {other: {prompt: Other.}, ");
    sandbox.write("two.yaml", &two);
    sandbox
        .segno(&["chat", "--spec", "two.yaml", "hello"])
        .refused(2, &["several agents: bot, other", "[R0141]"]);
    sandbox
        .segno(&["chat", "--spec", "two.yaml", "--agent", "other", "hello"])
        .expect_success();
    assert_eq!(sandbox.calls().len(), 1, "nobody else was asked");
}

#[test]
fn empty_message_is_refused_without_a_session() {
    let sandbox = scripted("default: {text: fine}");
    for message in ["", " \n\t "] {
        open(&sandbox, message).refused(2, &["the message is empty", "[R0142]"]);
    }
    // Stdin is empty.
    sandbox
        .segno(&["chat", "--spec", "bot.yaml"])
        .refused(2, &["[R0142]"]);
    assert_eq!(crate::commands::session_statuses(&sandbox), []);
    assert_eq!(sandbox.calls().len(), 0);
}

#[test]
fn message_over_one_megabyte_is_refused() {
    let sandbox = scripted("default: {text: fine}");
    for (bytes, code) in [(2 << 20, 2), (1 << 20, 0)] {
        let mut command = sandbox.command(&["chat", "--spec", "bot.yaml"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A chat that has read enough closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(&vec![b'a'; bytes]);
        let output = wait_for_output(child);
        assert_eq!(output.code(), code, "{bytes} {output:?}");
        assert_eq!(output.stderr.contains("[R0143]"), code == 2, "{output:?}");
    }
    assert_eq!(sandbox.calls().len(), 1);
}

#[test]
fn message_that_is_not_utf_8_is_refused() {
    let sandbox = scripted("default: {text: fine}");
    let file = sandbox.write("message", "");
    std::fs::write(&file, b"caf\xe9").unwrap();
    let mut command = sandbox.command(&["chat", "--spec", "bot.yaml"]);
    command.stdin(std::fs::File::open(file).unwrap());
    segno_testkit::sandbox::run_to_end(command).refused(2, &["stdin is not UTF-8"]);
}

#[test]
fn workflow_refuses_messages() {
    let sandbox = scripted("default: {text: fine}");
    workflow(&sandbox, &["input: one"], "default: {text: fine}");
    sandbox
        .segno(&["run", "chain.yaml", "--name", "talk"])
        .expect_success();
    say(&sandbox, "hello").refused(17, &["not a chat; its kind is workflow", "[R0144]"]);
    sandbox
        .segno(&["chat", "--continue", "hello"])
        .refused(17, &["no chat in", "[R0145]"]);
}

#[test]
fn failed_exchange_is_reported_and_can_be_resumed() {
    let sandbox = scripted(
        "answers: [{contains: bad, fail: {kind: auth, message: no key}}]\ndefault: {text: fine}",
    );
    open(&sandbox, "bad").refused(10, &["no key"]);
    sandbox.segno(&["resume", "talk"]).refused(10, &["no key"]);
    spec(&sandbox, "provider: scripted, script: better.yaml");
    sandbox.write(
        "better.yaml",
        "ledger: calls.log\ndefault: {text: better}\n",
    );
    let output = sandbox.segno(&["resume", "talk"]).expect_success();
    assert_eq!(output.stdout, "better\n");
    assert_eq!(say(&sandbox, "more").expect_success().stdout, "better\n");
    let calls = ["messages/0", "messages/0", "messages/0", "messages/1"];
    assert_eq!(sandbox.calls(), calls);
}
