//! MCP calls while another process runs the session.

use segno_testkit::sandbox::wait_until;
use serde_json::{Value, json};

use super::{Client, notes};
use crate::commands::{of_kind, shown, start_waiting, waiting_chain};
use crate::sandbox;

#[test]
fn note_gets_its_id_from_the_run_and_is_recorded_once() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &["--step", "steps/1", "--agent", "a"]);
    let recorded = client.call(
        "record_decision",
        &json!({"text": "Use SQLite", "why": "one file"}),
    );
    assert_eq!(recorded, json!({"kept": true, "id": "d1"}));
    // A repeated note keeps its id.
    let again = client.call(
        "record_decision",
        &json!({"text": "Use SQLite", "why": "one file"}),
    );
    assert_eq!(again, json!({"kept": true, "id": "d1"}));
    let error = client.call("record_error", &json!({"text": "no disk"}));
    assert_eq!(error["id"], "e1");
    assert_eq!(
        client.call("resolve_error", &json!({"note": "e1"}))["id"],
        "e1"
    );
    assert_eq!(client.call("status", &json!({}))["status"], "running");
    sandbox.write("go", "");
    live.finish().expect_success();
    client.end();
    let journal = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .json();
    let written = of_kind(&journal, "memos_written");
    let texts: Vec<&Value> = written
        .iter()
        .map(|event| &event["memos"][0]["memo"])
        .collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!(notes(&sandbox, "chain").len(), 2);
}

#[test]
fn answered_note_survives_a_killed_run() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    client.call("record_decision", &json!({"text": "Use SQLite"}));
    live.kill();
    // The server still runs, and no process runs the session now, so it appends the note between
    // runs.
    let recorded = client.call("record_error", &json!({"text": "no disk"}));
    assert_eq!(recorded["id"], "e1");
    client.end();
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    let recorded = notes(&sandbox, "chain");
    assert_eq!(recorded.len(), 2, "{recorded:?}");
    let journal = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .json();
    assert_eq!(of_kind(&journal, "memos_written").len(), 2);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn stopped_run_records_a_waiting_note_later() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(rustix::process::Signal::STOP);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    let recorded = client.call("record_decision", &json!({"text": "Use SQLite"}));
    assert_eq!(recorded["kept"], true);
    assert!(recorded["id"].is_null(), "{recorded}");
    live.signal(rustix::process::Signal::CONT);
    wait_until("the run takes it", || live.stderr().contains("Use SQLite"));
    sandbox.write("go", "");
    live.finish().expect_success();
    client.end();
    assert_eq!(notes(&sandbox, "chain").len(), 1);
}

#[test]
fn note_does_not_end_a_run_stopped_past_its_lease() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = 100\n");
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(rustix::process::Signal::STOP);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    // The first call waits for the run longer than the lease lasts.
    for text in ["one", "two"] {
        let recorded = client.call("add_todo", &json!({"text": text}));
        assert!(recorded["id"].is_null(), "{recorded}");
    }
    live.signal(rustix::process::Signal::CONT);
    sandbox.write("go", "");
    live.finish().expect_success();
    client.end();
    assert_eq!(notes(&sandbox, "chain").len(), 2);
}

#[test]
fn concurrent_servers_lose_nothing() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    std::thread::scope(|scope| {
        for agent in ["one", "two"] {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let mut client = Client::start(sandbox, &["--agent", agent]);
                for number in 0..10 {
                    let text = format!("{agent} {number}");
                    let recorded = client.call("add_todo", &json!({"text": text}));
                    assert!(recorded["id"].is_string(), "{recorded}");
                }
                client.end();
            });
        }
    });
    sandbox.write("go", "");
    live.finish().expect_success();
    let all = notes(&sandbox, "chain");
    assert_eq!(all.len(), 20);
    for agent in ["one", "two"] {
        assert_eq!(all.iter().filter(|note| note["by"] == agent).count(), 10);
    }
}

#[test]
fn agent_pauses_its_session_after_the_step_with_a_reason() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &["--agent", "builder"]);
    let asked = client.call("pause", &json!({"reason": "the key is missing"}));
    assert_eq!(asked["asked"], true);
    sandbox.write("go", "");
    assert_eq!(live.finish().code(), 130);
    client.end();
    let session = shown(&sandbox, "chain");
    assert_eq!(session["status"], "paused");
    let journal = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .json();
    let stop = of_kind(&journal, "stop_requested")[0];
    assert_eq!(stop["by"], "agent builder");
    assert_eq!(stop["reason"], "the key is missing");
    sandbox.segno(&["resume", "chain"]).expect_success();
}

#[test]
fn an_agent_pauses_its_session_at_once() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, agent) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &[]);
    client.call("pause", &json!({"reason": "stop me", "now": true}));
    assert_eq!(live.finish().code(), 130);
    crate::commands::until_gone(&agent);
    assert_eq!(shown(&sandbox, "chain")["status"], "paused");
}

#[test]
fn checkpoint_does_not_disturb_a_running_session() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &[]);
    let created = client.call("checkpoint", &json!({"reason": "half-way"}));
    let id = created["checkpoint"].as_str().unwrap().to_owned();
    sandbox.write("go", "");
    live.finish().expect_success();
    client.end();
    sandbox
        .segno(&["checkpoint", "verify", &id])
        .expect_success();
}
