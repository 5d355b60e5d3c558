//! Chats with models behind an API: what they are really sent.

use segno_testkit::model::{Asked, ModelServer, Play};
use segno_testkit::sandbox::{Said, Sandbox, finish, until};
use serde_json::{Value, json};

use super::{entries, shown};
use crate::sandbox;

const APIS: [&str; 2] = ["anthropic", "openai"];

fn place(provider: &str, server: &ModelServer, more: &str) -> Sandbox {
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

fn segno(sandbox: &Sandbox, words: &[&str]) -> Said {
    finish(command(sandbox, words))
}

fn open(sandbox: &Sandbox, message: &str, more: &[&str]) -> Said {
    let words = ["chat", "--spec", "bot.yaml", "--name", "talk", message];
    segno(sandbox, &[&words, more].concat())
}

fn say(sandbox: &Sandbox, message: &str) -> Said {
    segno(sandbox, &["chat", "--session", "talk", message])
}

/// Who said what, as it was sent; without the system's words.
fn sent(asked: &Asked) -> Vec<(String, String)> {
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
fn a_model_is_sent_what_was_said_as_messages() {
    for provider in APIS {
        let server = ModelServer::start(|number, _| Play::Text(format!("answer {number}")));
        let sandbox = place(provider, &server, "");
        assert_eq!(open(&sandbox, "one", &[]).good().stdout, "answer 0\n");
        say(&sandbox, "two").good();
        assert_eq!(say(&sandbox, "three").good().stdout, "answer 2\n");
        let asked = server.asked();
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

/// A calculator first, and words when it has answered.
fn calculating() -> ModelServer {
    ModelServer::start(|_, asked| {
        let all = asked.body["messages"].as_array().unwrap();
        let last = all.last().unwrap().to_string();
        if last.contains("calculate") {
            let input = json!({"expression": "6 * 7"});
            Play::Tools("Let me see. ".into(), vec![("calculator".into(), input)])
        } else {
            Play::Text("it is known".into())
        }
    })
}

const CALCULATOR: &str = "tools: {python: [calculator]}\n";

#[test]
fn calls_and_their_results_stay_in_the_history_and_are_counted() {
    for provider in APIS {
        let server = calculating();
        let sandbox = place(provider, &server, CALCULATOR);
        open(&sandbox, "calculate", &[]).good();
        say(&sandbox, "thanks").good();
        let asked = server.asked();
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
fn a_call_without_a_result_is_told_as_unknown_and_never_dropped() {
    let server = ModelServer::start(|number, _| match number {
        0 => {
            let code = "open('begun', 'w').close(); import time; time.sleep(600)";
            Play::Tools(
                "Now. ".into(),
                vec![("python_exec".into(), json!({"code": code}))],
            )
        }
        _ => Play::Text("let me look".into()),
    });
    let sandbox = place("anthropic", &server, "tools: {python: [python_exec]}\n");
    let words = ["chat", "--spec", "bot.yaml", "--name", "talk", "do it"];
    let mut child = command(&sandbox, &words).spawn().unwrap();
    until("the program runs", || sandbox.work().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let kinds = |kind: &str| entries(&sandbox, kind).len();
    assert_eq!((kinds("model_replied"), kinds("tool_finished")), (1, 0));
    let said = say(&sandbox, "well?").good();
    assert!(said.stderr.contains("outcome is unknown"), "{said:?}");
    let asked = server.asked();
    let text = format!("{:?}", sent(asked.last().unwrap()));
    for words in [
        "Now. ",
        "begun",
        "outcome of this tool call is unknown",
        "broken off",
        "well?",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // It stays so: nothing is dropped later either.
    say(&sandbox, "and now?").good();
    let text = format!("{:?}", sent(server.asked().last().unwrap()));
    assert!(
        text.contains("outcome of this tool call is unknown"),
        "{text}"
    );
}

#[test]
fn an_answer_that_was_cut_off_is_continued_and_is_one_answer() {
    for provider in APIS {
        let server = ModelServer::start(|number, _| match number {
            0 => Play::Long("Once upon ".into()),
            1 => Play::Long("a time, ".into()),
            2 => Play::Text("the end.".into()),
            _ => Play::Text("yes".into()),
        });
        let sandbox = place(provider, &server, "");
        let said = open(&sandbox, "a tale", &[]).good();
        assert_eq!(said.stdout, "Once upon a time, the end.\n");
        let asked = server.asked();
        assert_eq!(asked.len(), 3);
        let last = sent(&asked[2]);
        assert_eq!(last[1], ("assistant".into(), "Once upon ".into()));
        assert!(last[2].1.contains("Continue it exactly where it stops"));
        say(&sandbox, "really?").good();
        let history = pairs(&[
            ("user", "a tale"),
            ("assistant", "Once upon a time, the end."),
            ("user", "really?"),
        ]);
        assert_eq!(sent(&server.asked()[3]), history, "{provider}");
        let ended = entries(&sandbox, "exchange_ended");
        assert_eq!(ended[0]["replies"], 3);
        assert_eq!(ended[0]["ending"], "end_turn");
    }
}

#[test]
fn a_model_that_does_not_come_to_an_end_is_stopped_at_the_limit_and_can_go_on() {
    for (play, words) in [
        (Play::Long("more ".into()), "more more more \n"),
        (
            Play::Tools(
                "hm ".into(),
                vec![("calculator".into(), json!({"expression": "1 + 1"}))],
            ),
            "hm \n",
        ),
    ] {
        let first = play.clone();
        let server = ModelServer::start(move |number, _| match number {
            0..3 => first.clone(),
            _ => Play::Text("done".into()),
        });
        let sandbox = place("anthropic", &server, CALCULATOR);
        let said = open(&sandbox, "work", &["--max-turns", "3"]).good();
        assert_eq!(said.stdout, words);
        assert!(said.stderr.contains("answered 3 times"), "{said:?}");
        assert_eq!(server.asked().len(), 3, "not once more");
        let chat = shown(&sandbox)["chat"].clone();
        assert_eq!(chat["last_ending"], "max_turns");
        assert_eq!(say(&sandbox, "go on").good().stdout, "done\n");
        let text = format!("{:?}", sent(&server.asked()[3]));
        assert!(
            !text.contains("unknown"),
            "every call has its result: {text}"
        );
        assert_eq!(shown(&sandbox)["chat"]["last_ending"], "end_turn");
    }
}

#[test]
fn twenty_turns_are_the_usual_limit() {
    let server = ModelServer::start(|_, _| Play::Long("x".into()));
    let sandbox = place("openai", &server, "");
    open(&sandbox, "work", &[]).good();
    assert_eq!(server.asked().len(), 20);
    let shown = shown(&sandbox);
    assert_eq!(shown["chat"]["max_turns"], 20);
}

#[test]
fn what_does_not_fit_any_more_is_left_out_from_the_oldest_on_and_said() {
    let server = ModelServer::start(|_, _| Play::Text("fine".into()));
    let sandbox = place("anthropic", &server, "");
    let letters = "abcdefghi";
    for (number, letter) in letters.chars().enumerate() {
        let text = letter.to_string().repeat(1_000_000);
        let file = sandbox.write("message", &text);
        let words: &[&str] = match number {
            0 => &["chat", "--spec", "bot.yaml", "--name", "talk"],
            _ => &["chat", "--session", "talk"],
        };
        let mut command = command(&sandbox, words);
        command.stdin(std::fs::File::open(file).unwrap());
        finish(command).good();
    }
    say(&sandbox, "and now?").good();
    let sent = sent(server.asked().last().unwrap());
    assert!(
        sent[0].1.contains("1 earlier messages are left out"),
        "{}",
        sent[0].1
    );
    let begin = |(_, text): &(String, String)| text.chars().next().unwrap();
    let kept: String = sent
        .iter()
        .filter(|(_, text)| text.len() == 1_000_000)
        .map(begin)
        .collect();
    assert_eq!(kept, "bcdefghi");
    assert_eq!(sent.last().unwrap().1, "and now?");
}

#[test]
fn a_continued_answer_that_is_killed_goes_on_where_it_was() {
    let server = ModelServer::start(|number, _| match number {
        0 => Play::Long("Once upon ".into()),
        1 => Play::HangUp,
        _ => Play::Text("a time.".into()),
    });
    let sandbox = place("anthropic", &server, "");
    open(&sandbox, "a tale", &[]).refused(10, &[]);
    let said = segno(&sandbox, &["resume", "talk"]).good();
    assert_eq!(said.stdout, "Once upon a time.\n");
    until("it was asked three times", || server.asked().len() == 3);
    assert_eq!(sent(&server.asked()[2]).len(), 3);
}
