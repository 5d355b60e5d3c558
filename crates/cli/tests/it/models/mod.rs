//! API models, through the real binary and a real socket.

use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::{ProcessOutput, Sandbox};

use crate::sandbox;

mod approvals;
mod bedrock;
mod context;
mod context_window;
mod external_tools;
mod faults;
mod file_tools;
mod notes;
mod state;
mod telemetry;
mod tools;

/// Both APIs: the provider, and the environment variable of its key.
const APIS: [(&str, &str); 2] = [
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
];

/// Writes a chain of questions to a model at `host`.
fn chain(sandbox: &Sandbox, provider: &str, host: &str, more: &str, questions: &[&str]) {
    let steps: Vec<String> = questions
        .iter()
        .map(|question| format!("{{agent: a, input: \"{question}\"}}"))
        .collect();
    sandbox.write(
        "ask.yaml",
        &format!(
            "version: 0\nname: ask\nruntime: {{provider: {provider}, model_id: small-1, host: \"{host}\", failure_policy: {{retries: 2, wait_min: 0, wait_max: 0}}{more}}}\nagents: {{a: {{prompt: You are brief.}}}}\npattern: {{type: chain, config: {{steps: [{}]}}}}\n",
            steps.join(", ")
        ),
    );
}

fn run(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    let mut command = sandbox.command(words);
    command
        .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
        .env("OPENAI_API_KEY", "key-for-tests-only-2");
    segno_testkit::sandbox::run_to_end(command)
}

fn server() -> ModelServer {
    ModelServer::start(|_, asked| {
        ModelResponse::Text(format!("you said: {}", asked.last_message()))
    })
}

#[test]
fn model_answers_and_its_usage_is_counted() {
    for (provider, _) in APIS {
        let (sandbox, server) = (sandbox(), server());
        let more = ", temperature: 0.5, max_tokens: 99";
        chain(
            &sandbox,
            provider,
            &server.host(),
            more,
            &["one", "and {{ steps[0].response }}"],
        );
        let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
        assert_eq!(output.stdout, "you said: and you said: one\n");
        let shown = sandbox
            .segno(&["show", "ask", "--json"])
            .expect_success()
            .json();
        assert_eq!(shown[0]["usage"]["input_tokens"], 22);
        assert_eq!(shown[0]["usage"]["output_tokens"], 14);
        let asked = server.requests();
        assert_eq!(asked.len(), 2);
        let body = &asked[0].body;
        assert_eq!(body["model"], "small-1");
        assert_eq!(body["temperature"], 0.5);
        assert_eq!(body["max_tokens"], 99);
        let (path, key) = if provider == "anthropic" {
            assert_eq!(body["system"], "You are brief.");
            ("/v1/messages", ("x-api-key", "key-for-tests-only-1"))
        } else {
            assert_eq!(body["messages"][0]["content"], "You are brief.");
            let key = ("authorization", "Bearer key-for-tests-only-2");
            ("/v1/chat/completions", key)
        };
        assert_eq!(asked[0].path, path);
        assert_eq!(asked[0].header(key.0), Some(key.1));
    }
}

