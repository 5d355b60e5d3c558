//! What `hooks install` and `hooks uninstall` do to settings files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use segno_testkit::sandbox::wait_for_output;

use super::{Fixture, commands};

const THEIRS: &str = "{\n    \"env\": {\"TOKEN\": \"s3cr3t-token-value-0123456789\"},\n    \"hooks\": {\n        \"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]\n    },\n    \"model\":   \"opus\"\n}";

#[test]
fn uninstall_restores_the_settings_exactly() {
    for text in [
        THEIRS,
        "{}",
        "{\"hooks\":{}}\n",
        "{\n\t\"a\": [ 1,2 ]\n}\n\n",
        "{\r\n  \"z\": 1,\r\n  \"a\": 1e2,\r\n  \"a\": {}\r\n}\r\n",
    ] {
        let fixture = Fixture::new();
        fixture.write(text);
        let installed = fixture.install();
        for event in ["SessionStart", "Stop", "SessionEnd"] {
            let ours = commands(&installed, event).pop().unwrap();
            assert!(ours.contains(" __hook claude "), "{ours}");
        }
        assert_eq!(fixture.status()["state"], "installed");
        assert_eq!(
            fixture.install(),
            installed,
            "a second time changes nothing"
        );
        assert_eq!(fixture.uninstall(), text);
        assert_eq!(fixture.status()["state"], "absent");
        assert_eq!(fixture.uninstall(), text, "a second time changes nothing");
    }
}

#[test]
fn uninstall_removes_a_file_that_install_created() {
    let fixture = Fixture::new();
    fixture.install();
    let mode = fixture.file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fixture
        .segno(&["agents", "hooks", "uninstall", "claude"])
        .expect_success();
    assert!(!fixture.file().exists());
    fixture
        .segno(&["agents", "hooks", "uninstall", "claude"])
        .expect_success();
    assert!(!fixture.file().exists());
}

#[test]
fn uninstall_keeps_changes_of_others() {
    let fixture = Fixture::new();
    fixture.write(THEIRS);
    let installed = fixture.install();
    fixture.write(&installed.replace("\"opus\"", "\"sonnet\""));
    assert_eq!(
        fixture.uninstall(),
        THEIRS.replace("\"opus\"", "\"sonnet\"")
    );
}

#[test]
fn install_keeps_symlink_and_file_mode() {
    let fixture = Fixture::new();
    let real = fixture.sandbox.write("dotfiles/claude.json", THEIRS);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, fixture.file()).unwrap();
    fixture.install();
    assert!(fixture.file().symlink_metadata().unwrap().is_symlink());
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::read_to_string(&real).unwrap().contains("__hook"));
    assert_eq!(fixture.uninstall(), THEIRS);
    assert!(fixture.file().symlink_metadata().unwrap().is_symlink());
    fs::remove_file(&real).unwrap();
    let output = fixture.segno(&["agents", "hooks", "install", "claude"]);
    output.refused(12, &["leads nowhere", "H0101"]);
}

#[test]
fn unsafe_settings_are_refused_and_left_unchanged() {
    let deep = "[".repeat(600) + &"]".repeat(600);
    for (text, reason) in [
        ("", "it is empty"),
        ("[]", "it is not an object"),
        ("{\"hooks\": 7}", "its `hooks` is not an object"),
        ("{\"hooks\": {}, \"hooks\": {}}", "`hooks` several times"),
        ("\u{feff}{}", "byte order mark"),
        ("{\"a\": 1", "not valid JSON"),
        (&format!("{{\"a\": {deep}}}"), "nesting depth"),
    ] {
        let fixture = Fixture::new();
        fixture.write(text);
        for verb in ["install", "uninstall", "status"] {
            let output = fixture.segno(&["agents", "hooks", verb, "claude"]);
            output.refused(
                12,
                &[
                    "settings.json was left as it is",
                    reason,
                    "H0102",
                    "mend it first",
                ],
            );
            assert_eq!(fixture.text(), text);
        }
    }
    let fixture = Fixture::new();
    let huge = format!("{{\"a\": \"{}\"}}", "x".repeat(9 << 20));
    fixture.write(&huge);
    let output = fixture.segno(&["agents", "hooks", "install", "claude"]);
    output.refused(12, &["settings.json cannot be used", "H0101"]);
    assert_eq!(fixture.text(), huge);
    let fixture = Fixture::new();
    fixture.write(THEIRS);
    fs::set_permissions(fixture.file(), fs::Permissions::from_mode(0o666)).unwrap();
    let output = fixture.segno(&["agents", "hooks", "install", "claude"]);
    output.refused(12, &["everyone may write to it", "H0101"]);
    assert_eq!(fixture.text(), THEIRS);
}

