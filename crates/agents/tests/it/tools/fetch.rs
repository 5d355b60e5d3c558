//! `web_fetch`: pages.

use std::sync::Arc;

use serde_json::json;

use super::{Hand, assert_problem, gear, json, run, run_with};
use crate::server::{Server, response};

const PAGE: &str = "<title>Hi</title><script>no()</script><p>See <a href='/more'>more</a>.</p>";

#[test]
fn a_page_comes_as_it_is() {
    let server = Server::saying("text/html", PAGE);
    let told = json(run(
        &[server.host()],
        "web_fetch",
        json!({"url": server.url("/a")}),
    ));
    assert_eq!(told["status"], 200);
    assert_eq!(told["url"], server.url("/a"));
    assert_eq!(told["headers"]["content-type"], "text/html");
    assert_eq!(told["body"], PAGE);
    assert!(server.heard().concat().starts_with("GET /a HTTP/1.1\r\n"));
}

#[test]
fn a_page_comes_as_text_that_reads_well() {
    let server = Server::saying("text/html; charset=utf-8", PAGE);
    let input = json!({"url": server.url("/"), "mode": "markdown"});
    let told = json(run(&[server.host()], "web_fetch", input));
    let expected = format!("# Hi\n\nSee [more]({}).", server.url("/more"));
    let expected = json!({"status": 200, "url": server.url("/"), "markdown": expected});
    assert_eq!(told, expected);
    let input = json!({"url": server.url("/"), "mode": "markdown", "include_raw_html": true});
    let told = json(run(&[server.host()], "web_fetch", input));
    assert_eq!(told["raw_html"], PAGE);
}

#[test]
fn what_is_no_page_stays_as_it_is() {
    let server = Server::saying("application/json", "{\"a\": \"<b>\"}");
    let input = json!({"url": server.url("/"), "mode": "markdown"});
    let told = json(run(&[server.host()], "web_fetch", input));
    assert_eq!(told["markdown"], "{\"a\": \"<b>\"}");
}

#[test]
fn links_are_told_from_where_the_page_was_in_the_end() {
    let server = Server::new(|request| {
        if request.starts_with("GET /old") {
            response("301 Moved", "Location: /deep/new\r\n", "")
        } else {
            response("200 OK", "Content-Type: text/html\r\n", "<a href=x>y</a>")
        }
    });
    let input = json!({"url": server.url("/old"), "mode": "markdown"});
    let told = json(run(&[server.host()], "web_fetch", input));
    assert_eq!(told["url"], server.url("/deep/new"));
    assert_eq!(told["markdown"], format!("[y]({})", server.url("/deep/x")));
}

#[test]
fn what_is_missing_is_told() {
    let server = Server::saying("text/html", "<p>x".repeat(1 << 20));
    let told = json(run(
        &[server.host()],
        "web_fetch",
        json!({"url": server.url("/")}),
    ));
    assert_eq!(told["body"].as_str().unwrap().len(), 2 << 20);
    assert_eq!(told["note"], "only the first 2 MiB are here");
    let server = Server::saying("application/pdf", b"%PDF\0");
    let told = json(run(
        &[server.host()],
        "web_fetch",
        json!({"url": server.url("/")}),
    ));
    assert_eq!(told["body"], "");
    let note = "the body is not text and is left out: application/pdf, 5 bytes";
    assert_eq!(told["note"], note);
}

#[test]
fn bad_input_and_private_addresses_are_refused() {
    let server = Server::saying("text/html", PAGE);
    for (input, problem) in [
        (json!({}), "`url` is missing"),
        (
            json!({"url": server.url("/"), "mode": "pdf"}),
            "`mode` must be one of html, markdown",
        ),
        (
            json!({"url": server.url("/")}),
            "127.0.0.1 may not be called",
        ),
        (
            json!({"url": "http://[::ffff:10.0.0.1]/"}),
            "an IPv4 address in disguise",
        ),
        (
            json!({"url": "http://localhost:1/"}),
            "localhost may not be called: it leads to ",
        ),
    ] {
        assert_problem(&run(&[], "web_fetch", input), problem);
    }
    assert_eq!(server.heard(), [""; 0]);
}

#[test]
fn a_page_that_does_not_come_is_given_up() {
    let clock = Arc::<Hand>::default();
    let there = Arc::clone(&clock);
    let silent = Server::new(move |_| {
        there.turn();
        Vec::new()
    });
    let input = json!({"url": silent.url("/")});
    let given_up = run_with(gear(&[silent.host()], &clock), "web_fetch", input);
    assert_problem(&given_up, "took longer than 10 seconds");
    assert_eq!(clock.asked(), [10]);
}
