//! The services that a spec names.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_agents::{Executor, Executors};
use segno_core::tool::{Class, Tools};
use serde_json::{Value, json};

use super::{Hand, ask, assert_problem, json, web};
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
    let [offer] = tools.offers() else {
        panic!("{:?}", tools.offers());
    };
    assert_eq!(offer.tool.name, "weather");
    assert_eq!(offer.tool.description, "Tells the weather.");
    assert_eq!(offer.class, Class::Effectful);
    assert_eq!(offer.tool.schema["required"], json!(["path"]));
    let properties = offer.tool.schema["properties"].as_object().unwrap();
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["headers_override", "json_data", "method", "path"]);
    assert!(!offer.tool.schema.to_string().contains("word"));
    let other = ask(&tools, "other", json!({"path": ""}), Path::new("/"));
    assert_eq!(other.unwrap_err(), "there is no tool `other`");
}

#[test]
fn a_service_is_called_with_its_headers_and_answers_as_it_is() {
    for status in ["200 OK", "404 Not Found", "500 Oops", "302 Found"] {
        let server = Server::new(move |_| response(status, "Location: /else\r\n", "{\"a\": 1}"));
        let told = json(call(&server, json!({"path": "/today?city=Ulm"})));
        assert_eq!(told["status"].to_string(), status[..3]);
        assert_eq!(told["headers"]["location"], "/else");
        assert_eq!(told["body"], "{\"a\": 1}");
        assert_eq!(told.as_object().unwrap().len(), 3);
        let [heard] = &server.heard()[..] else {
            panic!("{:?}", server.heard());
        };
        assert!(
            heard.starts_with("GET /v1/today?city=Ulm HTTP/1.1\r\n"),
            "{heard}"
        );
        assert!(
            heard.contains("\r\nauthorization: bearer word\r\n"),
            "{heard}"
        );
        assert!(heard.contains("\r\nx-unit: metric\r\n"), "{heard}");
    }
}

#[test]
fn data_and_other_headers_are_sent() {
    let server = Server::saying("application/json", "{}");
    let input = json!({
        "path": "reports",
        "method": "PATCH",
        "json_data": {"sunny": true},
        "headers_override": {"x-unit": "imperial", "X-More": "1"},
    });
    call(&server, input).unwrap();
    let heard = server.heard().concat();
    for words in [
        "PATCH /v1/reports HTTP/1.1\r\n",
        "\r\ncontent-type: application/json\r\n",
        "\r\nauthorization: bearer word\r\n",
        "\r\nx-unit: imperial\r\n",
        "\r\nx-more: 1\r\n",
        "\r\n\r\n{\"sunny\":true}",
    ] {
        assert!(heard.contains(words), "{words}: {heard}");
    }
    assert!(!heard.contains("metric"), "{heard}");
}

#[test]
fn bad_input_never_leaves_and_never_tells_a_secret() {
    let server = Server::saying("application/json", "{}");
    let other = Server::saying("application/json", "{}");
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
        (json!({"path": "", "body": "x"}), "`body` is not something"),
        (json!({"path": other.url("/")}), "does not stay under"),
        (
            json!({"path": format!("//{}/", other.host())}),
            "does not stay under",
        ),
        (json!({"path": "../v2"}), "does not stay under"),
        (json!({"path": "%2e%2e/v2"}), "does not stay under"),
    ] {
        let refused = call(&server, input);
        assert_problem(&refused, problem);
        assert!(!refused.unwrap_err().contains("word"));
    }
    assert_eq!(server.heard(), [""; 0]);
    assert_eq!(other.heard(), [""; 0]);
}

#[test]
fn a_secret_that_cannot_be_sent_is_not_told() {
    let web = web(&["127.0.0.1".to_owned()], &Arc::default());
    let mut service = service("http://127.0.0.1:1".to_owned());
    service.headers = vec![("X-Key".to_owned(), "word\n".to_owned())];
    let tools = Executors::new(vec![service], web);
    let problem = ask(&tools, "weather", json!({"path": ""}), Path::new("/"));
    let expected = "the value of header `X-Key` cannot be sent";
    assert_eq!(problem.unwrap_err(), expected);
}

#[test]
fn a_service_inside_is_called_only_if_it_was_allowed() {
    let server = Server::saying("application/json", "{}");
    let web = web(&[], &Arc::default());
    let tools = Executors::new(vec![service(server.url(""))], web);
    let refused = ask(&tools, "weather", json!({"path": "x"}), Path::new("/"));
    assert_problem(
        &refused,
        "127.0.0.1 may not be called: it is this machine itself",
    );
    assert_eq!(server.heard(), [""; 0]);
}

#[test]
fn a_service_that_stays_silent_is_given_up() {
    let clock = Arc::<Hand>::default();
    let there = Arc::clone(&clock);
    let silent = Server::new(move |_| {
        there.turn();
        Vec::new()
    });
    let tools = Executors::new(vec![service(silent.url(""))], web(&[silent.host()], &clock));
    let given_up = ask(&tools, "weather", json!({"path": "x"}), Path::new("/"));
    assert_problem(&given_up, "127.0.0.1 took longer than 5 seconds");
    assert_eq!(clock.asked(), [5]);
}

#[test]
fn what_is_missing_of_an_answer_is_told() {
    let server = Server::saying("text/plain", "x".repeat(3 << 20));
    let told = json(call(&server, json!({"path": ""})));
    assert_eq!(told["body"].as_str().unwrap().len(), 2 << 20);
    assert_eq!(told["note"], "only the first 2 MiB are here");
}
