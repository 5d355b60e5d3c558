//! Chats with API models: the requests that they receive.

use segno_testkit::model::{ModelRequest, ModelResponse, ModelServer};
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end, wait_until};
use serde_json::{Value, json};

use super::{events, shown};
use crate::sandbox;

const APIS: [&str; 2] = ["anthropic", "openai"];

fn bot_sandbox(provider: &str, server: &ModelServer, more: &str) -> Sandbox {
    let sandbox = sandbox();
    sandbox.write(
        "bot.yaml",
        &format!(
            "version: 0\nname: bot\nruntime: {{provider: {provider}, model_id: small-1, host: \"{}\", failure_policy: {{retries: 0, wait_min: 0, wait_max: 0}}}}\n{more}agents: {{bot: {{prompt: You are brief.}}}}\npattern: {{type: chain, config: {{steps: [{{agent: bot, input: hi}}]}}}}\n",
            server.host()
        ),
    );
    sandbox
}

fn command(sandbox: &Sandbox, words: &[&str]) -> std::process::Command {
    let mut command = sandbox.command(words);
    command
        .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
        .env("OPENAI_API_KEY", "key-for-tests-only-2");
    command
}

fn segno(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    run_to_end(command(sandbox, words))
}

fn open(sandbox: &Sandbox, message: &str, more: &[&str]) -> ProcessOutput {
    let words = ["chat", "--spec", "bot.yaml", "--name", "talk", message];
    segno(sandbox, &[&words, more].concat())
}

fn say(sandbox: &Sandbox, message: &str) -> ProcessOutput {
    segno(sandbox, &["chat", "--session", "talk", message])
}

/// The role and text of each message in a request, without the system prompt.
fn sent(asked: &ModelRequest) -> Vec<(String, String)> {
    let messages = asked.body["messages"].as_array().unwrap();
    let words = |message: &Value| {
        let content = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts
                .iter()
                .map(|part| {
                    part["text"]
                        .as_str()
                        .unwrap_or(&part.to_string())
                        .to_owned()
                })
                .collect(),
            other => other.to_string(),
        };
        let calls = &message["tool_calls"];
        let calls = if calls.is_null() {
            String::new()
        } else {
            calls.to_string()
        };
        (
            message["role"].as_str().unwrap().to_owned(),
            content + &calls,
        )
    };
    let all = messages.iter().map(words);
    all.filter(|(role, _)| role != "system").collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(role, text): &(&str, &str)| ((*role).to_owned(), (*text).to_owned());
    expected.iter().map(own).collect()
}

#[test]
fn model_receives_the_history_as_messages() {
    for provider in APIS {
        let server =
            ModelServer::start(|number, _| ModelResponse::Text(format!("answer {number}")));
        let sandbox = bot_sandbox(provider, &server, "");
        assert_eq!(
            open(&sandbox, "one", &[]).expect_success().stdout,
            "answer 0\n"
        );
        say(&sandbox, "two").expect_success();
        assert_eq!(say(&sandbox, "three").expect_success().stdout, "answer 2\n");
        let asked = server.requests();
        assert_eq!(asked.len(), 3);
        let history = pairs(&[
            ("user", "one"),
            ("assistant", "answer 0"),
            ("user", "two"),
            ("assistant", "answer 1"),
            ("user", "three"),
        ]);
        assert_eq!(sent(&asked[2]), history, "{provider}");
        assert_eq!(shown(&sandbox)["chat"]["model"], "small-1");
    }
}

/// A model that calls the calculator first, and answers with text when it has the result.
fn calculating() -> ModelServer {
    ModelServer::start(|_, asked| {
        let all = asked.body["messages"].as_array().unwrap();
        let last = all.last().unwrap().to_string();
        if last.contains("calculate") {
            let input = json!({"expression": "6 * 7"});
            ModelResponse::Tools("Let me see. ".into(), vec![("calculator".into(), input)])
        } else {
            ModelResponse::Text("it is known".into())
        }
    })
}

