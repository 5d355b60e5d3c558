//! The MCP protocol: versions, listings, the choice of a session, shutdown.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Client, completed_session};
use crate::commands::tree;
use crate::sandbox;

#[test]
fn protocol_version_is_negotiated() {
    let sandbox = sandbox();
    let mut client = Client::start(&sandbox, &[]);
    for (wanted, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let answer = client.ask("initialize", &json!({"protocolVersion": wanted}));
        assert_eq!(answer["result"]["protocolVersion"], spoken);
    }
    let answer = client.ask("initialize", &json!({"protocolVersion": 7}));
    assert_eq!(answer["result"]["serverInfo"]["name"], "segno");
    assert_eq!(
        answer["result"]["capabilities"],
        json!({"tools": {}, "resources": {}})
    );
    client.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    client.end();
}

#[test]
fn listing_opens_no_home() {
    let sandbox = sandbox();
    let mut client = Client::start(&sandbox, &[]);
    let tools = client.ask("tools/list", &json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names.join(" "),
        "record_decision record_error resolve_error record_feedback address_feedback add_todo update_todo record_tests \
         withdraw read_history search_history list_checkpoints show_checkpoint get_state set_state checkpoint pause status"
    );
    let resources = client.ask("resources/list", &json!({}));
    let resources = resources["result"]["resources"].as_array().unwrap().clone();
    let names: Vec<&str> = resources
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .map(|uri| uri.strip_prefix("segno://session/").unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "context",
            "decisions",
            "errors",
            "feedback",
            "git-changes",
            "todos"
        ]
    );
    let templates = client.ask("resources/templates/list", &json!({}));
    assert_eq!(templates["result"]["resourceTemplates"], json!([]));
    client.end();
    assert!(!sandbox.home().exists() || tree(&sandbox.home()).is_empty());
}

#[test]
fn server_without_a_session_finds_one_that_starts_later() {
    let sandbox = sandbox();
    let mut client = Client::start(&sandbox, &[]);
    let error = client.refused("status", &json!({}));
    assert!(error.contains("no session works in"), "{error}");
    let answer = client.ask("resources/read", &json!({"uri": "segno://session/context"}));
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    completed_session(&sandbox, 1);
    assert_eq!(client.call("status", &json!({}))["name"], "chain");
    // From then on the server stays with that session.
    sandbox
        .segno(&["run", "chain.yaml", "--name", "another", "--force"])
        .expect_success();
    assert_eq!(client.call("status", &json!({}))["name"], "chain");
    client.end();
    let mut client = Client::start(&sandbox, &["--session", "no-such"]);
    let error = client.refused("add_todo", &json!({"text": "x"}));
    assert!(error.contains("no-such"), "{error}");
}

#[test]
fn server_answers_pending_requests_before_it_exits() {
    let sandbox = sandbox();
    completed_session(&sandbox, 1);
    let mut client = Client::start(&sandbox, &[]);
    client.ask("ping", &json!({}));
    for signal in [Signal::TERM, Signal::INT] {
        let mut client = Client::start(&sandbox, &[]);
        client.ask("ping", &json!({}));
        let pid = Pid::from_raw(client.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        client.assert_exits();
    }
    let requests: Vec<String> = (0..40)
        .map(|number| {
            let params =
                json!({"name": "add_todo", "arguments": {"text": format!("thing {number}")}});
            json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
                .to_string()
        })
        .collect();
    client.send(requests.join("\n").as_bytes());
    drop(client.stdin.take());
    let mut answered: Vec<u64> = (0..40)
        .map(|_| client.receive()["id"].as_u64().unwrap())
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..40).collect::<Vec<_>>());
    client.assert_exits();
}
