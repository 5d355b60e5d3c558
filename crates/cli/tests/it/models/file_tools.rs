//! File tools that models call: what they may not write, and that they never hold a run up.

#![expect(clippy::disallowed_methods, reason = "the machine is the subject")]

use std::fs::File;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::{Sandbox, run_to_end, wait_until};
use serde_json::{Value, json};

use super::{chain, run};
use crate::commands::shown;
use crate::sandbox;

/// A model that writes these files, one per turn.
fn writer(paths: &[&str]) -> ModelServer {
    let calls = paths.iter().map(|path| {
        let input = json!({"path": path, "content": "planted", "create_dirs": true});
        ("file_write".to_owned(), input)
    });
    caller(calls.collect())
}

/// A model that makes these calls in one turn.
fn caller(calls: Vec<(String, Value)>) -> ModelServer {
    ModelServer::start(
        move |_, asked| match asked.body["messages"].as_array().map(Vec::len) {
            Some(1) => ModelResponse::Tools(String::new(), calls.clone()),
            _ => ModelResponse::Text("done".into()),
        },
    )
}

/// Runs a spec with these tools, and returns the results that the model got.
fn results(sandbox: &Sandbox, server: &ModelServer) -> Vec<String> {
    chain(sandbox, "anthropic", &server.host(), "", &["work"]);
    let tools = "tools: {python: [file_write, grep]}\nagents:";
    let spec = sandbox.read("ask.yaml").replace("agents:", tools);
    sandbox.write("ask.yaml", &spec);
    run(sandbox, &["run", "ask.yaml"]).expect_success();
    let asked = server.requests();
    let results = asked[1].body["messages"][2]["content"].as_array().unwrap();
    let text = |result: &Value| result["content"].as_str().unwrap().to_owned();
    results.iter().map(text).collect()
}

#[test]
fn model_cannot_write_the_spec_of_its_session() {
    let sandbox = sandbox();
    std::os::unix::fs::symlink("ask.yaml", sandbox.work().join("link")).unwrap();
    let paths = ["ask.yaml", "./ask.yaml", "link"];
    let server = writer(&paths);
    for (path, result) in paths.iter().zip(results(&sandbox, &server)) {
        let expected = format!(
            "{path} was not written: it is the spec of this session; only a user can write it"
        );
        assert_eq!(result, expected);
    }
    assert!(sandbox.read("ask.yaml").starts_with("version: 0"));
}

#[test]
fn model_cannot_write_what_starts_programs() {
    let sandbox = sandbox();
    let paths = [
        ".git/hooks/pre-commit",
        ".claude/settings.json",
        ".github/workflows/ci.yml",
        ".envrc",
    ];
    let server = writer(&paths);
    for (path, result) in paths.iter().zip(results(&sandbox, &server)) {
        assert!(
            result.starts_with(&format!("{path} was not written: ")),
            "{result}"
        );
        assert!(!sandbox.work().join(path).exists(), "{path}");
    }
}

#[test]
fn model_cannot_write_what_the_session_runs() {
    let sandbox = sandbox();
    sandbox.write("helper.sh", "#!/bin/sh\ncat\n");
    let server = writer(&["helper.sh"]);
    let agent = "agents: {b: {prompt: x, provider: command, command: [sh, helper.sh]}, ";
    chain(&sandbox, "anthropic", &server.host(), "", &["work"]);
    let spec = sandbox.read("ask.yaml");
    let spec = spec.replace(
        "agents: {",
        &format!("tools: {{python: [file_write]}}\n{agent}"),
    );
    sandbox.write("ask.yaml", &spec);
    run(&sandbox, &["run", "ask.yaml"]).expect_success();
    let sent = server.requests()[1].body["messages"].to_string();
    assert!(
        sent.contains("helper.sh was not written: this session runs it"),
        "{sent}"
    );
    assert!(sandbox.read("helper.sh").starts_with("#!/bin/sh"));
}