const CALCULATOR: &str = "tools: {python: [calculator]}\n";

#[test]
fn tool_calls_and_results_stay_in_the_history() {
    for provider in APIS {
        let server = calculating();
        let sandbox = bot_sandbox(provider, &server, CALCULATOR);
        open(&sandbox, "calculate", &[]).expect_success();
        say(&sandbox, "thanks").expect_success();
        let asked = server.requests();
        assert_eq!(asked.len(), 3);
        let history = sent(&asked[2]);
        let text = format!("{history:?}");
        for words in ["calculator", "6 * 7", "42", "it is known", "thanks"] {
            assert!(text.contains(words), "{provider} {words}: {text}");
        }
        let chat = shown(&sandbox)["chat"].clone();
        assert_eq!(chat["turns"], 3);
        assert_eq!(chat["tool_calls"], 1);
        assert_eq!(chat["usage"]["input_tokens"], 33);
    }
}

#[test]
fn call_without_a_result_is_sent_as_unknown() {
    let server = ModelServer::start(|number, _| match number {
        0 => {
            let code = "open('begun', 'w').close(); import time; time.sleep(600)";
            ModelResponse::Tools(
                "Now. ".into(),
                vec![("python_exec".into(), json!({"code": code}))],
            )
        }
        _ => ModelResponse::Text("let me look".into()),
    });
    let sandbox = bot_sandbox("anthropic", &server, "tools: {python: [python_exec]}\n");
    let words = ["chat", "--spec", "bot.yaml", "--name", "talk", "do it"];
    let mut child = command(&sandbox, &words).spawn().unwrap();
    wait_until("the program runs", || sandbox.work().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let kinds = |kind: &str| events(&sandbox, kind).len();
    assert_eq!((kinds("model_replied"), kinds("tool_finished")), (1, 0));
    let output = say(&sandbox, "well?").expect_success();
    assert!(output.stderr.contains("outcome is unknown"), "{output:?}");
    let asked = server.requests();
    let text = format!("{:?}", sent(asked.last().unwrap()));
    for words in [
        "Now. ",
        "begun",
        "outcome of this tool call is unknown",
        "interrupted",
        "well?",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // This stays so: later requests do not drop it either.
    say(&sandbox, "and now?").expect_success();
    let text = format!("{:?}", sent(server.requests().last().unwrap()));
    assert!(
        text.contains("outcome of this tool call is unknown"),
        "{text}"
    );
}

#[test]
fn truncated_answer_is_continued_as_one_answer() {
    for provider in APIS {
        let server = ModelServer::start(|number, _| match number {
            0 => ModelResponse::TokenLimit("Once upon ".into()),
            1 => ModelResponse::TokenLimit("a time, ".into()),
            2 => ModelResponse::Text("the end.".into()),
            _ => ModelResponse::Text("yes".into()),
        });
        let sandbox = bot_sandbox(provider, &server, "");
        let output = open(&sandbox, "a tale", &[]).expect_success();
        assert_eq!(output.stdout, "Once upon a time, the end.\n");
        let asked = server.requests();
        assert_eq!(asked.len(), 3);
        let last = sent(&asked[2]);
        assert_eq!(last[1], ("assistant".into(), "Once upon ".into()));
        assert!(last[2].1.contains("Continue it exactly where it stops"));
        say(&sandbox, "really?").expect_success();
        let history = pairs(&[
            ("user", "a tale"),
            ("assistant", "Once upon a time, the end."),
            ("user", "really?"),
        ]);
        assert_eq!(sent(&server.requests()[3]), history, "{provider}");
        let ended = events(&sandbox, "exchange_ended");
        assert_eq!(ended[0]["replies"], 3);
        assert_eq!(ended[0]["ending"], "end_turn");
    }
}

#[test]
fn max_turns_stops_a_model_and_the_chat_continues() {
    for (play, words) in [
        (
            ModelResponse::TokenLimit("more ".into()),
            "more more more \n",
        ),
        (
            ModelResponse::Tools(
                "hm ".into(),
                vec![("calculator".into(), json!({"expression": "1 + 1"}))],
            ),
            "hm \n",
        ),
    ] {
        let first = play.clone();
        let server = ModelServer::start(move |number, _| match number {
            0..3 => first.clone(),
            _ => ModelResponse::Text("done".into()),
        });
        let sandbox = bot_sandbox("anthropic", &server, CALCULATOR);
        let output = open(&sandbox, "work", &["--max-turns", "3"]).expect_success();
        assert_eq!(output.stdout, words);
        assert!(output.stderr.contains("limit of 3 turns"), "{output:?}");
        assert_eq!(server.requests().len(), 3, "not once more");
        let chat = shown(&sandbox)["chat"].clone();
        assert_eq!(chat["last_ending"], "max_turns");
        assert_eq!(events(&sandbox, "exchange_ended")[0]["replies"], 3);
        assert_eq!(say(&sandbox, "go on").expect_success().stdout, "done\n");
        let text = format!("{:?}", sent(&server.requests()[3]));
        assert!(
            !text.contains("unknown"),
            "every call has its result: {text}"
        );
        assert_eq!(shown(&sandbox)["chat"]["last_ending"], "end_turn");
    }
}

#[test]
fn default_limit_is_twenty_turns() {
    let server = ModelServer::start(|_, _| ModelResponse::TokenLimit("x".into()));
    let sandbox = bot_sandbox("openai", &server, "");
    open(&sandbox, "work", &[]).expect_success();
    assert_eq!(server.requests().len(), 20);
    let shown = shown(&sandbox);
    assert_eq!(shown["chat"]["max_turns"], 20);
}

#[test]
fn oldest_messages_that_do_not_fit_are_excluded() {
    let server = ModelServer::start(|_, _| ModelResponse::Text("fine".into()));
    let sandbox = bot_sandbox("anthropic", &server, "");
    let announcements = "abcdefghi";
    for (number, announcement) in announcements.chars().enumerate() {
        let text = announcement.to_string().repeat(1_000_000);
        let file = sandbox.write("message", &text);
        let words: &[&str] = match number {
            0 => &["chat", "--spec", "bot.yaml", "--name", "talk"],
            _ => &["chat", "--session", "talk"],
        };
        let mut command = command(&sandbox, words);
        command.stdin(std::fs::File::open(file).unwrap());
        run_to_end(command).expect_success();
    }
    say(&sandbox, "and now?").expect_success();
    let sent = sent(server.requests().last().unwrap());
    assert!(
        sent[0].1.contains("1 earlier messages are omitted"),
        "{}",
        sent[0].1
    );
    let begin = |(_, text): &(String, String)| text.chars().next().unwrap();
    let included: String = sent
        .iter()
        .filter(|(_, text)| text.len() == 1_000_000)
        .map(begin)
        .collect();
    assert_eq!(included, "bcdefghi");
    assert_eq!(sent.last().unwrap().1, "and now?");
}

#[test]
fn failed_continuation_resumes_where_it_stopped() {
    let server = ModelServer::start(|number, _| match number {
        0 => ModelResponse::TokenLimit("Once upon ".into()),
        1 => ModelResponse::HangUp,
        _ => ModelResponse::Text("a time.".into()),
    });
    let sandbox = bot_sandbox("anthropic", &server, "");
    open(&sandbox, "a tale", &[]).refused(10, &[]);
    let output = segno(&sandbox, &["resume", "talk"]).expect_success();
    assert_eq!(output.stdout, "Once upon a time.\n");
    wait_until("it was asked three times", || server.requests().len() == 3);
    assert_eq!(sent(&server.requests()[2]).len(), 3);
}
