//! `segno config show` and `segno config path`.

use segno_testkit::sandbox::run_to_end;
use serde_json::{Value, json};

use crate::sandbox;

fn setting<'a>(shown: &'a Value, key: &str) -> &'a Value {
    let settings = shown["settings"].as_array().unwrap();
    let found = settings.iter().find(|setting| setting["key"] == key);
    found.unwrap_or_else(|| panic!("{key} is not in {shown}"))
}

#[test]
fn config_show_names_the_source_of_each_setting() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = 1000\n[remote]\nurl = \"s3://bucket/team\"\n");
    let shown = sandbox.segno(&["config", "show", "--json"]);
    let shown = shown.expect_success().json().remove(0);
    let expected = |key: &str, value: Value, source: &str| json!({"key": key, "value": value, "source": source});
    for (key, value, source) in [
        ("lease.ttl_ms", json!(1000), "config.toml"),
        ("remote.url", json!("s3://bucket/team"), "config.toml"),
        ("remote.above_mb", json!(0), "default"),
        ("cleanup.keep_completed", json!(true), "default"),
        ("checkpoints.max_mb", json!(10_000), "default"),
        ("chat.idle_after_s", json!(300), "default"),
        ("encryption.key_file", Value::Null, "default"),
    ] {
        assert_eq!(setting(&shown, key), &expected(key, value, source));
    }
    assert_eq!(shown["home"]["source"], "SEGNO_HOME");
    assert_eq!(shown["file"]["exists"], true);
    let text = sandbox.segno(&["config", "show"]).expect_success().stdout;
    assert!(text.contains("lease.ttl_ms"), "{text}");
}

#[test]
fn config_show_hides_secrets() {
    let sandbox = sandbox();
    sandbox.configure("[claude-code]\nprogram = \"/opt/sesame-4711/claude\"\n");
    for words in [&["config", "show"][..], &["config", "show", "--json"]] {
        let mut command = sandbox.command(words);
        command.env("SEGNO_PASSPHRASE", "sesame-4711");
        command.env("AWS_REGION", "eu-central-1");
        let output = run_to_end(command).expect_success();
        assert!(output.stdout.contains("SEGNO_PASSPHRASE"), "{output:?}");
        assert!(output.stdout.contains("eu-central-1"), "{output:?}");
        assert!(!output.stdout.contains("sesame-4711"), "{output:?}");
    }
}

#[test]
fn config_show_refuses_an_invalid_file() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = \"soon\"\n");
    sandbox
        .segno(&["config", "show"])
        .refused(2, &["`lease.ttl_ms`", "[C0102]"]);
}

#[test]
fn config_path_prints_the_settings_file() {
    let sandbox = sandbox();
    let output = sandbox.segno(&["config", "path"]).expect_success();
    let file = sandbox.home().join("config.toml");
    assert_eq!(output.stdout.trim_end(), file.to_str().unwrap());
    assert!(!sandbox.home().exists(), "nothing is kept");
}