#[test]
fn model_cannot_write_the_home() {
    let sandbox = sandbox();
    let home = sandbox.work().join("state");
    let server = writer(&["state/config.toml", "state/segno.db"]);
    chain(&sandbox, "anthropic", &server.host(), "", &["work"]);
    let tools = "tools: {python: [file_write]}\nagents:";
    let spec = sandbox.read("ask.yaml").replace("agents:", tools);
    sandbox.write("ask.yaml", &spec);
    let mut command = sandbox.command(&["run", "ask.yaml"]);
    command
        .env("SEGNO_HOME", &home)
        .env("ANTHROPIC_API_KEY", "key-for-tests-only-1");
    run_to_end(command).expect_success();
    let sent = server.requests()[1].body["messages"].to_string();
    assert_eq!(
        sent.matches("Segno keeps its sessions there").count(),
        2,
        "{sent}"
    );
    assert!(!home.join("config.toml").exists());
}

#[test]
fn user_can_allow_a_model_to_write_such_files() {
    let sandbox = sandbox();
    sandbox.configure("[tools]\nallow_write = [\".github/workflows\"]\n");
    let server = writer(&[".github/workflows/ci.yml", ".gitlab-ci.yml"]);
    let results = results(&sandbox, &server);
    assert_eq!(results[0], "wrote 7 bytes to .github/workflows/ci.yml");
    assert!(results[1].contains("tools.allow_write"), "{}", results[1]);
    sandbox.configure("[tools]\nallow_write = [\"../x\"]\n");
    run(&sandbox, &["run", "ask.yaml"]).refused(2, &["`tools.allow_write`", "[C0102]"]);
}

#[test]
fn endless_search_does_not_hold_a_run_up() {
    let sandbox = sandbox();
    sandbox.write("lines", &"\n".repeat(2_000_000));
    let grep = |pattern: &str| {
        let input = json!({"path": "lines", "pattern": pattern, "max_matches": 2_000_000});
        ("grep".to_owned(), input)
    };
    let server = caller(vec![grep(""), grep("^")]);
    let results = results(&sandbox, &server);
    assert!(
        results[0].contains("would match every line"),
        "{}",
        results[0]
    );
    assert!(results[1].ends_with("[cut: more lines match or follow]\n"));
}

/// As on a network file system that does not answer.
#[test]
fn tool_that_hangs_in_the_kernel_delays_neither_lease_nor_ctrl_c() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = 600\n");
    let input = json!({"path": "ask.yaml"});
    let server = caller(vec![("file_read".to_owned(), input)]);
    chain(&sandbox, "anthropic", &server.host(), "", &["work"]);
    let tools = "tools: {python: [file_read]}\nagents:";
    let spec = sandbox.read("ask.yaml").replace("agents:", tools);
    sandbox.write("ask.yaml", &spec);
    let mut command = Command::new("strace");
    sandbox.set_env(&mut command);
    let (said, calls) = (sandbox.work().join("said"), sandbox.work().join("traced"));
    let mut traced = command
        .args(["-f", "-q", "-e", "trace=openat2"])
        .args(["-e", "inject=openat2:delay_enter=3600s", "-o"])
        .arg(&calls)
        .arg(sandbox.binary())
        .args(["run", "ask.yaml"])
        .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    wait_until("the tool hangs", || {
        sandbox.read("traced").contains("openat2")
    });
    let lease = || shown(&sandbox, "ask")["owner"].clone();
    let (pid, first) = (lease()["pid"].clone(), lease()["until"].clone());
    wait_until("the lease is renewed", || lease()["until"] != first);
    let second = lease()["until"].clone();
    wait_until("it is renewed again", || lease()["until"] != second);
    let pid = Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    wait_until("it says so", || {
        sandbox.read("said").contains("stopping after this step")
    });
    kill_process(pid, Signal::INT).unwrap();
    wait_until("the session is paused", || {
        shown(&sandbox, "ask")["status"] == "paused"
    });
    // The kernel keeps the process until its last thread leaves the call.
    traced.kill().unwrap();
    traced.wait().unwrap();
    run(&sandbox, &["resume", "ask"]).expect_success();
    let calls = server.requests().len();
    assert!((2..=3).contains(&calls), "{calls} calls");
}