#[test]
fn a_host_may_be_given_with_or_without_its_version() {
    let (sandbox, server) = (sandbox(), server());
    for ending in ["", "/", "/v1", "/v1/"] {
        let host = format!("{}{ending}", server.host());
        chain(&sandbox, "ollama", &host, "", &["hi"]);
        sandbox.segno(&["run", "ask.yaml"]).expect_success();
    }
    let paths: Vec<String> = server
        .requests()
        .into_iter()
        .map(|asked| asked.path)
        .collect();
    assert_eq!(paths, ["/v1/chat/completions"; 4]);
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[test]
fn other_providers_get_their_own_path_and_key() {
    for (provider, variable, path, header) in [
        (
            "azure_openai",
            "AZURE_OPENAI_API_KEY",
            "/openai/v1",
            ("api-key", "key-for-tests-only-3"),
        ),
        (
            "gemini",
            "GEMINI_API_KEY",
            "/v1",
            ("authorization", "Bearer key-for-tests-only-3"),
        ),
    ] {
        let (sandbox, server) = (sandbox(), server());
        chain(&sandbox, provider, &server.host(), "", &["hi"]);
        let mut command = sandbox.command(&["run", "ask.yaml"]);
        command.env(variable, "key-for-tests-only-3");
        segno_testkit::sandbox::run_to_end(command).expect_success();
        let asked = &server.requests()[0];
        assert_eq!(asked.path, format!("{path}/chat/completions"));
        assert_eq!(asked.header(header.0), Some(header.1));
    }
}

#[test]
fn gemini_has_its_own_path_and_error_format() {
    let refusal = |status: u16, message: &str| {
        let details = r#"[{"retryDelay": "0.01s"}]"#;
        let error = format!(
            r#"[{{"error": {{"code": {status}, "message": "{message}", "details": {details}}}}}]"#
        );
        ModelResponse::Status(status, "", error)
    };
    let (sandbox, server) = (
        sandbox(),
        ModelServer::start(move |number, _| match number {
            0 => refusal(429, "slow"),
            1 => ModelResponse::Text("hello".into()),
            _ => refusal(400, "API key not valid. Please pass a valid API key."),
        }),
    );
    let host = format!("{}/v1beta/openai", server.host());
    chain(&sandbox, "gemini", &host, "", &["hi", "ho"]);
    let output = run(&sandbox, &["run", "ask.yaml"]);
    output.refused(
        10,
        &["after 1 attempt: 400 Bad Request: API key not valid."],
    );
    let paths: Vec<String> = server
        .requests()
        .into_iter()
        .map(|asked| asked.path)
        .collect();
    assert_eq!(paths, ["/v1beta/openai/chat/completions"; 3]);
}

#[test]
fn missing_key_is_named_before_any_request() {
    let sandbox = sandbox();
    for (provider, variable) in APIS {
        chain(&sandbox, provider, "http://127.0.0.1:1", "", &["hi"]);
        let spec = sandbox.read("ask.yaml");
        let spec = spec.replace(", host: \"http://127.0.0.1:1\"", "");
        sandbox.write("ask.yaml", &spec);
        sandbox
            .segno(&["run", "ask.yaml"])
            .refused(2, &[variable, "[A0101]"]);
    }
    assert!(crate::commands::session_statuses(&sandbox).is_empty());
}

#[test]
fn cost_is_counted_at_known_prices_and_limited() {
    let (sandbox, server) = (sandbox(), server());
    let more = ", budgets: {max_cost_usd: 0.0003}";
    let questions = ["one", "two", "three"];
    chain(&sandbox, "openai", &server.host(), more, &questions);
    let output = run(&sandbox, &["run", "ask.yaml"]);
    output.refused(18, &["the price of model `small-1` is unknown", "[A0105]"]);
    assert!(server.requests().is_empty());
    // 11 input tokens and 7 output tokens cost 0.00018 dollars.
    sandbox.configure("[prices.small-1]\ninput = 10\noutput = 10.0\n");
    run(&sandbox, &["run", "ask.yaml"]).refused(20, &["max_cost_usd", "[R0112]"]);
    assert_eq!(server.requests().len(), 2);
    let shown = sandbox.segno(&["show", "ask", "--json"]);
    assert_eq!(
        shown.expect_success().json()[0]["usage"]["cost_usd"],
        0.000_36
    );
    sandbox.configure("[prices.small-1]\ninput = 10\n");
    let output = run(&sandbox, &["resume"]);
    output.refused(
        2,
        &["`prices.small-1` needs `input` and `output`", "[C0102]"],
    );
}

#[test]
fn resume_repeats_no_answered_request() {
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
        .env("SEGNO_FAILPOINT", "step.after_effect:2");
    let output = segno_testkit::sandbox::run_to_end(command);
    assert!(output.crashed(), "{}", output.stderr);
    run(&sandbox, &["resume"]).expect_success();
    let questions: Vec<String> = server
        .requests()
        .iter()
        .map(segno_testkit::model::ModelRequest::last_message)
        .collect();
    assert_eq!(questions, ["one", "two", "two", "three"]);
}
