//! `http_request`: any request, to what is in reach.

use std::sync::Arc;

use serde_json::json;

use super::{Hand, assert_problem, gear, run, run_with};
use crate::server::{Server, response};

#[test]
fn a_request_is_sent_as_asked_and_told_as_answered() {
    let server = Server::new(|_| response("201 Created", "X-Made: yes\r\n", "für dich"));
    let told = run(
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
    let heard = server.heard().concat();
    for words in [
        "POST /things?a=b HTTP/1.1\r\n",
        "\r\nx-one: 1\r\n",
        "\r\nauthorization: bearer word\r\n",
        "\r\nuser-agent: segno/",
        "\r\n\r\n{\"a\": 1}",
    ] {
        assert!(heard.contains(words), "{words}: {heard}");
    }
    assert!(told.starts_with("Status: 201\nHeaders: {"), "{told}");
    assert!(told.contains("\"x-made\":\"yes\""), "{told}");
    assert!(told.ends_with("}\nBody:\nfür dich"), "{told}");
    assert!(!told.contains("word"), "what was sent is told: {told}");
}

#[test]
fn a_status_that_is_no_success_is_an_answer() {
    let server = Server::new(|_| response("503 Busy", "", "later"));
    let told = run(
        &[server.host()],
        "http_request",
        json!({"url": server.url("/")}),
    );
    assert!(told.unwrap().starts_with("Status: 503\n"));
}

#[test]
fn what_is_private_is_not_called_unless_it_was_allowed() {
    let server = Server::saying("text/plain", "secret");
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
        let start = format!("{name} may not be called: it ");
        assert!(refused.starts_with(&start), "{refused}");
        assert!(refused.contains("this machine itself"), "{refused}");
        assert!(
            refused.ends_with("`network.allow_private` of config.toml"),
            "{refused}"
        );
    }
    assert_eq!(server.heard(), [""; 0]);
    for allowed in [server.host(), "127.0.0.1".to_owned()] {
        let told = run(&[allowed], "http_request", json!({"url": server.url("/")}));
        assert!(told.unwrap().ends_with("secret"));
    }
    let by_name = json!({"url": format!("http://{}/", server.name())});
    let told = run(&["localhost".to_owned()], "http_request", by_name);
    assert!(told.unwrap().ends_with("secret"));
}

#[test]
fn bad_input_is_refused_before_anything_is_sent() {
    let server = Server::saying("text/plain", "");
    let url = server.url("/");
    for (input, problem) in [
        (json!({}), "`url` is missing"),
        (json!({"url": 7}), "`url` must be of type string"),
        (json!({"url": "nonsense"}), "`nonsense` is not an address"),
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
            "cannot be sent",
        ),
        (
            json!({"url": url, "proxy": "x"}),
            "`proxy` is not something",
        ),
    ] {
        assert_problem(&run(&[server.host()], "http_request", input), problem);
    }
    assert_eq!(server.heard(), [""; 0]);
}

#[test]
fn a_server_that_stays_silent_is_given_up() {
    let clock = Arc::<Hand>::default();
    let there = Arc::clone(&clock);
    let silent = Server::new(move |_| {
        there.turn();
        Vec::new()
    });
    let input = json!({"url": silent.url("/?key=word"), "timeout": 7});
    let given_up = run_with(gear(&[silent.host()], &clock), "http_request", input);
    assert_eq!(
        given_up.unwrap_err(),
        "127.0.0.1 took longer than 7 seconds"
    );
    assert_eq!(clock.asked(), [7]);
}

#[test]
fn a_server_that_stops_in_the_middle_is_given_up() {
    let clock = Arc::<Hand>::default();
    let there = Arc::clone(&clock);
    let server = Server::new(move |_| {
        there.turn();
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec()
    });
    let input = json!({"url": server.url("/")});
    // It hangs up or the time is over, whichever is seen first.
    let given_up = run_with(gear(&[server.host()], &clock), "http_request", input).unwrap_err();
    let known = [
        "the answer was cut off",
        "127.0.0.1 took longer than 30 seconds",
    ];
    assert!(known.contains(&&*given_up), "{given_up}");
}

#[test]
fn nobody_at_home_is_told_without_the_address() {
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
fn what_is_too_long_is_cut_and_that_is_told() {
    let limit = 2 * 1024 * 1024;
    for (length, is_cut) in [(limit, false), (limit + 1, true), (limit * 4, true)] {
        let server = Server::saying("text/plain", "x".repeat(length));
        let told = run(
            &[server.host()],
            "http_request",
            json!({"url": server.url("/")}),
        )
        .unwrap();
        let (_, body) = told.split_once("Body:\n").unwrap();
        let expected = "x".repeat(limit);
        if is_cut {
            let note = body.strip_prefix(&expected).unwrap();
            assert_eq!(note, "\n[only the first 2 MiB are here]");
        } else {
            assert!(body == expected);
        }
    }
}

#[test]
fn what_is_not_text_is_named() {
    let server = Server::saying("image/png", b"\x89PNG\r\n\x1a\n\0\0\0");
    let told = run(
        &[server.host()],
        "http_request",
        json!({"url": server.url("/")}),
    )
    .unwrap();
    let note = "Body:\n\n[the body is not text and is left out: image/png, 11 bytes]";
    assert!(told.ends_with(note), "{told}");
    assert!(!told.contains("PNG\r"), "{told}");
}

/// The environment belongs to a process, so the second half of this test is a process of its own.
#[test]
fn a_proxy_of_the_environment_is_not_used() {
    const PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
    let server = Server::saying("text/plain", "the server");
    if std::env::var_os("SEGNO_TEST_INSIDE").is_some() {
        let told = run(
            &[server.host()],
            "http_request",
            json!({"url": server.url("/")}),
        );
        assert!(told.unwrap().ends_with("the server"));
        return;
    }
    let proxy = Server::saying("text/plain", "the proxy");
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
    assert_eq!(proxy.heard(), [""; 0]);
}
