//! `http_request`: any request, to allowed hosts.

use std::sync::Arc;

use serde_json::json;

use super::{ManualClock, assert_problem, gear, run, run_with};
use crate::server::{Server, response};

#[test]
fn request_and_response_are_passed_unchanged() {
    let server = Server::new(|_| response("201 Created", "X-Made: yes\r\n", "für dich"));
    let output = run(
        &[server.host()],
        "http_request",
        json!({
            "url": server.url("/things?a=b"),
            "method": "post",
            "headers": {"X-One": "1", "Authorization": "Bearer word"},
            "body": "{\"a\": 1}",
        }),
    )
    .unwrap();
    let requests = server.requests().concat();
    for words in [
        "POST /things?a=b HTTP/1.1\r\n",
        "\r\nx-one: 1\r\n",
        "\r\nauthorization: bearer word\r\n",
        "\r\nuser-agent: segno/",
        "\r\n\r\n{\"a\": 1}",
    ] {
        assert!(requests.contains(words), "{words}: {requests}");
    }
    assert!(output.starts_with("Status: 201\nHeaders: {"), "{output}");
    assert!(output.contains("\"x-made\":\"yes\""), "{output}");
    assert!(output.ends_with("}\nBody:\nfür dich"), "{output}");
    assert!(!output.contains("word"), "what was sent is told: {output}");
}

#[test]
fn error_status_is_returned() {
    let server = Server::new(|_| response("503 Busy", "", "later"));
    let output = run(
        &[server.host()],
        "http_request",
        json!({"url": server.url("/")}),
    );
    assert!(output.unwrap().starts_with("Status: 503\n"));
}

#[test]
fn private_host_is_refused_unless_allowed() {
    let server = Server::responding("text/plain", "secret");
    for (allowed, host) in [
        (vec![], server.host()),
        (vec![], server.name()),
        (vec![server.name()], server.host()),
        (vec![server.host()], server.name()),
        (vec!["127.0.0.1:1".to_owned()], server.host()),
        (vec!["localhost:1".to_owned()], server.name()),
    ] {
        let input = json!({"url": format!("http://{host}/")});
        let refused = run(&allowed, "http_request", input).unwrap_err();
        let name = host.split(':').next().unwrap();
        let start = format!("access to {name} is denied: it ");
        assert!(refused.starts_with(&start), "{refused}");
        assert!(refused.contains("this machine"), "{refused}");
        assert!(
            refused.ends_with("`network.allow_private` in config.toml"),
            "{refused}"
        );
    }
    assert_eq!(server.requests(), [""; 0]);
    for allowed in [server.host(), "127.0.0.1".to_owned()] {
        let output = run(&[allowed], "http_request", json!({"url": server.url("/")}));
        assert!(output.unwrap().ends_with("secret"));
    }
    let by_name = json!({"url": format!("http://{}/", server.name())});
    let output = run(&["localhost".to_owned()], "http_request", by_name);
    assert!(output.unwrap().ends_with("secret"));
}

