//! The HTTP services of a spec.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_agents::{Executor, Executors};
use segno_core::tool::{EffectClass, Tools};
use serde_json::{Value, json};

use super::{ManualClock, ask, assert_problem, json, web};
use crate::server::{Server, response};

fn service(base_url: String) -> Executor {
    Executor {
        id: "weather".to_owned(),
        base_url,
        headers: vec![
            ("Authorization".to_owned(), "Bearer word".to_owned()),
            ("X-Unit".to_owned(), "metric".to_owned()),
        ],
        timeout: Duration::from_secs(5),
        description: "Tells the weather.".to_owned(),
    }
}

fn call(server: &Server, input: Value) -> Result<String, String> {
    let web = web(&[server.host()], &Arc::default());
    let tools = Executors::new(vec![service(server.url("/v1"))], web);
    ask(&tools, "weather", input, Path::new("/"))
}

#[test]
fn a_service_is_a_tool_with_its_name() {
    let web = web(&[], &Arc::default());
    let tools = Executors::new(vec![service("https://example.com".to_owned())], web);
    let [offer] = tools.offered_tools() else {
        panic!("{:?}", tools.offered_tools());
    };
    assert_eq!(offer.tool.name, "weather");
    assert_eq!(offer.tool.description, "Tells the weather.");
    assert_eq!(offer.class, EffectClass::Effectful);
    assert_eq!(offer.tool.schema["required"], json!(["path"]));
    let properties = offer.tool.schema["properties"].as_object().unwrap();
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["headers_override", "json_data", "method", "path"]);
    assert!(!offer.tool.schema.to_string().contains("word"));
    let other = ask(&tools, "other", json!({"path": ""}), Path::new("/"));
    assert_eq!(other.unwrap_err(), "there is no tool `other`");
}

#[test]
fn service_call_sends_headers_and_returns_the_response() {
    for status in ["200 OK", "404 Not Found", "500 Oops", "302 Found"] {
        let server = Server::new(move |_| response(status, "Location: /else\r\n", "{\"a\": 1}"));
        let output = json(call(&server, json!({"path": "/today?city=Ulm"})));
        assert_eq!(output["status"].to_string(), status[..3]);
        assert_eq!(output["headers"]["location"], "/else");
        assert_eq!(output["body"], "{\"a\": 1}");
        assert_eq!(output.as_object().unwrap().len(), 3);
        let [requests] = &server.requests()[..] else {
            panic!("{:?}", server.requests());
        };
        assert!(
            requests.starts_with("GET /v1/today?city=Ulm HTTP/1.1\r\n"),
            "{requests}"
        );
        assert!(
            requests.contains("\r\nauthorization: bearer word\r\n"),
            "{requests}"
        );
        assert!(requests.contains("\r\nx-unit: metric\r\n"), "{requests}");
    }
}

#[test]
fn json_data_and_header_overrides_are_sent() {
    let server = Server::responding("application/json", "{}");
    let input = json!({
        "path": "reports",
        "method": "PATCH",
        "json_data": {"sunny": true},
        "headers_override": {"x-unit": "imperial", "X-More": "1"},
    });
    call(&server, input).unwrap();
    let requests = server.requests().concat();
    for words in [
        "PATCH /v1/reports HTTP/1.1\r\n",
        "\r\ncontent-type: application/json\r\n",
        "\r\nauthorization: bearer word\r\n",
        "\r\nx-unit: imperial\r\n",
        "\r\nx-more: 1\r\n",
        "\r\n\r\n{\"sunny\":true}",
    ] {
        assert!(requests.contains(words), "{words}: {requests}");
    }
    assert!(!requests.contains("metric"), "{requests}");
}

#[test]
fn bad_input_is_not_sent_and_shows_no_secret() {
    let server = Server::responding("application/json", "{}");
    let other = Server::responding("application/json", "{}");
    for (input, problem) in [
        (json!({}), "`path` is missing"),
        (json!([]), "must be an object"),
        (json!({"path": 1}), "`path` must be of type string"),
        (
            json!({"path": "", "method": "TRACE"}),
            "`method` must be one of",
        ),
        (
            json!({"path": "", "json_data": "x"}),
            "`json_data` must be of type object",
        ),
        (
            json!({"path": "", "headers_override": {"Host": "x"}}),
            "`Host` cannot be set",
        ),
        (
            json!({"path": "", "body": "x"}),
            "`body` is not a parameter",
        ),
        (json!({"path": other.url("/")}), "leads out of the base URL"),
        (
            json!({"path": format!("//{}/", other.host())}),
            "leads out of the base URL",
        ),
        (json!({"path": "../v2"}), "leads out of the base URL"),
        (json!({"path": "%2e%2e/v2"}), "leads out of the base URL"),
    ] {
        let refused = call(&server, input);
        assert_problem(&refused, problem);
        assert!(!refused.unwrap_err().contains("word"));
    }
    assert_eq!(server.requests(), [""; 0]);
    assert_eq!(other.requests(), [""; 0]);
}

#[test]
fn unsendable_secret_is_not_shown() {
    let web = web(&["127.0.0.1".to_owned()], &Arc::default());
    let mut service = service("http://127.0.0.1:1".to_owned());
    service.headers = vec![("X-Key".to_owned(), "word\n".to_owned())];
    let tools = Executors::new(vec![service], web);
    let problem = ask(&tools, "weather", json!({"path": ""}), Path::new("/"));
    let expected = "the value of header `X-Key` is invalid";
    assert_eq!(problem.unwrap_err(), expected);
}

#[test]
fn private_service_is_called_only_if_allowed() {
    let server = Server::responding("application/json", "{}");
    let web = web(&[], &Arc::default());
    let tools = Executors::new(vec![service(server.url(""))], web);
    let refused = ask(&tools, "weather", json!({"path": "x"}), Path::new("/"));
    assert_problem(
        &refused,
        "access to 127.0.0.1 is denied: it is this machine",
    );
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn silent_service_times_out() {
    let clock = Arc::<ManualClock>::default();
    let there = Arc::clone(&clock);
    let silent = Server::new(move |_| {
        there.advance();
        Vec::new()
    });
    let tools = Executors::new(vec![service(silent.url(""))], web(&[silent.host()], &clock));
    let given_up = ask(&tools, "weather", json!({"path": "x"}), Path::new("/"));
    assert_problem(&given_up, "127.0.0.1 took longer than 5 seconds");
    assert_eq!(clock.asked(), [5]);
}

#[test]
fn truncated_service_response_is_noted() {
    let server = Server::responding("text/plain", "x".repeat(3 << 20));
    let output = json(call(&server, json!({"path": ""})));
    assert_eq!(output["body"].as_str().unwrap().len(), 2 << 20);
    assert_eq!(output["note"], "only the first 2 MiB are included");
}
