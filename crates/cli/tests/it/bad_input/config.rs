//! Settings that cannot be used.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::sandbox;

#[test]
fn unknown_setting_is_reported_by_name() {
    for (content, key) in [
        ("[lease]\nttl = 5\n", "`lease.ttl` is not a setting"),
        ("[leese]\nttl_ms = 5\n", "`leese.ttl_ms` is not a setting"),
        ("colour = true\n", "`colour` is not a setting"),
    ] {
        let sandbox = sandbox();
        sandbox.configure(content);
        let output = sandbox.segno(&["status"]).expect_success();
        assert!(output.stderr.contains("config.toml"), "{}", output.stderr);
        assert!(output.stderr.contains(key), "{}", output.stderr);
        assert!(
            output
                .stderr
                .contains("lease.ttl_ms, lease.end_stopped, cleanup"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn setting_of_wrong_type_or_range_is_refused() {
    for content in [
        "[lease]\nttl_ms = \"soon\"\n",
        "[lease]\nttl_ms = -1\n",
        "[lease]\nttl_ms = 99\n",
        "[lease]\nttl_ms = 3600001\n",
        "[lease]\nttl_ms = 1000\nttl_ms = 2000\n",
        "lease = 3\n",
        "[cleanup]\nmax_age_days = 99999999999999999999\n",
        "[cleanup]\nkeep_completed = \"yes\"\n",
        "not toml",
    ] {
        let sandbox = sandbox();
        sandbox.configure(content);
        sandbox
            .segno(&["status"])
            .refused(2, &["config.toml cannot be used", "[C0102]"]);
        assert!(!sandbox.home().join("sessions").exists());
    }
}

#[test]
fn world_writable_settings_are_refused() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = 1000\n");
    let file = sandbox.home().join("config.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    sandbox
        .segno(&["status"])
        .refused(2, &["config.toml", "others can write to it", "[C0102]"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    sandbox.segno(&["status"]).expect_success();
}

#[test]
fn settings_that_are_not_a_file_are_refused() {
    let sandbox = sandbox();
    sandbox.configure("");
    let file = sandbox.home().join("config.toml");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    sandbox
        .segno(&["status"])
        .refused(2, &["config.toml", "not a regular file"]);
}

#[test]
fn settings_beside_the_spec_are_not_read() {
    let sandbox = sandbox();
    sandbox.write("config.toml", "[lease]\nttl_ms = \"evil\"\n");
    let output = sandbox.segno(&["status"]).expect_success();
    assert_eq!(output.stderr, "");
}

#[test]
fn a_setting_of_a_wrong_type_is_named() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = \"soon\"\n");
    sandbox.segno(&["status"]).refused(2, &["lease.ttl_ms"]);
}