#[test]
fn bad_input_is_refused_before_anything_is_sent() {
    let server = Server::responding("text/plain", "");
    let url = server.url("/");
    for (input, problem) in [
        (json!({}), "`url` is missing"),
        (json!({"url": 7}), "`url` must be of type string"),
        (json!({"url": "nonsense"}), "`nonsense` is not a URL"),
        (json!({"url": "file:///etc/passwd"}), "not file"),
        (
            json!({"url": url, "method": "CONNECT"}),
            "`method` must be one of",
        ),
        (
            json!({"url": url, "timeout": 0}),
            "`timeout` must be from 1 to 300",
        ),
        (
            json!({"url": url, "timeout": 301}),
            "`timeout` must be from 1 to 300",
        ),
        (
            json!({"url": url, "timeout": "5"}),
            "`timeout` must be of type integer",
        ),
        (
            json!({"url": url, "headers": "a: b"}),
            "`headers` must be of type object",
        ),
        (
            json!({"url": url, "headers": {"Host": "b"}}),
            "header `Host` cannot be set",
        ),
        (
            json!({"url": url, "headers": {"a": "b\r\nc: d"}}),
            "is invalid",
        ),
        (
            json!({"url": url, "proxy": "x"}),
            "`proxy` is not a parameter",
        ),
    ] {
        assert_problem(&run(&[server.host()], "http_request", input), problem);
    }
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn silent_server_times_out() {
    let clock = Arc::<ManualClock>::default();
    let there = Arc::clone(&clock);
    let silent = Server::new(move |_| {
        there.advance();
        Vec::new()
    });
    let input = json!({"url": silent.url("/?key=word"), "timeout": 7});
    let given_up = run_with(gear(&[silent.host()], &clock), "http_request", input);
    assert_eq!(
        given_up.unwrap_err(),
        "the request to 127.0.0.1 took longer than 7 seconds"
    );
    assert_eq!(clock.asked(), [7]);
}

#[test]
fn stalled_response_fails() {
    let clock = Arc::<ManualClock>::default();
    let there = Arc::clone(&clock);
    let server = Server::new(move |_| {
        there.advance();
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec()
    });
    let input = json!({"url": server.url("/")});
    // The connection closes or the timeout fires, whichever comes first.
    let given_up = run_with(gear(&[server.host()], &clock), "http_request", input).unwrap_err();
    let known = [
        "the response was cut off",
        "the request to 127.0.0.1 took longer than 30 seconds",
    ];
    assert!(known.contains(&&*given_up), "{given_up}");
}

#[test]
fn refused_connection_is_reported_without_the_url() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let host = format!("127.0.0.1:{port}");
    let input = json!({"url": format!("http://{host}/?key=word")});
    let problem = run(&[host], "http_request", input).unwrap_err();
    assert!(
        problem.starts_with("127.0.0.1 cannot be reached: "),
        "{problem}"
    );
    assert!(!problem.contains("word"), "{problem}");
}

#[test]
fn long_body_is_truncated_and_noted() {
    let limit = 2 * 1024 * 1024;
    for (length, is_cut) in [(limit, false), (limit + 1, true), (limit * 4, true)] {
        let server = Server::responding("text/plain", "x".repeat(length));
        let output = run(
            &[server.host()],
            "http_request",
            json!({"url": server.url("/")}),
        )
        .unwrap();
        let (_, body) = output.split_once("Body:\n").unwrap();
        let expected = "x".repeat(limit);
        if is_cut {
            let note = body.strip_prefix(&expected).unwrap();
            assert_eq!(note, "\n[only the first 2 MiB are included]");
        } else {
            assert!(body == expected);
        }
    }
}

#[test]
fn binary_body_is_described() {
    let server = Server::responding("image/png", b"\x89PNG\r\n\x1a\n\0\0\0");
    let output = run(
        &[server.host()],
        "http_request",
        json!({"url": server.url("/")}),
    )
    .unwrap();
    let note = "Body:\n\n[the body is not text and is omitted: image/png, 11 bytes]";
    assert!(output.ends_with(note), "{output}");
    assert!(!output.contains("PNG\r"), "{output}");
}

/// The environment belongs to a process, so the second half of this test runs in a process of its
/// own.
#[test]
fn a_proxy_of_the_environment_is_not_used() {
    const PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
    let server = Server::responding("text/plain", "the server");
    if std::env::var_os("SEGNO_TEST_INSIDE").is_some() {
        let output = run(
            &[server.host()],
            "http_request",
            json!({"url": server.url("/")}),
        );
        assert!(output.unwrap().ends_with("the server"));
        return;
    }
    let proxy = Server::responding("text/plain", "the proxy");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "tools::requests::a_proxy_of_the_environment_is_not_used";
    child.args(["--exact", name]).env("SEGNO_TEST_INSIDE", "1");
    child.envs(PROXIES.map(|variable| (variable, proxy.url("/"))));
    child.env_remove("no_proxy").env_remove("NO_PROXY");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{output:?}"
    );
    assert_eq!(proxy.requests(), [""; 0]);
}
