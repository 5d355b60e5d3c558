//! `duckduckgo_search` and `tavily_search`, against a server that plays them.

use std::sync::Arc;

use segno_agents::{Gear, Search};
use serde_json::{Value, json};

use super::{Hand, assert_problem, gear, json, run, run_with};
use crate::server::{Server, response};

fn searching(server: &Server, key: Option<&str>) -> Gear {
    Gear {
        search: Search {
            duckduckgo: server.url("/html/"),
            tavily: server.url("/search"),
            tavily_key: key.map(str::to_owned),
        },
        ..gear(&[server.host()], &Arc::<Hand>::default())
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
fn duckduckgo_finds_what_its_page_shows() {
    let server = Server::saying("text/html", page(30));
    let ask = |input: Value| {
        json(run_with(
            searching(&server, None),
            "duckduckgo_search",
            input,
        ))
    };
    let told = ask(json!({
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
    assert_eq!(told, expected);
    let line = "GET /html/?q=rust+%26+others&kl=de-de&kp=-2&df=w HTTP/1.1\r\n";
    assert!(server.heard()[0].starts_with(line), "{:?}", server.heard());
    assert_eq!(ask(json!({"query": "x"}))["result_count"], 10);
    assert!(server.heard()[1].contains("q=x&kl=us-en&kp=-1&df= "));
    assert_eq!(
        ask(json!({"query": "x", "max_results": 50}))["result_count"],
        30
    );
}

#[test]
fn nothing_found_is_not_a_page_that_cannot_be_read() {
    for (status, body, expected) in [
        ("200 OK", "<div class='no-results'>No results.</div>", Ok(0)),
        (
            "200 OK",
            "<p>Something new</p>",
            Err("has no results to read"),
        ),
        ("202 Accepted", "", Err("wants to be asked by a person")),
        (
            "200 OK",
            "<div class='anomaly-modal__title'>",
            Err("wants to be asked by a person"),
        ),
        ("500 Oops", "", Err("status 500")),
    ] {
        let server = Server::new(move |_| response(status, "Content-Type: text/html\r\n", body));
        let told = run_with(
            searching(&server, None),
            "duckduckgo_search",
            json!({"query": "x"}),
        );
        match expected {
            Ok(count) => assert_eq!(json(told)["result_count"], count),
            Err(problem) => assert_problem(&told, problem),
        }
    }
}

#[test]
fn a_search_that_makes_no_sense_is_not_sent() {
    let server = Server::saying("text/html", page(1));
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
            "news is not there",
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
    assert_eq!(server.heard(), [""; 0]);
}

#[test]
fn tavily_is_asked_with_the_key_and_told_as_it_answers() {
    let server = Server::saying("application/json", r#"{"results": [{"url": "https://a"}]}"#);
    let input = json!({"query": "rust", "max_results": 3, "include_answer": true});
    let told = json(run_with(
        searching(&server, Some("tvly-word")),
        "tavily_search",
        input,
    ));
    assert_eq!(told, json!({"results": [{"url": "https://a"}]}));
    let heard = server.heard().concat();
    assert!(heard.starts_with("POST /search HTTP/1.1\r\n"), "{heard}");
    assert!(
        heard.contains("\r\nauthorization: bearer tvly-word\r\n"),
        "{heard}"
    );
    let (_, body) = heard.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let expected = json!({"query": "rust", "max_results": 3, "include_answer": true});
    assert_eq!(body, expected);
}

#[test]
fn the_key_for_tavily_is_in_no_answer_and_goes_nowhere_else() {
    assert_problem(
        &run(&[], "tavily_search", json!({"query": "x"})),
        "TAVILY_API_KEY",
    );
    let other = Server::saying("application/json", "{}");
    let away = format!("Location: {}\r\n", other.url("/"));
    for status in ["401 No", "429 Slow", "307 Away", "200 OK"] {
        let away = away.clone();
        let server = Server::new(move |_| response(status, &away, "not json"));
        let gear = Gear {
            search: searching(&server, Some("tvly-word")).search,
            ..gear(&["127.0.0.1".to_owned()], &Arc::default())
        };
        let problem = run_with(gear, "tavily_search", json!({"query": "x"})).unwrap_err();
        assert!(problem.starts_with("tavily "), "{problem}");
        assert!(!problem.contains("word"), "{problem}");
    }
    assert_eq!(other.heard(), [""; 0]);
    let server = Server::saying("application/json", "{}");
    let gear = searching(&server, Some("word\r\nHost: other"));
    let problem = run_with(gear, "tavily_search", json!({"query": "x"})).unwrap_err();
    assert!(!problem.contains("word"), "{problem}");
}
