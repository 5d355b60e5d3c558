//! Amazon Bedrock: signed requests, framed streams, and its own errors.

use segno_testkit::bedrock::{BedrockResponse, BedrockServer};
use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::json;

use super::chain;
use crate::sandbox;

const ID: &str = "AKIDFORTESTSONLY";
const SECRET: &str = "secret-for-tests-only+/1";
const SESSION: &str = "session-token-for-tests-only==";

/// Runs with session credentials, in a region.
fn run(sandbox: &Sandbox, words: &[&str]) -> ProcessOutput {
    let mut command = sandbox.command(words);
    command
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_SESSION_TOKEN", SESSION)
        .env("AWS_REGION", "eu-west-1");
    run_to_end(command)
}

fn ask(sandbox: &Sandbox, server: &BedrockServer, more: &str) {
    chain(sandbox, "bedrock", &server.host(), more, &["hi"]);
}

/// A server that plays `play` this many times, and then answers.
fn failing(times: usize, play: BedrockResponse) -> BedrockServer {
    BedrockServer::start(move |number, _| {
        if number < times {
            play.clone()
        } else {
            BedrockResponse::Text("at last".into())
        }
    })
}

#[test]
fn signed_request_is_answered_and_its_usage_is_counted() {
    let (sandbox, server) = (sandbox(), failing(0, BedrockResponse::Html));
    let more = ", region: us-west-2, temperature: 0.5, top_p: 0.25, max_tokens: 99";
    ask(&sandbox, &server, more);
    let spec = sandbox.read("ask.yaml");
    sandbox.write("ask.yaml", &spec.replace("small-1", "\"a.small-v1:0\""));
    let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
    assert_eq!(output.stdout, "at last\n");
    let shown = sandbox.segno(&["show", "ask", "--json"]);
    let shown = shown.expect_success().json();
    assert_eq!(shown[0]["usage"]["input_tokens"], 11);
    assert_eq!(shown[0]["usage"]["output_tokens"], 7);
    let asked = &server.requests()[0];
    assert_eq!(asked.path, "/model/a.small-v1%3A0/converse-stream");
    assert_eq!(
        asked.json(),
        json!({
            "system": [{"text": "You are brief."}],
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
            "inferenceConfig": {"temperature": 0.5, "topP": 0.25, "maxTokens": 99},
        })
    );
    let signature = asked.header("authorization");
    assert!(
        signature.contains("/us-west-2/bedrock/aws4_request"),
        "{signature}"
    );
    assert!(signature.contains("x-amz-security-token"), "{signature}");
    assert_eq!(signature, asked.signature(ID, SECRET));
    assert_ne!(signature, asked.signature(ID, "another"));
}

#[test]
fn tool_calls_are_executed_and_answered() {
    let sandbox = sandbox();
    let server = BedrockServer::start(|number, _| {
        if number > 0 {
            return BedrockResponse::Text("done".into());
        }
        let read = ("file_read".to_owned(), json!({"path": "a.txt"}));
        let other = ("file_read".to_owned(), json!({"path": "none.txt"}));
        BedrockResponse::Tools("I look.".into(), vec![read, other])
    });
    ask(&sandbox, &server, "");
    sandbox.write("a.txt", "what it says");
    let spec = sandbox.read("ask.yaml");
    let spec = spec.replace("prompt: You are brief.", "prompt: x, tools: [file_read]");
    let spec = spec.replace("\npattern", "\ntools: {python: [file_read]}\npattern");
    sandbox.write("ask.yaml", &spec);
    let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
    assert_eq!(output.stdout, "done\n");
    let body = server.requests()[1].json();
    let tool = &body["toolConfig"]["tools"][0]["toolSpec"];
    assert_eq!(tool["name"], "file_read");
    assert_eq!(tool["inputSchema"]["json"]["type"], "object");
    let call = |id: &str, path: &str| json!({"toolUse": {"toolUseId": id, "name": "file_read", "input": {"path": path}}});
    let content = json!([{"text": "I look."}, call("call-1", "a.txt"), call("call-2", "none.txt")]);
    assert_eq!(
        body["messages"][1],
        json!({"role": "assistant", "content": content})
    );
    let results = &body["messages"][2]["content"];
    let good = json!({"toolUseId": "call-1", "content": [{"text": "what it says"}]});
    assert_eq!(results[0]["toolResult"], good);
    assert_eq!(results[1]["toolResult"]["status"], "error");
}