#[test]
fn settings_that_the_agent_ignores_get_no_hooks() {
    for (text, reason) in [
        (
            "{\"a\": 1,}",
            "line 1 has a trailing comma: the agent ignores such a file",
        ),
        (
            "// mine\n{}",
            "line 1 has a comment: the agent ignores such a file",
        ),
    ] {
        let fixture = Fixture::new();
        fixture.write(text);
        for verb in ["install", "status"] {
            let output = fixture.segno(&["agents", "hooks", verb, "claude"]);
            output.refused(12, &["settings.json was left as it is", reason, "H0102"]);
        }
        assert_eq!(fixture.uninstall(), text);
    }
    // They can be removed from a file that was changed so later.
    let fixture = Fixture::new();
    fixture.write(THEIRS);
    let installed = fixture.install();
    fixture.write(&format!("// mine\n{installed}\n// more\n"));
    assert_eq!(fixture.uninstall(), format!("// mine\n{THEIRS}\n// more\n"));
}

#[test]
fn dry_run_shows_the_change_without_secrets() {
    let fixture = Fixture::new();
    fixture.write(THEIRS);
    let mut command = fixture.command(&["agents", "hooks", "install", "claude", "--dry-run"]);
    command.env("TOKEN", "s3cr3t-token-value-0123456789");
    let output = segno_testkit::sandbox::run_to_end(command).expect_success();
    assert!(
        output.stdout.contains("\n+") && output.stdout.contains("__hook claude"),
        "{}",
        output.stdout
    );
    assert!(
        !output.stdout.contains("s3cr3t-token-value"),
        "{}",
        output.stdout
    );
    assert_eq!(fixture.text(), THEIRS);
    assert!(!fixture.sandbox.home().exists());
    let installed = fixture.install();
    let output = fixture
        .segno(&["agents", "hooks", "uninstall", "claude", "--dry-run"])
        .expect_success();
    assert!(output.stdout.contains("\n-"), "{}", output.stdout);
    assert_eq!(fixture.text(), installed);
}

#[test]
fn settings_are_not_copied_into_the_home() {
    let fixture = Fixture::new();
    fixture.write(THEIRS);
    fixture.install();
    let stored: Vec<u8> = fs::read_dir(fixture.sandbox.home().join("hooks"))
        .unwrap()
        .flat_map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    let stored = String::from_utf8(stored).unwrap();
    assert!(
        stored.contains("added") && !stored.contains("s3cr3t"),
        "{stored}"
    );
}

#[test]
fn concurrent_installs_lose_nothing() {
    let fixture = Fixture::new();
    fixture.write(THEIRS);
    let start = |words: &[&str]| {
        let mut command = fixture.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let all: Vec<_> = (0..8)
        .map(|_| start(&["agents", "hooks", "install", "claude"]))
        .collect();
    all.into_iter()
        .for_each(|child| drop(wait_for_output(child).expect_success()));
    assert_eq!(
        commands(&fixture.text(), "Stop").len(),
        2,
        "theirs and ours, once"
    );
    assert_eq!(fixture.uninstall(), THEIRS);
    // In whichever order these run, the file is one or the other.
    let all: Vec<_> = (0..8)
        .map(|n| {
            start(&[
                "agents",
                "hooks",
                if n % 2 == 0 { "install" } else { "uninstall" },
                "claude",
            ])
        })
        .collect();
    all.into_iter()
        .for_each(|child| drop(wait_for_output(child).expect_success()));
    assert!(["installed", "absent"].contains(&fixture.status()["state"].as_str().unwrap()));
    assert_eq!(fixture.uninstall(), THEIRS);
}

#[test]
fn install_repairs_the_hooks_of_a_moved_binary() {
    let fixture = Fixture::new();
    fixture.write(THEIRS);
    let nasty = fixture.sandbox.work().join("it's a \"$(touch x)\" place");
    fs::create_dir(&nasty).unwrap();
    let copy = nasty.join("segno");
    fs::copy(fixture.sandbox.binary(), &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    fixture.sandbox.set_env(&mut command);
    command
        .env("CLAUDE_CONFIG_DIR", fixture.root())
        .args(["agents", "hooks", "install", "claude"]);
    segno_testkit::sandbox::run_to_end(command).expect_success();
    assert_eq!(
        fixture.status()["state"],
        "outdated",
        "another one is there"
    );
    fs::remove_file(&copy).unwrap();
    let output = fixture
        .segno(&["agents", "hooks", "status", "claude"])
        .expect_success();
    assert!(
        output.stdout.contains("claude: outdated") && output.stdout.contains("no longer exists"),
        "{output:?}"
    );
    assert!(output.stderr.contains("segno agents hooks install claude"));
    fixture.install();
    assert_eq!(fixture.status()["state"], "installed");
    assert_eq!(commands(&fixture.text(), "Stop").len(), 2);
    assert_eq!(fixture.uninstall(), THEIRS);
}

#[test]
fn doctor_accepts_installed_hooks() {
    let fixture = Fixture::new();
    fixture.install();
    let output = fixture.segno(&["doctor"]).expect_success();
    assert!(
        !output.stdout.contains("does not belong here"),
        "{}",
        output.stdout
    );
}
