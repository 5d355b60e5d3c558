//! What becomes of settings files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use segno_testkit::sandbox::wait;

use super::{Set, commands};

const THEIRS: &str = "{\n    \"env\": {\"TOKEN\": \"s3cr3t-token-value-0123456789\"},\n    \"hooks\": {\n        \"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]\n    },\n    \"model\":   \"opus\"\n}";

#[test]
fn what_was_installed_goes_without_a_trace() {
    for text in [
        THEIRS,
        "{}",
        "{\"hooks\":{}}\n",
        "{\n\t\"a\": [ 1,2 ]\n}\n\n",
    ] {
        let set = Set::new();
        set.write(text);
        let installed = set.install();
        for event in ["SessionStart", "Stop", "SessionEnd"] {
            let ours = commands(&installed, event).pop().unwrap();
            assert!(ours.contains(" __hook claude "), "{ours}");
        }
        assert_eq!(set.status()["state"], "installed");
        assert_eq!(set.install(), installed, "a second time changes nothing");
        assert_eq!(set.uninstall(), text);
        assert_eq!(set.status()["state"], "absent");
        assert_eq!(set.uninstall(), text, "a second time changes nothing");
    }
}

#[test]
fn a_file_that_was_not_there_is_not_there_afterwards() {
    let set = Set::new();
    set.install();
    let mode = set.file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    set.segno(&["hooks", "uninstall", "claude"]).good();
    assert!(!set.file().exists());
    set.segno(&["hooks", "uninstall", "claude"]).good();
    assert!(!set.file().exists());
}

#[test]
fn changes_of_others_stay() {
    let set = Set::new();
    set.write(THEIRS);
    let installed = set.install();
    set.write(&installed.replace("\"opus\"", "\"sonnet\""));
    assert_eq!(set.uninstall(), THEIRS.replace("\"opus\"", "\"sonnet\""));
}

#[test]
fn a_link_stays_a_link_and_a_mode_stays_a_mode() {
    let set = Set::new();
    let real = set.sandbox.write("dotfiles/claude.json", THEIRS);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, set.file()).unwrap();
    set.install();
    assert!(set.file().symlink_metadata().unwrap().is_symlink());
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::read_to_string(&real).unwrap().contains("__hook"));
    assert_eq!(set.uninstall(), THEIRS);
    assert!(set.file().symlink_metadata().unwrap().is_symlink());
    fs::remove_file(&real).unwrap();
    let said = set.segno(&["hooks", "install", "claude"]);
    said.refused(12, &["leads nowhere", "H0101"]);
}

#[test]
fn what_cannot_be_changed_safely_is_refused_and_left_as_it_is() {
    for text in [
        "{\"a\": 1,}",
        "// mine\n{}",
        "",
        "[]",
        "{\"hooks\": 7}",
        "\u{feff}{}",
    ] {
        let set = Set::new();
        set.write(text);
        for verb in ["install", "uninstall", "status"] {
            let said = set.segno(&["hooks", verb, "claude"]);
            said.refused(
                12,
                &["settings.json was left as it is", "H0102", "mend it first"],
            );
            assert_eq!(set.text(), text);
        }
    }
    let set = Set::new();
    set.write(THEIRS);
    fs::set_permissions(set.file(), fs::Permissions::from_mode(0o666)).unwrap();
    let said = set.segno(&["hooks", "install", "claude"]);
    said.refused(12, &["everyone may write to it", "H0101"]);
    assert_eq!(set.text(), THEIRS);
}

#[test]
fn what_would_change_can_be_seen_first_without_secrets() {
    let set = Set::new();
    set.write(THEIRS);
    let mut command = set.command(&["hooks", "install", "claude", "--dry-run"]);
    command.env("TOKEN", "s3cr3t-token-value-0123456789");
    let said = segno_testkit::sandbox::finish(command).good();
    assert!(
        said.stdout.contains("\n+") && said.stdout.contains("__hook claude"),
        "{}",
        said.stdout
    );
    assert!(
        !said.stdout.contains("s3cr3t-token-value"),
        "{}",
        said.stdout
    );
    assert_eq!(set.text(), THEIRS);
    assert!(!set.sandbox.home().exists());
    let installed = set.install();
    let said = set
        .segno(&["hooks", "uninstall", "claude", "--dry-run"])
        .good();
    assert!(said.stdout.contains("\n-"), "{}", said.stdout);
    assert_eq!(set.text(), installed);
}

#[test]
fn settings_are_not_copied_into_the_home() {
    let set = Set::new();
    set.write(THEIRS);
    set.install();
    let kept: Vec<u8> = fs::read_dir(set.sandbox.home().join("hooks"))
        .unwrap()
        .flat_map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    let kept = String::from_utf8(kept).unwrap();
    assert!(kept.contains("added") && !kept.contains("s3cr3t"), "{kept}");
}

#[test]
fn of_many_at_once_none_loses_anything() {
    let set = Set::new();
    set.write(THEIRS);
    let start = |words: &[&str]| {
        let mut command = set.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let all: Vec<_> = (0..8)
        .map(|_| start(&["hooks", "install", "claude"]))
        .collect();
    all.into_iter().for_each(|child| drop(wait(child).good()));
    assert_eq!(
        commands(&set.text(), "Stop").len(),
        2,
        "theirs and ours, once"
    );
    assert_eq!(set.uninstall(), THEIRS);
    // In whichever order these come, the file is one or the other.
    let all: Vec<_> = (0..8)
        .map(|n| {
            start(&[
                "hooks",
                if n % 2 == 0 { "install" } else { "uninstall" },
                "claude",
            ])
        })
        .collect();
    all.into_iter().for_each(|child| drop(wait(child).good()));
    assert!(["installed", "absent"].contains(&set.status()["state"].as_str().unwrap()));
    assert_eq!(set.uninstall(), THEIRS);
}

#[test]
fn a_program_that_moved_is_noticed_and_mended() {
    let set = Set::new();
    set.write(THEIRS);
    let nasty = set.sandbox.work().join("it's a \"$(touch x)\" place");
    fs::create_dir(&nasty).unwrap();
    let copy = nasty.join("segno");
    fs::copy(set.sandbox.binary(), &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    set.sandbox.furnish(&mut command);
    command
        .env("CLAUDE_CONFIG_DIR", set.root())
        .args(["hooks", "install", "claude"]);
    segno_testkit::sandbox::finish(command).good();
    assert_eq!(set.status()["state"], "outdated", "another one is there");
    fs::remove_file(&copy).unwrap();
    let said = set.segno(&["hooks", "status", "claude"]).good();
    assert!(
        said.stdout.contains("claude: outdated") && said.stdout.contains("not there any more"),
        "{said:?}"
    );
    assert!(said.stderr.contains("segno hooks install claude"));
    set.install();
    assert_eq!(set.status()["state"], "installed");
    assert_eq!(commands(&set.text(), "Stop").len(), 2);
    assert_eq!(set.uninstall(), THEIRS);
}

#[test]
fn what_is_installed_does_not_trouble_the_doctor() {
    let set = Set::new();
    set.install();
    let said = set.segno(&["doctor"]).good();
    assert!(
        !said.stdout.contains("does not belong here"),
        "{}",
        said.stdout
    );
}