#[test]
fn transient_errors_are_retried() {
    for play in [
        BedrockResponse::Refusal(429, "ThrottlingException", "slow".into()),
        BedrockResponse::Refusal(429, "ModelNotReadyException", "loading".into()),
        BedrockResponse::Refusal(503, "ServiceUnavailableException", "busy".into()),
        BedrockResponse::Exception("modelStreamErrorException"),
        BedrockResponse::Exception("throttlingException"),
        BedrockResponse::Cut,
        BedrockResponse::Flipped,
        BedrockResponse::Html,
    ] {
        let (sandbox, server) = (sandbox(), failing(2, play.clone()));
        ask(&sandbox, &server, "");
        let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
        assert_eq!(output.stdout, "at last\n", "{play:?}");
        assert_eq!(server.requests().len(), 3, "{play:?}");
    }
}

#[test]
fn permanent_errors_are_not_retried() {
    for (play, words) in [
        (
            BedrockResponse::Refusal(403, "AccessDeniedException", "no entry".into()),
            "403 AccessDeniedException: no entry",
        ),
        (
            BedrockResponse::Refusal(404, "ResourceNotFoundException", "which?".into()),
            "404 ResourceNotFoundException: which?",
        ),
        (
            BedrockResponse::Refusal(400, "ValidationException", "Input is too long".into()),
            "400 ValidationException: Input is too long",
        ),
        (
            BedrockResponse::Exception("validationException"),
            "it broke",
        ),
        (
            BedrockResponse::TokenLimit("too much".into()),
            "longer than `max_tokens` allows",
        ),
    ] {
        let (sandbox, server) = (sandbox(), failing(9, play));
        ask(&sandbox, &server, "");
        run(&sandbox, &["run", "ask.yaml"]).refused(10, &["after 1 attempt:", words]);
        assert_eq!(server.requests().len(), 1, "{words}");
    }
}

#[test]
fn error_that_quotes_the_signed_text_shows_no_secret() {
    let quoted = format!("should have been 'host:x\nx-amz-security-token:{SESSION}\n' by {ID}");
    let play = BedrockResponse::Refusal(403, "InvalidSignatureException", quoted);
    let (sandbox, server) = (sandbox(), failing(9, play));
    ask(&sandbox, &server, "");
    let output = run(&sandbox, &["run", "ask.yaml"]);
    let output = output.refused(10, &["x-amz-security-token:[hidden] ' by [hidden]"]);
    let logs = sandbox.segno(&["logs", "--json"]).expect_success().stdout;
    for text in [&output.stderr, &logs] {
        for secret in [ID, SECRET, SESSION] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn bearer_key_wins_and_the_endpoint_may_come_from_env() {
    let (sandbox, server) = (sandbox(), failing(0, BedrockResponse::Html));
    ask(&sandbox, &server, "");
    let spec = sandbox.read("ask.yaml");
    let host = format!(", host: \"{}\"", server.host());
    sandbox.write("ask.yaml", &spec.replace(&host, ""));
    let mut command = sandbox.command(&["run", "ask.yaml"]);
    command
        .env("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.host() + "/")
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_BEARER_TOKEN_BEDROCK", "key-for-tests-only-4");
    run_to_end(command).expect_success();
    let asked = &server.requests()[0];
    assert_eq!(asked.header("authorization"), "Bearer key-for-tests-only-4");
    assert_eq!(asked.path, "/model/small-1/converse-stream");
}

#[test]
fn missing_credentials_are_named_before_any_request() {
    let sandbox = sandbox();
    chain(&sandbox, "bedrock", "http://127.0.0.1:1", "", &["hi"]);
    let spec = sandbox.read("ask.yaml");
    let spec = spec.replace(", host: \"http://127.0.0.1:1\"", "");
    sandbox.write("ask.yaml", &spec);
    let with = |variables: &[(&str, &str)]| {
        let mut command = sandbox.command(&["run", "ask.yaml"]);
        command.envs(variables.iter().copied());
        run_to_end(command)
    };
    with(&[]).refused(2, &["`AWS_ACCESS_KEY_ID` is not set", "[A0101]"]);
    let id = ("AWS_ACCESS_KEY_ID", ID);
    with(&[id]).refused(2, &["`AWS_SECRET_ACCESS_KEY` is not set", "[A0101]"]);
    let secret = ("AWS_SECRET_ACCESS_KEY", SECRET);
    with(&[id, secret]).refused(2, &["needs a region", "`AWS_REGION`", "[A0102]"]);
    let region = ("AWS_DEFAULT_REGION", "a.example/");
    with(&[id, secret, region]).refused(2, &["needs a region", "[A0102]"]);
    assert!(crate::commands::session_statuses(&sandbox).is_empty());
}
