//! Models that call tools: what they receive, what is stored, and what a kill costs.

use std::collections::BTreeMap;

use segno_testkit::model::{ModelRequest, ModelResponse, ModelServer};
use segno_testkit::sandbox::{Sandbox, run_to_end};
use serde_json::{Value, json};

use super::{APIS, chain, run};
use crate::sandbox;

fn with_tools(sandbox: &Sandbox, provider: &str, host: &str, tools: &str) {
    chain(
        sandbox,
        provider,
        host,
        "",
        &["work", "then {{ steps[0].response }}"],
    );
    let spec = sandbox.read("ask.yaml");
    let spec = spec.replace("agents:", &format!("tools: {{python: [{tools}]}}\nagents:"));
    sandbox.write("ask.yaml", &spec);
}

/// How many answers the model gave since the last question.
fn turns(asked: &ModelRequest) -> usize {
    let messages = asked.body["messages"].as_array().unwrap();
    let question = |message: &Value| {
        message["role"] == "user" && !message["content"].to_string().contains("tool_result")
    };
    let newest = messages
        .iter()
        .rev()
        .take_while(|message| !question(message));
    newest
        .filter(|message| message["role"] == "assistant")
        .count()
}

/// A model with three turns in the first step: two with tools, one with text. The second step has
/// one turn.
fn worker() -> ModelServer {
    ModelServer::start(
        |_, asked| match (turns(asked), asked.body["messages"].to_string()) {
            (_, messages) if messages.contains("then ") => ModelResponse::Text("over".into()),
            (0, _) => ModelResponse::Tools(
                "Let me see. ".into(),
                vec![
                    ("calculator".into(), json!({"expression": "6 * 7"})),
                    (
                        "file_write".into(),
                        json!({"path": "notes/a.txt", "content": "forty-two\n", "create_dirs": true}),
                    ),
                ],
            ),
            (1, _) => ModelResponse::Tools(
                String::new(),
                vec![(
                    "grep".into(),
                    json!({"path": "notes/a.txt", "pattern": "forty"}),
                )],
            ),
            (_, _) => ModelResponse::Text("it is 42".into()),
        },
    )
}

#[test]
fn tool_results_are_sent_back_to_the_model() {
    for (provider, _) in APIS {
        let (sandbox, server) = (sandbox(), worker());
        with_tools(
            &sandbox,
            provider,
            &server.host(),
            "calculator, file_write, strands_cli.tools.grep",
        );
        let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
        assert_eq!(output.stdout, "over\n");
        assert_eq!(sandbox.read("notes/a.txt"), "forty-two\n");
        let asked = server.requests();
        assert_eq!(asked.len(), 4);
        let messages = asked[2].body["messages"].to_string();
        assert!(messages.contains("6 * 7 = 42"), "{messages}");
        assert!(messages.contains("1 | forty-two"), "{messages}");
        assert_eq!(asked[0].body["tools"].as_array().unwrap().len(), 3);
        let shown = sandbox
            .segno(&["show", "ask", "--json"])
            .expect_success()
            .json();
        assert_eq!(shown[0]["usage"]["input_tokens"], 44);
        assert_eq!(shown[0]["steps_finished"], 2);
        let step = &shown[0]["steps"][0];
        assert_eq!(
            (&step["model_turns"], &step["tool_calls"]),
            (&3.into(), &3.into())
        );
        assert_eq!(shown[0]["steps"][1]["model_turns"], 0);
        let table = sandbox.segno(&["show", "ask"]).expect_success().stdout;
        assert!(table.contains("TURNS  TOOLS"), "{table}");
        let logs = sandbox.segno(&["logs"]).expect_success().stdout;
        assert!(logs.contains("steps/0 calculator is done"), "{logs}");
    }
}

#[test]
fn a_kill_inside_a_step_costs_at_most_the_call_in_flight() {
    assert_kill_costs_at_most_one_call(&["resume"]);
}

#[test]
fn a_fork_inside_a_step_costs_at_most_the_call_in_flight() {
    assert_kill_costs_at_most_one_call(&["resume", "--fork"]);
}

