//! Everything that a provider can do wrong: bounded retries, the right exit code, nothing lost and
//! nothing duplicated.

use segno_testkit::model::{ModelResponse, ModelServer};

use super::{APIS, chain, run};
use crate::sandbox;

fn body(kind: &str, message: &str) -> String {
    format!("{{\"error\": {{\"type\": \"{kind}\", \"message\": \"{message}\"}}}}")
}

/// A server that fails this many times, and then answers.
fn failing(times: usize, play: ModelResponse) -> ModelServer {
    ModelServer::start(move |number, _| {
        if number < times {
            play.clone()
        } else {
            ModelResponse::Text("at last".into())
        }
    })
}

#[test]
fn transient_errors_are_retried() {
    for (provider, _) in APIS {
        for play in [
            ModelResponse::Status(429, "retry-after: 0\r\n", body("rate_limit_error", "slow")),
            ModelResponse::Status(429, "retry-after-ms: 20\r\n", String::new()),
            ModelResponse::Status(500, "", body("api_error", "oops")),
            ModelResponse::Status(529, "", body("overloaded_error", "busy")),
            ModelResponse::Status(
                502,
                "content-type: text/html\r\n",
                "<html>Bad Gateway</html>".into(),
            ),
            ModelResponse::Cut,
            ModelResponse::ErrorInStream,
            ModelResponse::Empty,
            ModelResponse::Html,
            ModelResponse::HangUp,
        ] {
            let (sandbox, server) = (sandbox(), failing(2, play.clone()));
            chain(&sandbox, provider, &server.host(), "", &["hi", "ho"]);
            let output = run(&sandbox, &["run", "ask.yaml"]).expect_success();
            assert_eq!(output.stdout, "at last\n", "{play:?}");
            assert_eq!(server.requests().len(), 4, "{provider} {play:?}");
        }
    }
}

#[test]
fn retries_are_bounded_and_the_run_can_be_resumed() {
    for (provider, _) in APIS {
        let (sandbox, server) = (
            sandbox(),
            failing(4, ModelResponse::Status(503, "", "busy".into())),
        );
        chain(&sandbox, provider, &server.host(), "", &["hi"]);
        let output = run(&sandbox, &["run", "ask.yaml"]);
        output.refused(
            10,
            &[
                "after 3 attempts",
                "503 Service Unavailable: busy",
                "[R0101]",
            ],
        );
        assert_eq!(server.requests().len(), 3);
        run(&sandbox, &["resume"]).expect_success();
        assert_eq!(server.requests().len(), 5);
    }
}

#[test]
fn permanent_errors_are_not_retried() {
    for (provider, _) in APIS {
        for (play, words) in [
            (
                ModelResponse::Status(401, "", body("authentication_error", "bad key")),
                "401 Unauthorized: bad key",
            ),
            (
                ModelResponse::Status(404, "", body("not_found_error", "no such model")),
                "404 Not Found: no such model",
            ),
            (
                ModelResponse::Status(400, "", body("invalid_request_error", "prompt is too long")),
                "prompt is too long",
            ),
            (
                ModelResponse::Status(
                    429,
                    "",
                    "{\"error\": {\"code\": \"insufficient_quota\", \"message\": \"pay\"}}".into(),
                ),
                "429 Too Many Requests: pay",
            ),
            (
                ModelResponse::TokenLimit("too much".into()),
                "longer than `max_tokens` allows",
            ),
        ] {
            let (sandbox, server) = (sandbox(), failing(9, play));
            chain(&sandbox, provider, &server.host(), "", &["hi"]);
            run(&sandbox, &["run", "ask.yaml"]).refused(10, &["after 1 attempt:", words]);
            assert_eq!(server.requests().len(), 1, "{provider} {words}");
        }
    }
}

#[test]
fn unreachable_server_is_named_without_the_key() {
    let sandbox = sandbox();
    chain(&sandbox, "openai", "http://127.0.0.1:1", "", &["hi"]);
    let output = run(&sandbox, &["run", "ask.yaml"]).refused(10, &["127.0.0.1 cannot be reached"]);
    assert!(
        !output.stderr.contains("key-for-tests"),
        "{}",
        output.stderr
    );
    let logs = sandbox.segno(&["logs", "--json"]).expect_success().stdout;
    assert!(!logs.contains("key-for-tests"), "{logs}");
}

#[test]
fn redirects_are_not_followed() {
    let (sandbox, elsewhere) = (sandbox(), failing(0, ModelResponse::Empty));
    let header: &'static str =
        Box::leak(format!("location: {}/v1/messages\r\n", elsewhere.host()).into_boxed_str());
    let server = failing(9, ModelResponse::Status(307, header, String::new()));
    chain(&sandbox, "anthropic", &server.host(), "", &["hi"]);
    run(&sandbox, &["run", "ask.yaml"]).refused(10, &["307 Temporary Redirect"]);
    assert_eq!(elsewhere.requests().len(), 0);
}
