//! `web_fetch`: pages.

use std::sync::Arc;

use serde_json::json;

use super::{ManualClock, assert_problem, gear, json, run, run_with};
use crate::server::{Server, response};

const PAGE: &str = "<title>Hi</title><script>no()</script><p>See <a href='/more'>more</a>.</p>";

#[test]
fn page_is_returned_raw() {
    let server = Server::responding("text/html", PAGE);
    let output = json(run(
        &[server.host()],
        "web_fetch",
        json!({"url": server.url("/a")}),
    ));
    assert_eq!(output["status"], 200);
    assert_eq!(output["url"], server.url("/a"));
    assert_eq!(output["headers"]["content-type"], "text/html");
    assert_eq!(output["body"], PAGE);
    assert!(
        server
            .requests()
            .concat()
            .starts_with("GET /a HTTP/1.1\r\n")
    );
}

#[test]
fn page_is_returned_as_markdown() {
    let server = Server::responding("text/html; charset=utf-8", PAGE);
    let input = json!({"url": server.url("/"), "mode": "markdown"});
    let output = json(run(&[server.host()], "web_fetch", input));
    let expected = format!("# Hi\n\nSee [more]({}).", server.url("/more"));
    let expected = json!({"status": 200, "url": server.url("/"), "markdown": expected});
    assert_eq!(output, expected);
    let input = json!({"url": server.url("/"), "mode": "markdown", "include_raw_html": true});
    let output = json(run(&[server.host()], "web_fetch", input));
    assert_eq!(output["raw_html"], PAGE);
}

#[test]
fn non_html_stays_unchanged() {
    let server = Server::responding("application/json", "{\"a\": \"<b>\"}");
    let input = json!({"url": server.url("/"), "mode": "markdown"});
    let output = json(run(&[server.host()], "web_fetch", input));
    assert_eq!(output["markdown"], "{\"a\": \"<b>\"}");
}

#[test]
fn links_resolve_against_the_final_url() {
    let server = Server::new(|request| {
        if request.starts_with("GET /old") {
            response("301 Moved", "Location: /deep/new\r\n", "")
        } else {
            response("200 OK", "Content-Type: text/html\r\n", "<a href=x>y</a>")
        }
    });
    let input = json!({"url": server.url("/old"), "mode": "markdown"});
    let output = json(run(&[server.host()], "web_fetch", input));
    assert_eq!(output["url"], server.url("/deep/new"));
    assert_eq!(
        output["markdown"],
        format!("[y]({})", server.url("/deep/x"))
    );
}

#[test]
fn truncated_page_is_noted() {
    let server = Server::responding("text/html", "<p>x".repeat(1 << 20));
    let output = json(run(
        &[server.host()],
        "web_fetch",
        json!({"url": server.url("/")}),
    ));
    assert_eq!(output["body"].as_str().unwrap().len(), 2 << 20);
    assert_eq!(output["note"], "only the first 2 MiB are included");
    let server = Server::responding("application/pdf", b"%PDF\0");
    let output = json(run(
        &[server.host()],
        "web_fetch",
        json!({"url": server.url("/")}),
    ));
    assert_eq!(output["body"], "");
    let note = "the body is not text and is omitted: application/pdf, 5 bytes";
    assert_eq!(output["note"], note);
}

#[test]
fn bad_input_and_private_addresses_are_refused() {
    let server = Server::responding("text/html", PAGE);
    for (input, problem) in [
        (json!({}), "`url` is missing"),
        (
            json!({"url": server.url("/"), "mode": "pdf"}),
            "`mode` must be one of html, markdown",
        ),
        (
            json!({"url": server.url("/")}),
            "access to 127.0.0.1 is denied",
        ),
        (
            json!({"url": "http://[::ffff:10.0.0.1]/"}),
            "a mapped IPv4 address",
        ),
        (
            json!({"url": "http://localhost:1/"}),
            "access to localhost is denied: it resolves to ",
        ),
    ] {
        assert_problem(&run(&[], "web_fetch", input), problem);
    }
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn silent_page_times_out() {
    let clock = Arc::<ManualClock>::default();
    let there = Arc::clone(&clock);
    let silent = Server::new(move |_| {
        there.advance();
        Vec::new()
    });
    let input = json!({"url": silent.url("/")});
    let given_up = run_with(gear(&[silent.host()], &clock), "web_fetch", input);
    assert_problem(&given_up, "took longer than 10 seconds");
    assert_eq!(clock.asked(), [10]);
}
