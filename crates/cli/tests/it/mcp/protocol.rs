use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Client, done};
use crate::commands::tree;
use crate::sandbox;

#[test]
fn a_version_that_both_speak_is_agreed_upon() {
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
fn what_is_offered_is_told_without_opening_anything() {
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
         withdraw read_history search_history checkpoint pause status"
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
fn without_a_session_every_tool_says_so_and_finds_one_that_begins_later() {
    let sandbox = sandbox();
    let mut client = Client::start(&sandbox, &[]);
    let told = client.refused("status", &json!({}));
    assert!(told.contains("no session works in"), "{told}");
    let answer = client.ask("resources/read", &json!({"uri": "segno://session/context"}));
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    done(&sandbox, 1);
    assert_eq!(client.call("status", &json!({}))["name"], "chain");
    // From then on it is about that one.
    sandbox
        .segno(&["run", "chain.yaml", "--name", "another", "--force"])
        .good();
    assert_eq!(client.call("status", &json!({}))["name"], "chain");
    client.end();
    let mut client = Client::start(&sandbox, &["--session", "no-such"]);
    let told = client.refused("add_todo", &json!({"text": "x"}));
    assert!(told.contains("no-such"), "{told}");
}

#[test]
fn it_ends_when_it_is_told_to_and_answers_first_what_was_asked_before_the_end() {
    let sandbox = sandbox();
    done(&sandbox, 1);
    let mut client = Client::start(&sandbox, &[]);
    client.ask("ping", &json!({}));
    for signal in [Signal::TERM, Signal::INT] {
        let mut client = Client::start(&sandbox, &[]);
        client.ask("ping", &json!({}));
        let pid = Pid::from_raw(client.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        client.ended();
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
        .map(|_| client.hear()["id"].as_u64().unwrap())
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..40).collect::<Vec<_>>());
    client.ended();
}
