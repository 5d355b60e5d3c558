//! Request ids, the audit log and the lines on stderr.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::{Value, json};

use super::{Request, Serving, token};
use crate::sandbox;

const CANARY: &str = "sk-ant-api03-canaryCANARYcanary0123456789abcdefghijklmnop";

fn audit(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.segno(&["audit", "--json"]).expect_success().json()
}

#[test]
fn every_answer_has_an_id_of_its_own() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let mut ids = Vec::new();
    for path in ["/health", "/nothing", "/api/v1/sessions", "/login"] {
        let request = Request::get(path).header("X-Request-Id", "chosen");
        let answer = serving.send(&request);
        ids.push(answer.header("x-request-id").unwrap().to_owned());
    }
    ids.push("chosen".to_owned());
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "{ids:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn effects_and_refusals_are_audited_without_secrets() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let path = "/api/v1/sessions/chain/notes";
    let note = json!({"notes": [{"todo": {"text": CANARY, "progress": "pending"}}]});
    let answer = serving.post(&token, path, &note).expect(200);
    serving.post(&token, path, &json!({"x": 1})).expect(400);
    serving.get(&token, "/api/v1/sessions").expect(200);
    serving.send(&Request::get("/api/v1/sessions")).expect(401);
    let refused = Request::get("/health").host("evil.example");
    serving.send(&refused).expect(421);
    let lines = audit(&sandbox);
    let seen: Vec<_> = lines
        .iter()
        .map(|line| (line["method"].as_str(), line["status"].as_u64()))
        .collect();
    let (post, get) = (Some("POST"), Some("GET"));
    let all = [(post, 200), (post, 400), (get, 401), (get, 421)];
    assert_eq!(seen, all.map(|(method, status)| (method, Some(status))));
    let first = &lines[0];
    assert_eq!(first["token"], "test-operate");
    assert_eq!(first["address"], "127.0.0.1");
    assert_eq!(first["route"], "/api/v1/sessions/{session}/notes");
    let shown = sandbox.segno(&["show", "chain", "--json"]).json();
    assert_eq!(first["session"], shown[0]["session"]);
    assert_eq!(first["request"], answer.header("x-request-id").unwrap());
    let file = sandbox.home().join("server/audit.jsonl");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains(CANARY) && !text.contains(&token), "{text}");
    let table = sandbox.segno(&["audit", "--limit", "1"]).expect_success();
    assert_eq!(table.stdout.lines().count(), 2, "{}", table.stdout);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests use files as others do")]
fn audit_log_survives_a_kill_and_a_cut_line() {
    let sandbox = sandbox();
    let refused = Request::get("/api/v1/sessions");
    let serving = Serving::start(&sandbox);
    serving.send(&refused).expect(401);
    serving.signal(Signal::KILL);
    drop(serving);
    let file = sandbox.home().join("server/audit.jsonl");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("{\"v\":1,\"time\":");
    std::fs::write(&file, text).unwrap();
    let serving = Serving::start(&sandbox);
    serving.send(&refused).expect(401);
    assert_eq!(audit(&sandbox).len(), 2);
}

#[test]
fn flood_of_refused_requests_does_not_fill_the_log() {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let refused = Request::get("/api/v1/sessions");
    (0..150).for_each(|_| drop(serving.send(&refused).expect(401)));
    serving
        .post(&token, "/api/v1/sessions/none/cancel", &json!({}))
        .expect(404);
    let output = sandbox.segno(&["audit", "--json", "--limit", "1000"]);
    let lines = output.expect_success().json();
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[100]["omitted"], 50);
}

#[test]
fn log_has_refused_requests_as_text_and_all_as_json() {
    let sandbox = sandbox();
    let mut text = Serving::start(&sandbox);
    text.send(&Request::get("/health")).expect(200);
    let refused = text.send(&Request::get("/api/v1/sessions"));
    let id = refused.header("x-request-id").unwrap();
    text.signal(Signal::HUP);
    let mut lines = BufReader::new(text.stderr()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("401 GET /api/v1/sessions [N0102]"), "{line}");
    assert!(line.contains(id), "{line}");
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("nothing to reload"), "{line}");
    text.send(&Request::get("/health")).expect(200);
    drop(text);
    let mut json = Serving::start_with(&sandbox, &["--log", "json"]);
    json.send(&Request::get("/health")).expect(200);
    let line = BufReader::new(json.stderr()).lines().next().unwrap();
    let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
    assert_eq!(line["route"], "/health");
    assert!(line["took_us"].is_u64());
}

#[test]
fn log_that_nobody_reads_holds_no_request_up() {
    let sandbox = sandbox();
    let serving = Serving::start_with(&sandbox, &["--log", "json"]);
    // More than the pipe and the queue have room for.
    (0..2000).for_each(|_| drop(serving.send(&Request::get("/health")).expect(200)));
    wait_until("it still answers", || {
        serving.send(&Request::get("/health")).status == 200
    });
}