/// Kills a run before and after every journal commit of its conversation with a model, and
/// continues with these arguments.
fn assert_kill_costs_at_most_one_call(resume: &[&str]) {
    let mut kills = 0;
    for point in ["journal.before_commit", "journal.after_commit"] {
        for visit in 1.. {
            let (sandbox, server) = (sandbox(), worker());
            with_tools(
                &sandbox,
                "anthropic",
                &server.host(),
                "calculator, file_write, grep",
            );
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
            let journal = sandbox.segno(&["logs", "--json"]);
            let events = journal.json();
            let has = |kind: &str| events.iter().any(|event| event["kind"] == kind);
            if has("model_replied") && !has("step_finished") {
                let status = sandbox.segno(&["status", "--json"]).expect_success();
                let used = &status.json()[0]["contexts"]["steps/0"]["used"];
                assert_eq!(used, 18, "{point}:{visit}: {status:?}");
            }
            let done = events.iter().any(|event| event["status"] == "completed");
            if !done {
                let words: &[&str] = if journal.status.success() {
                    resume
                } else {
                    &["run", "ask.yaml"]
                };
                let output = run(&sandbox, words).expect_success();
                assert!(
                    output.stdout.ends_with("over\n"),
                    "{point}:{visit}: {output:?}"
                );
            }
            assert_eq!(sandbox.read("notes/a.txt"), "forty-two\n");
            let mut calls: BTreeMap<String, usize> = BTreeMap::new();
            for asked in server.requests() {
                *calls.entry(asked.body["messages"].to_string()).or_default() += 1;
            }
            assert_eq!(calls.len(), 4, "{point}:{visit}: another conversation");
            let repeated: usize = calls.values().map(|count| count - 1).sum();
            assert!(
                repeated <= 1,
                "{point}:{visit}: {repeated} calls were repeated"
            );
            let before = point == "journal.before_commit";
            // After a commit, the journal holds every answer.
            assert!(
                before || repeated == 0,
                "{point}:{visit}: an answered call was repeated"
            );
            let all = sandbox.segno(&["sessions", "list", "--all", "--json"]);
            let last = all.expect_success().json().remove(0);
            let last = last["name"].as_str().unwrap();
            let log = sandbox
                .segno(&["logs", last, "--json"])
                .expect_success()
                .json();
            let shown = sandbox.segno(&["show", last, "--json"]).expect_success();
            // The journal holds four answers; one that was lost with its run is not known.
            assert_eq!(
                shown.json()[0]["usage"]["input_tokens"],
                44,
                "{point}:{visit}"
            );
            let replies = log.iter().filter(|event| event["kind"] == "model_replied");
            assert_eq!(replies.count(), 2, "{point}:{visit}");
        }
    }
    assert!(kills >= 12, "{kills}");
}

#[test]
fn tool_errors_are_sent_to_the_model() {
    let outside: [(&str, Value, &str); 6] = [
        (
            "file_read",
            json!({"path": "/etc/hostname"}),
            "outside of the workspace",
        ),
        (
            "file_read",
            json!({"path": "../home/seal.key"}),
            "outside of the workspace",
        ),
        (
            "file_write",
            json!({"path": "link/x", "content": "x"}),
            "outside of the workspace",
        ),
        ("file_read", json!({"path": "nothing"}), "No such file"),
        ("file_read", json!({"pth": "x"}), "`path` is missing"),
        ("rm", json!({}), "there is no tool `rm`"),
    ];
    for (tool, input, words) in outside {
        let sandbox = sandbox();
        std::os::unix::fs::symlink("/tmp", sandbox.work().join("link")).unwrap();
        let server = ModelServer::start(move |_, asked| match turns(asked) {
            0 => ModelResponse::Tools(String::new(), vec![(tool.into(), input.clone())]),
            _ => ModelResponse::Text("I see.".into()),
        });
        with_tools(&sandbox, "openai", &server.host(), "file_read, file_write");
        run(&sandbox, &["run", "ask.yaml"]).expect_success();
        let messages = server.requests()[1].body["messages"].to_string();
        assert!(messages.contains(words), "{tool}: {messages}");
    }
}

