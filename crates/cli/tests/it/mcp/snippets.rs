//! The configuration that `segno mcp config` prints.

use serde_json::{Value, json};

use super::{Client, completed_session};
use crate::{sandbox, segno};

#[test]
fn printed_config_starts_a_server_for_the_same_sessions() {
    let sandbox = sandbox();
    completed_session(&sandbox, 1);
    for (agent, pointer) in [
        ("claude", "/mcpServers/segno"),
        ("json", "/mcpServers/segno"),
        ("acp", "/mcpServers/0"),
    ] {
        let output = sandbox
            .segno(&["mcp", "config", agent, "--session", "chain"])
            .expect_success();
        let printed: Value = serde_json::from_str(&output.stdout).unwrap();
        let entry = printed.pointer(pointer).unwrap();
        assert_eq!(entry["command"], segno().to_str().unwrap());
        assert_eq!(entry["args"], json!(["mcp", "--session=chain"]));
        let home = match agent {
            "acp" => &entry["env"][0]["value"],
            _ => &entry["env"]["SEGNO_HOME"],
        };
        assert_eq!(*home, sandbox.home().to_str().unwrap());
    }
    let codex = sandbox.segno(&["mcp", "config", "codex"]).expect_success();
    assert!(
        codex.stdout.starts_with("[mcp_servers.segno]\n"),
        "{codex:?}"
    );
    let quoted = format!("command = {:?}", segno().to_str().unwrap());
    assert!(codex.stdout.contains(&quoted), "{codex:?}");
    assert!(
        codex
            .stderr
            .contains("codex mcp add segno --env SEGNO_HOME="),
        "{codex:?}"
    );
    // The printed arguments start the server from any folder.
    let mut elsewhere = std::process::Command::new(segno());
    elsewhere
        .args(["mcp", "--session=chain"])
        .env_clear()
        .env("SEGNO_HOME", sandbox.home())
        .current_dir("/");
    let mut client = Client::spawn(elsewhere);
    assert_eq!(client.call("status", &json!({}))["name"], "chain");
    client.end();
}

#[test]
fn default_home_is_not_printed() {
    let sandbox = sandbox();
    let mut command = sandbox.command(&["mcp", "config", "json"]);
    command.env_remove("SEGNO_HOME");
    let output = segno_testkit::sandbox::run_to_end(command).expect_success();
    let printed: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(printed["mcpServers"]["segno"]["env"], json!({}));
}
