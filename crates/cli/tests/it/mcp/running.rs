//! While the session is being run by someone else.

use segno_testkit::sandbox::until;
use serde_json::{Value, json};

use super::{Client, memos};
use crate::commands::{of_kind, shown, start_waiting, waiting_chain};
use crate::sandbox;

#[test]
fn a_memo_gets_its_name_from_the_run_and_is_taken_once() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &["--step", "steps/1", "--agent", "a"]);
    let kept = client.call(
        "record_decision",
        &json!({"text": "Use SQLite", "why": "one file"}),
    );
    assert_eq!(kept, json!({"kept": true, "memo": "d1"}));
    // What is said again has the name that it has.
    let again = client.call(
        "record_decision",
        &json!({"text": "Use SQLite", "why": "one file"}),
    );
    assert_eq!(again, json!({"kept": true, "memo": "d1"}));
    let error = client.call("record_error", &json!({"text": "no disk"}));
    assert_eq!(error["memo"], "e1");
    assert_eq!(
        client.call("resolve_error", &json!({"memo": "e1"}))["memo"],
        "e1"
    );
    assert_eq!(client.call("status", &json!({}))["status"], "running");
    sandbox.write("go", "");
    live.finish().good();
    client.end();
    let journal = sandbox.segno(&["logs", "chain", "--json"]).good().json();
    let written = of_kind(&journal, "memos_written");
    let texts: Vec<&Value> = written
        .iter()
        .map(|entry| &entry["memos"][0]["memo"])
        .collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!(memos(&sandbox, "chain").len(), 2);
}

#[test]
fn a_memo_survives_when_the_run_is_killed_right_after_it_was_answered() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    client.call("record_decision", &json!({"text": "Use SQLite"}));
    live.kill();
    // The server lives on: nobody runs the session now, so this is an entry between runs.
    let kept = client.call("record_error", &json!({"text": "no disk"}));
    assert_eq!(kept["memo"], "e1");
    client.end();
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).good();
    let kept = memos(&sandbox, "chain");
    assert_eq!(kept.len(), 2, "{kept:?}");
    let journal = sandbox.segno(&["logs", "chain", "--json"]).good().json();
    assert_eq!(of_kind(&journal, "memos_written").len(), 2);
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_run_that_does_not_listen_leaves_a_memo_waiting_and_it_is_taken_later() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(rustix::process::Signal::STOP);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    let kept = client.call("record_decision", &json!({"text": "Use SQLite"}));
    assert_eq!(kept["kept"], true);
    assert!(kept["memo"].is_null(), "{kept}");
    live.signal(rustix::process::Signal::CONT);
    until("the run takes it", || live.stderr().contains("Use SQLite"));
    sandbox.write("go", "");
    live.finish().good();
    client.end();
    assert_eq!(memos(&sandbox, "chain").len(), 1);
}

#[test]
fn a_memo_does_not_end_a_run_that_is_stopped_for_longer_than_its_lease() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = 100\n");
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(rustix::process::Signal::STOP);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    // The first call waits for the run longer than the lease lasts.
    for text in ["one", "two"] {
        let kept = client.call("add_todo", &json!({"text": text}));
        assert!(kept["memo"].is_null(), "{kept}");
    }
    live.signal(rustix::process::Signal::CONT);
    sandbox.write("go", "");
    live.finish().good();
    client.end();
    assert_eq!(memos(&sandbox, "chain").len(), 2);
}

#[test]
fn two_servers_at_once_lose_nothing() {
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
                    let kept = client.call("add_todo", &json!({"text": text}));
                    assert!(kept["memo"].is_string(), "{kept}");
                }
                client.end();
            });
        }
    });
    sandbox.write("go", "");
    live.finish().good();
    let all = memos(&sandbox, "chain");
    assert_eq!(all.len(), 20);
    for agent in ["one", "two"] {
        assert_eq!(all.iter().filter(|memo| memo["by"] == agent).count(), 10);
    }
}

#[test]
fn an_agent_pauses_its_session_at_the_end_of_the_step_and_says_why() {
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
    let journal = sandbox.segno(&["logs", "chain", "--json"]).good().json();
    let stop = of_kind(&journal, "stop_requested")[0];
    assert_eq!(stop["by"], "agent builder");
    assert_eq!(stop["reason"], "the key is missing");
    sandbox.segno(&["resume", "chain"]).good();
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
fn a_checkpoint_of_a_session_that_runs_does_not_disturb_it() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &[]);
    let taken = client.call("checkpoint", &json!({"reason": "half-way"}));
    let id = taken["checkpoint"].as_str().unwrap().to_owned();
    sandbox.write("go", "");
    live.finish().good();
    client.end();
    sandbox.segno(&["checkpoint", "verify", &id]).good();
}
