//! Values that agents store through the MCP server.

use segno_testkit::sandbox::wait_until;
use serde_json::json;

use super::{Client, completed_session};
use crate::commands::{of_kind, start_waiting, waiting_chain};
use crate::sandbox;

#[test]
fn agent_stores_values_during_a_run() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &["--step", "steps/1", "--agent", "a"]);
    let none = client.call("get_state", &json!({}));
    assert_eq!(none, json!({"values": {}}));
    let set =
        |key: &str, value, expected| json!({"key": key, "value": value, "expected": expected});
    let stored = client.call("set_state", &json!({"key": "page", "value": [1, "two"]}));
    assert_eq!(stored, json!({"stored": true}));
    let found = client.call("get_state", &json!({"key": "page"}));
    assert_eq!(found, json!({"key": "page", "value": [1, "two"]}));
    client.call("set_state", &set("page", json!(2), json!([1, "two"])));
    let refused = client.refused("set_state", &set("page", json!(3), json!(1)));
    assert!(refused.contains("it is 2 [R0162]"), "{refused}");
    let refused = client.refused("set_state", &set("page", json!(3), json!(null)));
    assert!(refused.contains("it is 2 [R0162]"), "{refused}");
    client.call("set_state", &set("once", json!(true), json!(null)));
    client.call("set_state", &json!({"key": "once", "value": null}));
    let all = client.call("get_state", &json!({}));
    assert_eq!(all, json!({"values": {"page": 2}}));
    sandbox.write("go", "");
    live.finish().expect_success();
    client.end();
    let journal = sandbox.segno(&["logs", "chain", "--json"]);
    let journal = journal.expect_success().json();
    let changed = of_kind(&journal, "agent_state_changed");
    assert_eq!(changed.len(), 4, "{changed:?}");
    assert_eq!(changed[0]["path"], "steps/1");
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn answered_change_survives_a_killed_run() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    let stored = client.call("set_state", &json!({"key": "n", "value": 1}));
    assert_eq!(stored["stored"], true);
    live.kill();
    let stored = client.call("set_state", &json!({"key": "n", "value": 2, "expected": 1}));
    assert_eq!(stored["stored"], true);
    client.end();
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    let got = sandbox.segno(&["state", "get", "n"]).expect_success();
    assert_eq!(got.stdout, "2\n");
}

#[test]
fn stopped_run_decides_a_waiting_change_later() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(rustix::process::Signal::STOP);
    let mut client = Client::start(&sandbox, &["--agent", "a"]);
    let posted = client.call("set_state", &json!({"key": "n", "value": 1}));
    assert_eq!(posted["stored"], false, "{posted}");
    // It can be read already.
    let found = client.call("get_state", &json!({"key": "n"}));
    assert_eq!(found["value"], 1);
    live.signal(rustix::process::Signal::CONT);
    wait_until("the run decides it", || {
        live.stderr().contains("sets n of a")
    });
    sandbox.write("go", "");
    live.finish().expect_success();
    client.end();
    let got = sandbox.segno(&["state", "get", "n"]).expect_success();
    assert_eq!(got.stdout, "1\n");
}

#[test]
fn server_without_a_known_name_uses_the_only_agent() {
    let sandbox = sandbox();
    completed_session(&sandbox, 1);
    let mut client = Client::start(&sandbox, &[]);
    client.call("set_state", &json!({"key": "n", "value": 1}));
    client.end();
    let listed = sandbox.segno(&["state", "list", "--json"]).expect_success();
    assert_eq!(listed.json()[0]["agent"], "a");
    sandbox.write(
        "two.yaml",
        &sandbox
            .read("chain.yaml")
            .replace("agents: {", "agents: {b: {prompt: x}, "),
    );
    sandbox
        .segno(&["run", "two.yaml", "--name", "two", "--force"])
        .expect_success();
    let mut client = Client::start(&sandbox, &[]);
    let refused = client.refused("set_state", &json!({"key": "n", "value": 1}));
    assert!(
        refused.contains("has no agent `agent` [R0160]"),
        "{refused}"
    );
    client.end();
}
