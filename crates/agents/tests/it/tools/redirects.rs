//! Being sent elsewhere: every hop is looked at, and nothing that was meant for one host goes on to
//! another.

use serde_json::json;

use super::{assert_problem, run};
use crate::server::{Server, response};

#[test]
fn a_redirect_to_a_private_address_is_refused() {
    let inside = Server::saying("text/plain", "secret");
    for place in [
        inside.url("/"),
        format!("http://{}/", inside.name()),
        format!("//{}/", inside.host()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://2130706433/".to_owned(),
        "http://[::1]/".to_owned(),
        "https://10.0.0.1/".to_owned(),
    ] {
        let server = Server::sending("302 Found", &place);
        for tool in ["http_request", "web_fetch"] {
            let refused = run(&[server.host()], tool, json!({"url": server.url("/")}));
            assert_problem(&refused, "may not be called");
        }
        assert_eq!(server.heard().len(), 2);
    }
    assert_eq!(inside.heard(), [""; 0]);
}

#[test]
fn a_redirect_to_something_else_than_the_web_is_refused() {
    for place in ["file:///etc/passwd", "ftp://example.com/", "javascript:x"] {
        let server = Server::sending("301 Moved", place);
        let refused = run(
            &[server.host()],
            "http_request",
            json!({"url": server.url("/")}),
        );
        assert_problem(&refused, "only http and https addresses can be called");
    }
}

#[test]
fn another_host_does_not_hear_what_was_meant_for_the_first() {
    let other = Server::saying("text/plain", "the other");
    let first = Server::sending("302 Found", &format!("http://{}/there", other.name()));
    let told = run(
        &[first.host(), other.name()],
        "http_request",
        json!({
            "url": first.url("/"),
            "headers": {"Authorization": "Bearer word", "Cookie": "word", "X-Api-Key": "word"},
        }),
    );
    assert!(told.unwrap().ends_with("the other"));
    assert_eq!(first.heard().concat().matches("word").count(), 3);
    let heard = other.heard().concat();
    assert!(heard.starts_with("GET /there HTTP/1.1\r\n"), "{heard}");
    assert!(!heard.contains("word"), "{heard}");
}

#[test]
fn another_port_is_another_host() {
    let other = Server::saying("text/plain", "the other");
    let first = Server::sending("302 Found", &other.url("/"));
    let input = json!({"url": first.url("/"), "headers": {"Authorization": "word"}});
    run(&["127.0.0.1".to_owned()], "http_request", input).unwrap();
    assert!(!other.heard().concat().contains("word"));
}

#[test]
fn the_same_host_hears_the_same_again() {
    let server = Server::new(|request| {
        if request.starts_with("GET /old") {
            response("301 Moved", "Location: new\r\n", "")
        } else {
            response("200 OK", "", "arrived")
        }
    });
    let input = json!({"url": server.url("/old"), "headers": {"Authorization": "word"}});
    let told = run(&[server.host()], "http_request", input).unwrap();
    assert!(told.ends_with("arrived"), "{told}");
    let heard = server.heard();
    assert!(heard[1].starts_with("GET /new "), "{heard:?}");
    assert!(heard[1].contains("authorization: word"), "{heard:?}");
}

#[test]
fn five_hops_are_enough() {
    let server = Server::new(|request| {
        let hop = request.as_bytes()["GET /".len()] - b'0';
        match hop {
            0 => response("200 OK", "", "arrived"),
            9 => response("302 Found", "Location: /9\r\n", ""),
            hop => response("302 Found", &format!("Location: /{}\r\n", hop - 1), ""),
        }
    });
    let get = |path| {
        run(
            &[server.host()],
            "web_fetch",
            json!({"url": server.url(path)}),
        )
    };
    assert!(get("/5").unwrap().contains("arrived"));
    assert_problem(&get("/6"), "127.0.0.1 sends us on more than 5 times");
    let before = server.heard().len();
    assert_problem(&get("/9"), "more than 5 times");
    assert_eq!(server.heard().len() - before, 6);
}

#[test]
fn what_is_posted_is_posted_once_unless_the_server_insists() {
    let other = Server::saying("text/plain", "arrived");
    for (status, method, goes_on) in [
        ("301 Moved", "POST", true),
        ("302 Found", "POST", true),
        ("303 See Other", "PUT", true),
        ("302 Found", "PUT", false),
        ("307 Temporary", "POST", false),
        ("308 Permanent", "DELETE", false),
    ] {
        let first = Server::sending(status, &format!("http://{}/", other.name()));
        let before = other.heard().len();
        let input = json!({"url": first.url("/"), "method": method, "body": "word"});
        let told = run(&[first.host(), other.name()], "http_request", input);
        if goes_on {
            assert!(told.unwrap().ends_with("arrived"), "{status} {method}");
            let heard = other.heard()[before..].concat();
            assert!(heard.starts_with("GET / "), "{heard}");
            assert!(!heard.contains("word"), "{heard}");
        } else {
            assert_problem(&told, "only GET and HEAD requests go on to another host");
            assert_eq!(other.heard().len(), before, "{status} {method}");
        }
    }
    let same = Server::new(|request| {
        if request.starts_with("POST /old") {
            response("307 Temporary", "Location: /new\r\n", "")
        } else {
            response("200 OK", "", "arrived")
        }
    });
    let input = json!({"url": same.url("/old"), "method": "POST", "body": "word"});
    run(&[same.host()], "http_request", input).unwrap();
    let heard = same.heard();
    assert!(heard[1].starts_with("POST /new "), "{heard:?}");
    assert!(heard[1].ends_with("word"), "{heard:?}");
}
