//! Redirects: every hop is checked, and nothing that was meant for one host is sent to another.

use serde_json::json;

use super::{assert_problem, run};
use crate::server::{Server, response};

#[test]
fn a_redirect_to_a_private_address_is_refused() {
    let inside = Server::responding("text/plain", "secret");
    for place in [
        inside.url("/"),
        format!("http://{}/", inside.name()),
        format!("//{}/", inside.host()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://2130706433/".to_owned(),
        "http://[::1]/".to_owned(),
        "https://10.0.0.1/".to_owned(),
    ] {
        let server = Server::redirecting("302 Found", &place);
        for tool in ["http_request", "web_fetch"] {
            let refused = run(&[server.host()], tool, json!({"url": server.url("/")}));
            assert_problem(&refused, "is denied");
        }
        assert_eq!(server.requests().len(), 2);
    }
    assert_eq!(inside.requests(), [""; 0]);
}

#[test]
fn redirect_to_another_scheme_is_refused() {
    for place in ["file:///etc/passwd", "ftp://example.com/", "javascript:x"] {
        let server = Server::redirecting("301 Moved", place);
        let refused = run(
            &[server.host()],
            "http_request",
            json!({"url": server.url("/")}),
        );
        assert_problem(&refused, "only http and https URLs are supported");
    }
}

#[test]
fn redirect_to_another_host_drops_headers() {
    let other = Server::responding("text/plain", "the other");
    let first = Server::redirecting("302 Found", &format!("http://{}/there", other.name()));
    let output = run(
        &[first.host(), other.name()],
        "http_request",
        json!({
            "url": first.url("/"),
            "headers": {"Authorization": "Bearer word", "Cookie": "word", "X-Api-Key": "word"},
        }),
    );
    assert!(output.unwrap().ends_with("the other"));
    assert_eq!(first.requests().concat().matches("word").count(), 3);
    let requests = other.requests().concat();
    assert!(
        requests.starts_with("GET /there HTTP/1.1\r\n"),
        "{requests}"
    );
    assert!(!requests.contains("word"), "{requests}");
}

#[test]
fn redirect_to_another_port_drops_headers() {
    let other = Server::responding("text/plain", "the other");
    let first = Server::redirecting("302 Found", &other.url("/"));
    let input = json!({"url": first.url("/"), "headers": {"Authorization": "word"}});
    run(&["127.0.0.1".to_owned()], "http_request", input).unwrap();
    assert!(!other.requests().concat().contains("word"));
}

#[test]
fn redirect_to_the_same_host_keeps_headers() {
    let server = Server::new(|request| {
        if request.starts_with("GET /old") {
            response("301 Moved", "Location: new\r\n", "")
        } else {
            response("200 OK", "", "arrived")
        }
    });
    let input = json!({"url": server.url("/old"), "headers": {"Authorization": "word"}});
    let output = run(&[server.host()], "http_request", input).unwrap();
    assert!(output.ends_with("arrived"), "{output}");
    let requests = server.requests();
    assert!(requests[1].starts_with("GET /new "), "{requests:?}");
    assert!(requests[1].contains("authorization: word"), "{requests:?}");
}

#[test]
fn redirects_are_limited_to_five() {
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
    assert_problem(&get("/6"), "127.0.0.1 redirects more than 5 times");
    let before = server.requests().len();
    assert_problem(&get("/9"), "more than 5 times");
    assert_eq!(server.requests().len() - before, 6);
}

#[test]
fn post_is_resent_only_to_the_same_host() {
    let other = Server::responding("text/plain", "arrived");
    for (status, method, follows) in [
        ("301 Moved", "POST", true),
        ("302 Found", "POST", true),
        ("303 See Other", "PUT", true),
        ("302 Found", "PUT", false),
        ("307 Temporary", "POST", false),
        ("308 Permanent", "DELETE", false),
    ] {
        let first = Server::redirecting(status, &format!("http://{}/", other.name()));
        let before = other.requests().len();
        let input = json!({"url": first.url("/"), "method": method, "body": "word"});
        let output = run(&[first.host(), other.name()], "http_request", input);
        if follows {
            assert!(output.unwrap().ends_with("arrived"), "{status} {method}");
            let requests = other.requests()[before..].concat();
            assert!(requests.starts_with("GET / "), "{requests}");
            assert!(!requests.contains("word"), "{requests}");
        } else {
            assert_problem(
                &output,
                "only GET and HEAD requests are redirected to another host",
            );
            assert_eq!(other.requests().len(), before, "{status} {method}");
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
    let requests = same.requests();
    assert!(requests[1].starts_with("POST /new "), "{requests:?}");
    assert!(requests[1].ends_with("word"), "{requests:?}");
}
