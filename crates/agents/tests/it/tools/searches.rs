//! `duckduckgo_search` and `tavily_search`, against a fake server.

use std::sync::Arc;

use segno_agents::{Search, ToolDeps};
use serde_json::{Value, json};

use super::{ManualClock, assert_problem, gear, json, run, run_with};
use crate::server::{Server, response};

fn searching(server: &Server, key: Option<&str>) -> ToolDeps {
    ToolDeps {
        search: Search {
            duckduckgo: server.url("/html/"),
            tavily: server.url("/search"),
            tavily_key: key.map(str::to_owned),
        },
        ..gear(&[server.host()], &Arc::<ManualClock>::default())
    }
}

fn page(count: usize) -> String {
    let result = |n: usize| {
        format!(
            "<div class='result web-result'><a class='result__a' \
             href='//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2F{n}&amp;rut=x'>Title {n}</a>\
             <a class='result__snippet' href='x'>About <b>{n}</b></a></div>"
        )
    };
    (1..=count).map(result).collect()
}

#[test]
fn duckduckgo_results_are_parsed() {
    let server = Server::responding("text/html", page(30));
    let ask = |input: Value| {
        json(run_with(
            searching(&server, None),
            "duckduckgo_search",
            input,
        ))
    };
    let output = ask(json!({
        "query": " rust & others ", "max_results": 2, "region": "de-de",
        "safesearch": "off", "timelimit": "w",
    }));
    let expected = json!({
        "query": "rust & others",
        "search_type": "text",
        "result_count": 2,
        "results": [
            {"title": "Title 1", "href": "https://example.com/1", "body": "About 1"},
            {"title": "Title 2", "href": "https://example.com/2", "body": "About 2"},
        ],
    });
    assert_eq!(output, expected);
    let line = "GET /html/?q=rust+%26+others&kl=de-de&kp=-2&df=w HTTP/1.1\r\n";
    assert!(
        server.requests()[0].starts_with(line),
        "{:?}",
        server.requests()
    );
    assert_eq!(ask(json!({"query": "x"}))["result_count"], 10);
    assert!(server.requests()[1].contains("q=x&kl=us-en&kp=-1&df= "));
    assert_eq!(
        ask(json!({"query": "x", "max_results": 50}))["result_count"],
        30
    );
}

#[test]
fn no_results_differ_from_an_unreadable_page() {
    for (status, body, expected) in [
        ("200 OK", "<div class='no-results'>No results.</div>", Ok(0)),
        (
            "200 OK",
            "<p>Something new</p>",
            Err("a page without results"),
        ),
        ("202 Accepted", "", Err("asks for a CAPTCHA")),
        (
            "200 OK",
            "<div class='anomaly-modal__title'>",
            Err("asks for a CAPTCHA"),
        ),
        ("500 Oops", "", Err("status 500")),
    ] {
        let server = Server::new(move |_| response(status, "Content-Type: text/html\r\n", body));
        let output = run_with(
            searching(&server, None),
            "duckduckgo_search",
            json!({"query": "x"}),
        );
        match expected {
            Ok(count) => assert_eq!(json(output)["result_count"], count),
            Err(problem) => assert_problem(&output, problem),
        }
    }
}

#[test]
fn invalid_search_is_not_sent() {
    let server = Server::responding("text/html", page(1));
    for (tool, input, problem) in [
        ("duckduckgo_search", json!({}), "`query` is missing"),
        (
            "duckduckgo_search",
            json!({"query": " "}),
            "`query` must not be empty",
        ),
        (
            "duckduckgo_search",
            json!({"query": "x", "max_results": 0}),
            "from 1 to 50",
        ),
        (
            "duckduckgo_search",
            json!({"query": "x", "max_results": 51}),
            "from 1 to 50",
        ),
        (
            "duckduckgo_search",
            json!({"query": "x", "safesearch": "no"}),
            "`safesearch` must be",
        ),
        (
            "duckduckgo_search",
            json!({"query": "x", "timelimit": "h"}),
            "`timelimit` must be",
        ),
        (
            "duckduckgo_search",
            json!({"query": "x", "search_type": "news"}),
            "news is not supported",
        ),
        (
            "tavily_search",
            json!({"query": ""}),
            "`query` must not be empty",
        ),
        (
            "tavily_search",
            json!({"query": "x", "max_results": 21}),
            "from 1 to 20",
        ),
    ] {
        assert_problem(
            &run_with(searching(&server, Some("key")), tool, input),
            problem,
        );
    }
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn tavily_gets_the_key_and_returns_its_response() {
    let server = Server::responding("application/json", r#"{"results": [{"url": "https://a"}]}"#);
    let input = json!({"query": "rust", "max_results": 3, "include_answer": true});
    let output = json(run_with(
        searching(&server, Some("tvly-word")),
        "tavily_search",
        input,
    ));
    assert_eq!(output, json!({"results": [{"url": "https://a"}]}));
    let requests = server.requests().concat();
    assert!(
        requests.starts_with("POST /search HTTP/1.1\r\n"),
        "{requests}"
    );
    assert!(
        requests.contains("\r\nauthorization: bearer tvly-word\r\n"),
        "{requests}"
    );
    let (_, body) = requests.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let expected = json!({"query": "rust", "max_results": 3, "include_answer": true});
    assert_eq!(body, expected);
}

#[test]
fn tavily_key_is_never_shown_or_sent_elsewhere() {
    assert_problem(
        &run(&[], "tavily_search", json!({"query": "x"})),
        "TAVILY_API_KEY",
    );
    let other = Server::responding("application/json", "{}");
    let away = format!("Location: {}\r\n", other.url("/"));
    for status in ["401 No", "429 Slow", "307 Away", "200 OK"] {
        let away = away.clone();
        let server = Server::new(move |_| response(status, &away, "not json"));
        let gear = ToolDeps {
            search: searching(&server, Some("tvly-word")).search,
            ..gear(&["127.0.0.1".to_owned()], &Arc::default())
        };
        let problem = run_with(gear, "tavily_search", json!({"query": "x"})).unwrap_err();
        assert!(problem.starts_with("Tavily"), "{problem}");
        assert!(!problem.contains("word"), "{problem}");
    }
    assert_eq!(other.requests(), [""; 0]);
    let server = Server::responding("application/json", "{}");
    let gear = searching(&server, Some("word\r\nHost: other"));
    let problem = run_with(gear, "tavily_search", json!({"query": "x"})).unwrap_err();
    assert!(!problem.contains("word"), "{problem}");
}
