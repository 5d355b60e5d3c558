//! Streams of journal events: every event once, whatever is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use segno_testkit::sandbox::{Sandbox, run_to_end};

use super::{Request, Serving, token};
use crate::sandbox;

/// The events of a session as `logs` has them.
fn journal(sandbox: &Sandbox, session: &str) -> Vec<serde_json::Value> {
    sandbox
        .segno(&["logs", session, "--json"])
        .expect_success()
        .json()
}

fn follow(session: &str, token: &str) -> Request {
    Request::get(&format!("/api/v1/sessions/{session}/events")).token(token)
}

#[test]
fn stream_has_every_event_of_another_process_once() {
    let sandbox = sandbox();
    sandbox.scripted_chain(5, 20);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "first"])
        .expect_success();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    // The run starts after the stream was opened, in a process of its own.
    let mut run = sandbox.start(&["run", "chain.yaml", "--force", "--name", "second"]);
    segno_testkit::sandbox::wait_until("the session exists", || {
        serving.get(&token, "/api/v1/sessions/second").status == 200
    });
    let mut stream = serving.follow(follow("second", &token));
    let first = stream.next_any().unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data["resume"]),
        ("stream", &"ok".into())
    );
    let mut seen = Vec::new();
    loop {
        let event = stream.next_event().unwrap();
        assert_eq!(event.id.as_deref(), Some(&*event.data["seq"].to_string()));
        seen.push(event.data);
        if seen.last().unwrap()["kind"] == "run_ended" {
            break;
        }
    }
    run.wait().unwrap();
    assert_eq!(seen, journal(&sandbox, "second"));
}

#[test]
fn client_that_reconnects_misses_nothing_and_sees_nothing_twice() {
    let sandbox = sandbox();
    sandbox.scripted_chain(12, 60);
    let mut run = sandbox.start(&["run", "chain.yaml"]);
    let token = token(&sandbox, "read");
    let (mut seen, mut servers) = (Vec::new(), 0);
    let mut last: Option<String> = None;
    // Each server is killed after three events, and the next one continues the stream.
    let mut is_over = false;
    while !is_over {
        let serving = Serving::start(&sandbox);
        segno_testkit::sandbox::wait_until("the session exists", || {
            serving.get(&token, "/api/v1/sessions/chain").status == 200
        });
        let mut request = follow("chain", &token);
        if let Some(last) = &last {
            request = request.header("Last-Event-ID", last);
        }
        let mut stream = serving.follow(request);
        for _ in 0..3 {
            let event = stream.next_event().unwrap();
            last = event.id.clone();
            is_over = event.data["kind"] == "run_ended";
            seen.push(event.data);
            if is_over {
                break;
            }
        }
        servers += 1;
    }
    run.wait().unwrap();
    assert!(servers > 4, "{servers} servers");
    assert_eq!(seen, journal(&sandbox, "chain"));
}

#[test]
fn one_stream_follows_several_sessions_and_resumes_each() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    for name in ["one", "two"] {
        sandbox
            .segno(&["run", "chain.yaml", "--force", "--name", name])
            .expect_success();
    }
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let feed = Request::get("/api/v1/events?sessions=one,two").token(&token);
    let wanted: Vec<_> = ["one", "two"]
        .iter()
        .flat_map(|name| journal(&sandbox, name))
        .collect();
    let mut stream = serving.follow(feed.clone());
    let half = wanted.len() / 2 - 2;
    let mut seen: Vec<_> = (0..half).map(|_| stream.next_event().unwrap()).collect();
    let last = seen.last().unwrap().id.clone().unwrap();
    let mut stream = serving.follow(feed.header("Last-Event-ID", &last));
    seen.extend((half..wanted.len()).map(|_| stream.next_event().unwrap()));
    // Each session's events are in order; the two may interleave.
    let mut by_session = BTreeMap::<String, Vec<_>>::new();
    for event in seen {
        let session = event.data["session"].to_string();
        by_session.entry(session).or_default().push(event.data);
    }
    let mut both = BTreeMap::<String, Vec<_>>::new();
    for event in wanted {
        both.entry(event["session"].to_string())
            .or_default()
            .push(event);
    }
    assert_eq!(by_session, both);
}

#[test]
fn positions_that_do_not_exist_are_refused() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    for id in ["999", "-1", "x", "1,2", ""] {
        let request = follow("chain", &token)
            .header("Accept", "text/event-stream")
            .header("Last-Event-ID", id);
        let answer = serving.send(&request).expect(400);
        assert_eq!(answer.json()["code"], "N0106", "{id}");
    }
    let many = vec!["chain"; 51].join(",");
    serving
        .get(&token, &format!("/api/v1/events?sessions={many}"))
        .expect(400);
}

#[test]
fn pages_have_the_same_events_as_the_stream() {
    let sandbox = sandbox();
    sandbox.scripted_chain(150, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let (mut after, mut seen, mut pages) = (0, Vec::new(), 0);
    loop {
        let path = format!("/api/v1/sessions/chain/events?after={after}");
        let page = serving.get(&token, &path).expect(200).json();
        seen.extend(page["items"].as_array().unwrap().clone());
        pages += 1;
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert!(pages > 1);
    assert_eq!(seen, journal(&sandbox, "chain"));
}

/// Clients that never read get a journal that does not fit into the buffers of the connection.
#[test]
#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn clients_that_never_read_cost_little_and_disturb_nobody() {
    let sandbox = sandbox();
    sandbox.scripted_chain(300, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let request = follow("chain", &token).header("Accept", "text/event-stream");
    let silent: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = serving.connect();
            stream.write_all(&request.bytes(&serving.address)).unwrap();
            stream
        })
        .collect();
    let mut stream = serving.follow(follow("chain", &token));
    let wanted = journal(&sandbox, "chain").len();
    (0..wanted).for_each(|_| drop(stream.next_event().unwrap()));
    let status = fs::read_to_string(format!("/proc/{}/status", serving.pid())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 200 * 1024, "{peak} KB");
    drop(silent);
}

#[test]
fn stream_of_a_deleted_session_says_why_it_ends() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let wanted = journal(&sandbox, "chain").len();
    let mut stream = serving.follow(follow("chain", &token));
    (0..wanted).for_each(|_| drop(stream.next_event().unwrap()));
    let words = ["sessions", "delete", "chain", "--permanent", "--yes"];
    run_to_end(sandbox.command(&words)).expect_success();
    let last = stream.next_any().unwrap();
    assert_eq!(last.name, "error", "{last:?}");
    assert_eq!(last.data["code"], "S0101", "{last:?}");
    assert_eq!(stream.next_any(), None);
}
