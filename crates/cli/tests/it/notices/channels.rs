//! What each kind of target gets.

use std::fs;

use segno_testkit::sandbox::run_to_end;
use serde_json::Value;

use super::{
    Behaviour, Receiver, failing, fake_program, short_chain, webhook, with_path, with_webhook,
};
use crate::commands::{root, until_gone};
use crate::sandbox;

/// The signature that Python computes for a time and a body.
fn python_hmac(secret: &str, seconds: &str, body: &str) -> String {
    let script = "import hashlib, hmac, sys\nprint(hmac.new(sys.argv[1].encode(), (sys.argv[2] + '.' + sys.argv[3]).encode(), hashlib.sha256).hexdigest())";
    let output = std::process::Command::new("python3")
        .args(["-c", script, secret, seconds, body])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn webhook_is_signed_json_with_a_stable_id() {
    let (sandbox, receiver) = with_webhook("secret_env = 'OPS_SIGNING'");
    short_chain(&sandbox);
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("OPS_SIGNING", "sesame-4711");
    run_to_end(command).expect_success();
    let received = receiver.wait_for(1).remove(0);
    let notice = received.json();
    assert_eq!(
        (&notice["v"], &notice["event"]),
        (&1.into(), &"completed".into())
    );
    assert_eq!(notice["name"], "chain");
    assert_eq!(notice["title"], "chain is completed");
    assert_eq!(notice["repeated"], false);
    assert_eq!(received.header("idempotency-key"), notice["id"]);
    assert!(!received.body.contains("fine"), "no answers: {received:?}");
    let signature = received.header("segno-signature").to_owned();
    let (seconds, tag) = signature
        .strip_prefix("t=")
        .and_then(|rest| rest.split_once(",v1="))
        .unwrap();
    assert_eq!(tag, python_hmac("sesame-4711", seconds, &received.body));
    assert_eq!(received.path, "/hooks/path-4711");
    assert!(super::undelivered(&sandbox).is_empty());
    let doctor = sandbox.segno(&["doctor"]).expect_success();
    assert!(!doctor.stdout.contains("notices"), "{doctor:?}");
}

#[test]
fn chat_services_get_escaped_text_without_mentions() {
    let receiver = Receiver::start(Behaviour::Status(200));
    let sandbox = sandbox();
    let url = receiver.url();
    sandbox.configure(&format!(
        "[[notices]]\nto = 'slack'\nurl_env = 'CHAT_URL'\n[[notices]]\nto = 'discord'\nurl = '{url}'\n[[notices]]\nto = 'ntfy'\nurl = '{url}'\nsecret_env = 'PUSH'\n"
    ));
    failing(
        &sandbox,
        "<!channel> @everyone <script>\u{1b}[31m\u{202e} **b**",
    );
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("CHAT_URL", &url).env("PUSH", "push-4711");
    run_to_end(command).refused(10, &[]);
    let received = receiver.wait_for(3);
    let with = |key: &str| {
        let found = received
            .iter()
            .filter_map(|one| serde_json::from_str::<Value>(&one.body).ok());
        { found }
            .find_map(|body| Some(body[key].as_str()?.to_owned()))
            .unwrap()
    };
    let slack = with("text");
    assert!(slack.contains("&lt;!channel&gt;"), "{slack}");
    let discord = with("content");
    assert!(discord.contains("\\*\\*b\\*\\*"), "{discord}");
    for text in [&slack, &discord] {
        assert!(!text.contains("@everyone"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
    let pushed = received
        .iter()
        .find(|one| !one.body.starts_with('{'))
        .unwrap();
    assert_eq!(pushed.header("title"), "chain failed");
    assert_eq!(pushed.header("priority"), "5");
    assert_eq!(pushed.header("authorization"), "Bearer push-4711");
}

#[test]
fn desktop_text_is_no_option() {
    let sandbox = sandbox();
    fake_program(
        &sandbox,
        "notify-send",
        "printf '%s\\n' \"$@\" > \"$HOME/told\"",
    );
    sandbox.configure("[[notices]]\nto = 'desktop'\n");
    failing(&sandbox, "--help");
    run_to_end(with_path(&sandbox, &["run", "chain.yaml"])).refused(10, &[]);
    let told = fs::read_to_string(root(&sandbox).join("told")).unwrap();
    let words: Vec<&str> = told.lines().collect();
    assert_eq!(
        words[..5],
        [
            "--app-name=Segno",
            "--urgency",
            "critical",
            "--",
            "chain failed"
        ]
    );
}

#[test]
fn command_gets_json_and_no_secrets() {
    let sandbox = sandbox();
    fake_program(
        &sandbox,
        "tell",
        "cat > \"$HOME/told\"; env > \"$HOME/environment\"",
    );
    sandbox.configure("[[notices]]\nto = 'command'\ncommand = ['tell', 'a b']\n");
    short_chain(&sandbox);
    let mut command = with_path(&sandbox, &["run", "chain.yaml"]);
    command.env("DEPLOY_TOKEN", "deploy-4711");
    run_to_end(command).expect_success();
    let told = fs::read_to_string(root(&sandbox).join("told")).unwrap();
    let notice: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(notice["event"], "completed");
    let environment = fs::read_to_string(root(&sandbox).join("environment")).unwrap();
    assert!(!environment.contains("deploy-4711"), "{environment}");
}

#[test]
fn hanging_command_is_killed_with_its_tree() {
    let sandbox = sandbox();
    let body =
        "sleep 600 & echo $! > \"$HOME/child.tmp\"; mv \"$HOME/child.tmp\" \"$HOME/child\"; wait";
    fake_program(&sandbox, "tell", body);
    sandbox.configure("[[notices]]\nto = 'command'\ncommand = ['tell']\n");
    let output = run_to_end(with_path(&sandbox, &["notice", "test"]));
    let output = output.refused(12, &["[N0132]"]);
    assert!(output.stdout.contains("killed after 10 s"), "{output:?}");
    let child = fs::read_to_string(root(&sandbox).join("child")).unwrap();
    until_gone(child.trim());
}

#[test]
fn secrets_in_reasons_are_redacted() {
    let (sandbox, receiver) = with_webhook("");
    failing(
        &sandbox,
        "denied: sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789-ABCDEFGH and deploy-token-4711",
    );
    let mut command = sandbox.command(&["run", "chain.yaml"]);
    command.env("DEPLOY_TOKEN", "deploy-token-4711");
    run_to_end(command).refused(10, &[]);
    let body = receiver.wait_for(1).remove(0).body;
    assert!(body.contains("denied"), "{body}");
    assert!(!body.contains("sk-ant"), "{body}");
    assert!(!body.contains("token-4711"), "{body}");
}

#[test]
fn secrets_that_a_command_prints_are_redacted() {
    let sandbox = sandbox();
    let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789-ABCDEFGH";
    fake_program(&sandbox, "tell", &format!("echo 'no {key}' >&2; exit 3"));
    sandbox.configure("[[notices]]\nto = 'command'\ncommand = ['tell']\n");
    let output = run_to_end(with_path(&sandbox, &["notice", "test"]));
    let output = output.refused(12, &["[N0132]"]);
    assert!(output.stdout.contains("exited with code 3"), "{output:?}");
    assert!(!output.stdout.contains("sk-ant"), "{output:?}");
    short_chain(&sandbox);
    run_to_end(with_path(&sandbox, &["run", "chain.yaml"])).expect_success();
    let state = fs::read_to_string(sandbox.home().join("notices/state.json")).unwrap();
    assert!(state.contains("exited with code 3"), "{state}");
    assert!(!state.contains("sk-ant"), "{state}");
}

#[test]
fn test_command_says_what_happened() {
    let (sandbox, receiver) = with_webhook("");
    let output = sandbox.segno(&["notice", "test", "ops"]).expect_success();
    assert_eq!(output.stdout.trim(), "ops (webhook): delivered");
    assert_eq!(receiver.events(), ["test"]);
    receiver.behave(Behaviour::Status(403));
    let output = sandbox.segno(&["notice", "test", "--json"]);
    assert_eq!(output.code(), 12, "{output:?}");
    let lines = output.json();
    assert_eq!(lines[0]["delivered"], false);
    assert_eq!(
        lines[0]["error"],
        "the receiver responded with 403 Forbidden"
    );
    sandbox
        .segno(&["notice", "test", "nobody"])
        .refused(17, &["`nobody`", "ops", "[N0131]"]);
}

#[test]
fn errors_contain_no_url() {
    let sandbox = sandbox();
    webhook(&sandbox, "http://127.0.0.1:1/hooks/path-4711", "");
    let output = sandbox.segno(&["notice", "test"]).refused(12, &["[N0132]"]);
    assert!(output.stdout.contains("failed"), "{output:?}");
    short_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    for words in [
        &["notice", "list"][..],
        &["notice", "list", "--json"],
        &["config", "show"],
    ] {
        let output = sandbox.segno(words).expect_success();
        assert!(!output.stdout.contains("path-4711"), "{output:?}");
    }
}

#[test]
fn target_without_settings_is_explained() {
    let sandbox = sandbox();
    sandbox
        .segno(&["notice", "test"])
        .refused(2, &["[N0130]", "[[notices]]"]);
    sandbox.configure("[[notices]]\nto = 'slack'\nurl_env = 'CHAT_URL'\n");
    let output = sandbox.segno(&["notice", "test"]).refused(12, &["[N0132]"]);
    assert!(output.stdout.contains("CHAT_URL is not set"), "{output:?}");
    sandbox.configure("[[notices]]\nto = 'pager'\n");
    sandbox
        .segno(&["status"])
        .refused(2, &["not `pager`", "[C0102]"]);
    sandbox.configure("[[notices]]\nto = 'desktop'\nvolume = 3\n");
    let output = sandbox.segno(&["status"]).expect_success();
    assert!(
        output.stderr.contains("`notices.volume` is not a setting"),
        "{output:?}"
    );
}