#[test]
fn endless_tool_loop_is_ended() {
    let (sandbox, server) = (
        sandbox(),
        ModelServer::start(|_, _| {
            ModelResponse::Tools(String::new(), vec![("current_time".into(), json!({}))])
        }),
    );
    with_tools(&sandbox, "anthropic", &server.host(), "current_time");
    run(&sandbox, &["run", "ask.yaml"]).refused(10, &["called tools 200 times"]);
    assert_eq!(server.requests().len(), 200);
}

#[test]
fn failed_request_mid_step_is_retried_in_place() {
    let (sandbox, server) = (
        sandbox(),
        ModelServer::start(|number, asked| match (number, turns(asked)) {
            (_, 0) => ModelResponse::Tools(String::new(), vec![("current_time".into(), json!({}))]),
            (1, _) => ModelResponse::Status(529, "", String::new()),
            _ => ModelResponse::Text("done".into()),
        }),
    );
    with_tools(&sandbox, "anthropic", &server.host(), "current_time");
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let asked: Vec<usize> = server.requests().iter().map(turns).collect();
    assert_eq!(asked, [0, 1, 1, 0, 1]);
    let shown = sandbox
        .segno(&["show", "ask", "--json"])
        .expect_success()
        .json();
    assert_eq!(shown[0]["usage"]["input_tokens"], 44);
}

#[test]
fn skill_is_announced_and_loaded_on_demand() {
    let sandbox = sandbox();
    let server = ModelServer::start(|_, asked| match turns(asked) {
        0 => ModelResponse::Tools(
            String::new(),
            ["notes", "notes/more", "notes/../x", "other"]
                .map(|id| ("Skill".to_owned(), json!({"skill_id": id})))
                .into(),
        ),
        _ => ModelResponse::Text("learnt".into()),
    });
    chain(&sandbox, "anthropic", &server.host(), "", &["work"]);
    let skills = "skills: [{id: notes, path: kept/notes, description: how to write notes}, {id: quiet, path: q, preload_metadata: false}]\nagents:";
    let spec = sandbox.read("ask.yaml").replace("agents:", skills);
    sandbox.write("ask.yaml", &spec);
    sandbox.write("kept/notes/SKILL.md", "Be short.");
    sandbox.write("kept/notes/more.md", "Be shorter.");
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let asked = server.requests();
    let system = asked[0].body["system"].as_str().unwrap();
    assert!(
        system.ends_with("when you need it):\n- notes: how to write notes"),
        "{system}"
    );
    let messages = asked[1].body["messages"].to_string();
    for words in [
        "Be short.",
        "Be shorter.",
        "is not a module name",
        "there is no skill `other`; available: notes, quiet",
    ] {
        assert!(messages.contains(words), "{words}: {messages}");
    }
}

#[test]
fn spec_tool_names_match_the_native_tools() {
    let named: Vec<&str> = segno_spec::native_tools().collect();
    // `spec_verify` is built where the crates are wired together, and the engine runs the others.
    let known =
        segno_agents::BuiltinTools::names().chain(["spec_verify", "state_get", "state_set"]);
    assert_eq!(named, known.collect::<Vec<_>>());
}

#[test]
fn model_step_in_flight_can_be_resolved() {
    for (said, requests) in [(&["done", "--result", "it is 42"][..], 1), (&["failed"], 3)] {
        let (sandbox, server) = (sandbox(), worker());
        with_tools(&sandbox, "anthropic", &server.host(), "calculator, grep");
        let mut command = sandbox.command(&["run", "ask.yaml"]);
        command
            .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
            .env("SEGNO_FAILPOINT", "step.before_effect:1");
        assert!(run_to_end(command).crashed());
        let words = [&["resume", "ask", "--in-flight"], said].concat();
        let output = run(&sandbox, &words).expect_success();
        assert_eq!(output.stdout, "over\n");
        let asked = server.requests().len();
        assert!(asked >= requests, "{said:?}: {asked}");
        assert_eq!(asked == 1, said[0] == "done", "{said:?}: {asked}");
    }
}
