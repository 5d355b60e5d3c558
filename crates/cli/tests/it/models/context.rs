//! What agents remember: earlier steps, summaries of the conversation, notes.

use segno_testkit::model::{ModelRequest, ModelResponse, ModelServer};
use serde_json::json;

use super::{chain, run, server};
use crate::sandbox;

/// The role and text of each message in a request.
fn messages(asked: &ModelRequest) -> Vec<(String, String)> {
    let messages = asked.body["messages"].as_array().unwrap();
    let words = |content: &serde_json::Value| match content {
        serde_json::Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let message = |message: &serde_json::Value| {
        let role = message["role"].as_str().unwrap().to_owned();
        (role, words(&message["content"]))
    };
    messages.iter().map(message).collect()
}

#[test]
fn agent_remembers_earlier_steps_after_a_kill() {
    let (sandbox, server) = (sandbox(), server());
    chain(
        &sandbox,
        "anthropic",
        &server.host(),
        "",
        &["one", "two", "three"],
    );
    let mut command = sandbox.command(&["run", "ask.yaml"]);
    command
        .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
        .env("SEGNO_FAILPOINT", "step.before_effect:3");
    assert!(segno_testkit::sandbox::run_to_end(command).crashed());
    run(&sandbox, &["resume"]).expect_success();
    let asked = server.requests();
    assert_eq!(asked.len(), 3);
    let expected = [
        ("user", "one"),
        ("assistant", "you said: one"),
        ("user", "two"),
        ("assistant", "you said: two"),
        ("user", "three"),
    ]
    .map(|(who, words)| (who.to_owned(), words.to_owned()));
    assert_eq!(messages(&asked[2]), expected);
    assert_eq!(messages(&asked[1]), expected[..3]);
}

#[test]
fn agent_remembers_the_newest_256_kib() {
    let sandbox = sandbox();
    let server = ModelServer::start(|number, _| match number {
        0 => ModelResponse::Text("a".repeat(200_000)),
        1 => ModelResponse::Text("b".repeat(100_000)),
        _ => ModelResponse::Text("done".into()),
    });
    let questions = ["one", "two", "three"];
    chain(&sandbox, "anthropic", &server.host(), "", &questions);
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let asked = server.requests();
    let sizes = |number: usize| -> Vec<usize> {
        let sent = messages(&asked[number]).into_iter();
        sent.map(|(_, text)| text.len()).collect()
    };
    assert_eq!(sizes(1), [3, 200_000, 3]);
    assert_eq!(sizes(2), [3, 100_000, 5]);
}

#[test]
fn reply_that_is_no_answer_does_not_fill_the_context() {
    let sandbox = sandbox();
    let server = ModelServer::start(|number, _| match number {
        0 => ModelResponse::Text(String::new()),
        _ => ModelResponse::Text("done".into()),
    });
    // Every reply takes more than a percent of this window.
    sandbox.configure("[context_windows]\nsmall-1 = 1000\n");
    chain(&sandbox, "anthropic", &server.host(), "", &["one"]);
    let policy = "continuity: {context_warning_percent: 1, context_full_percent: 1}\n";
    let spec = sandbox.read("ask.yaml") + policy;
    sandbox.write("ask.yaml", &spec);
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let asked = server.requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(messages(&asked[1]), messages(&asked[0]));
}

#[test]
fn a_spec_can_ask_for_agents_without_memory() {
    let (sandbox, server) = (sandbox(), server());
    chain(&sandbox, "openai", &server.host(), "", &["one", "two"]);
    let spec = sandbox.read("ask.yaml") + "continuity: {memory: none}\n";
    sandbox.write("ask.yaml", &spec);
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let asked = server.requests();
    assert_eq!(asked[1].body["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn task_remembers_only_its_dependencies() {
    let (sandbox, server) = (sandbox(), server());
    chain(&sandbox, "anthropic", &server.host(), "", &["x"]);
    let (head, _) = sandbox
        .read("ask.yaml")
        .split_once("pattern:")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let tasks = "pattern: {type: workflow, config: {tasks: [{id: left, agent: a, input: left}, {id: beside, agent: a, input: beside}, {id: after, agent: a, deps: [left], input: after}]}}\n";
    sandbox.write("ask.yaml", &format!("{head}{tasks}"));
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let asked = server.requests();
    let after = asked
        .iter()
        .find(|asked| asked.last_message() == "after")
        .unwrap();
    let words: Vec<String> = messages(after)
        .into_iter()
        .map(|(_, words)| words)
        .collect();
    assert_eq!(words, ["left", "you said: left", "after"]);
}

/// A model that reads the same file again and again, and summarizes when it is asked to.
fn reader() -> ModelServer {
    ModelServer::start(|_, asked| {
        let messages = asked.body["messages"].to_string();
        if asked.body["system"].to_string().contains("You summarize") {
            return ModelResponse::Text(format!("SUM of {} bytes", messages.len()));
        }
        if messages.contains("SUM of") {
            return ModelResponse::Text("read".into());
        }
        let input = json!({"path": "big.txt", "lines": 200});
        ModelResponse::Tools(String::new(), vec![("head".into(), input)])
    })
}

#[test]
fn kill_does_not_repeat_a_conversation_summary() {
    let policy = "tools: {python: [head]}\ncontext_policy: {compaction: {when_tokens_over: 1000, preserve_recent_messages: 3, summarization_model: tiny-1}}\n";
    let mut kills = 0;
    for visit in 1.. {
        let (sandbox, server) = (sandbox(), reader());
        sandbox.write(
            "big.txt",
            &"a line of forty bytes, more or less so\n".repeat(200),
        );
        chain(&sandbox, "anthropic", &server.host(), "", &["read it"]);
        let spec = sandbox.read("ask.yaml") + policy;
        sandbox.write("ask.yaml", &spec);
        let mut command = sandbox.command(&["run", "ask.yaml"]);
        command
            .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
            .env("SEGNO_FAILPOINT", format!("journal.after_commit:{visit}"));
        let first = segno_testkit::sandbox::run_to_end(command);
        if first.crashed() {
            kills += 1;
            if crate::commands::session_statuses(&sandbox)
                .iter()
                .all(|session| session.1 != "completed")
            {
                run(&sandbox, &["resume"]).expect_success();
            }
        } else {
            first.expect_success();
        }
        let asked = server.requests();
        let summaries: Vec<&ModelRequest> = asked
            .iter()
            .filter(|asked| asked.body["model"] == "tiny-1")
            .collect();
        assert_eq!(summaries.len(), 1, "visit {visit}");
        // Each call was made once: no answered call was repeated after the kill.
        let mut bodies: Vec<String> = asked.iter().map(|asked| asked.body.to_string()).collect();
        let calls = bodies.len();
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), calls, "visit {visit}");
        // The question itself is never summarized, and the summary stands before it.
        let last = messages(asked.last().unwrap());
        assert!(
            last[0]
                .1
                .starts_with("Summary of the conversation so far:\n\nSUM of"),
            "{last:?}"
        );
        assert_eq!(last[1].1, "read it");
        if kills < visit {
            break;
        }
    }
    assert!(kills >= 8, "{kills}");
}

#[test]
fn every_step_is_noted_once_and_agents_see_the_newest() {
    for (format, file) in [("markdown", "artifacts/notes.md"), ("json", "notes.jsonl")] {
        let mut kills = 0;
        for visit in 1.. {
            let (sandbox, server) = (sandbox(), server());
            chain(
                &sandbox,
                "anthropic",
                &server.host(),
                "",
                &["one", "two", "three"],
            );
            let policy = format!(
                "context_policy: {{notes: {{file: {file}, include_last: 1, format: {format}}}}}\n"
            );
            let spec = sandbox.read("ask.yaml") + &policy;
            sandbox.write("ask.yaml", &spec);
            let mut command = sandbox.command(&["run", "ask.yaml"]);
            command
                .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
                .env("SEGNO_FAILPOINT", format!("artifact.before_rename:{visit}"));
            let output = segno_testkit::sandbox::run_to_end(command);
            if output.crashed() {
                kills += 1;
                run(&sandbox, &["resume"]).expect_success();
            }
            let notes = sandbox.read(file);
            for step in 0..3 {
                let mark = format!("/steps/{step}");
                assert_eq!(notes.matches(&mark).count(), 1, "{notes}");
            }
            assert!(notes.contains("you said: one"), "{notes}");
            let gap = if format == "json" { "\n\n" } else { "\n\n\n" };
            assert!(!notes.starts_with('\n') && !notes.contains(gap), "{notes}");
            let asked = server.requests();
            assert_eq!(asked.len(), 3, "no answered question is asked again");
            let shown = asked[2].body["system"].as_str().unwrap();
            assert!(
                shown.starts_with("You are brief.\n\nNotes on the work so far:"),
                "{shown}"
            );
            assert!(
                shown.contains("you said: two") && !shown.contains("you said: one"),
                "{shown}"
            );
            if !output.crashed() {
                break;
            }
        }
        assert_eq!(kills, 3);
    }
}
