//! The hook itself: it leaves a note, and otherwise nothing is to be noticed of it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use segno_testkit::sandbox::{Said, finish, wait};
use serde_json::json;

use super::{ID, Set, commands, notes};

impl Set {
    /// What Claude Code says when a turn is over.
    fn said(&self) -> String {
        let file = self.root().join(format!("projects/-work/{ID}.jsonl"));
        json!({"session_id": ID, "transcript_path": file, "cwd": "/work", "hook_event_name": "Stop",
            "stop_hook_active": false, "last_assistant_message": "done"})
        .to_string()
    }

    fn hook(&self) -> Command {
        let home = self.sandbox.home();
        self.command(&["__hook", "claude", home.to_str().unwrap()])
    }
}

fn tell(mut command: Command, said: &[u8]) -> Said {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Whoever does not listen to the end closes the pipe.
    let _ = stdin.write_all(said);
    drop(stdin);
    wait(child)
}

#[track_caller]
fn unnoticed(said: &Said) {
    assert_eq!(
        (said.code(), said.stdout.as_str(), said.stderr.as_str()),
        (0, "", "")
    );
}

#[test]
fn a_note_says_which_transcript_changed() {
    let set = Set::new();
    set.install();
    for _ in 0..3 {
        unnoticed(&tell(set.hook(), set.said().as_bytes()));
    }
    let notes = notes(&set.sandbox.home());
    assert_eq!(notes.len(), 1, "one for each session: {notes:?}");
    assert_eq!(notes[0]["session"], ID);
    let file = set.root().join(format!("projects/-work/{ID}.jsonl"));
    assert_eq!(
        notes[0]["file"].as_str().map(Path::new),
        Some(file.as_path())
    );
    let folder = set.sandbox.home().join("spool");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let note = fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(mode(&note), 0o600);
}

#[test]
fn the_installed_command_does_it_in_any_shell() {
    let set = Set::new();
    let command = commands(&set.install(), "Stop").remove(0);
    for shell in ["sh", "bash"] {
        let mut started = Command::new(shell);
        set.sandbox.furnish(&mut started);
        started
            .env("CLAUDE_CONFIG_DIR", set.root())
            .env_remove("SEGNO_HOME");
        started.arg("-c").arg(&command);
        unnoticed(&tell(started, set.said().as_bytes()));
        assert_eq!(notes(&set.sandbox.home()).len(), 1);
        fs::remove_dir_all(set.sandbox.home().join("spool")).unwrap();
    }
}

#[test]
fn what_makes_no_sense_leaves_no_note_and_no_word() {
    let set = Set::new();
    set.install();
    let good = set.said();
    let elsewhere = |path: &str| {
        let mut said: serde_json::Value = serde_json::from_str(&good).unwrap();
        said["transcript_path"] = path.into();
        said.to_string()
    };
    let root = set.root().display().to_string();
    let wrong = [
        String::new(),
        "not json".to_owned(),
        good[..good.len() / 2].to_owned(),
        "[".repeat(1 << 20),
        format!("{{\"a\":\"{}\"}}", "x".repeat(8 << 20)),
        good.replace(ID, "../../x"),
        good.replace(ID, "--dangerously-skip-permissions"),
        good.replace(
            &format!("\"session_id\":\"{ID}\""),
            "\"session_id\":\"5e550000-0000-4000-8000-000000000002\"",
        ),
        good.replace("\"session_id\"", "\"session\""),
        elsewhere("/etc/passwd"),
        elsewhere(&format!("{root}/projects/-work/../../../{ID}.jsonl")),
        elsewhere(&format!("projects/-work/{ID}.jsonl")),
        elsewhere(&format!("/tmp/projects/-work/{ID}.jsonl")),
        elsewhere(&format!("{root}/projects/-work/{ID}.jsonl\0")),
    ];
    for said in &wrong {
        unnoticed(&tell(set.hook(), said.as_bytes()));
        assert_eq!(
            notes(&set.sandbox.home()),
            [] as [serde_json::Value; 0],
            "{said:.200}"
        );
    }
    let home = set.sandbox.home().display().to_string();
    for words in [
        &["__hook"][..],
        &["__hook", "claude"],
        &["__hook", "other", &home],
        &["__hook", "claude", "home"],
    ] {
        unnoticed(&tell(set.command(words), good.as_bytes()));
    }
    let mut own = set.hook();
    own.env("SEGNO_SESSION", "01M7FF2RH3CH825BCH5Q5XP8B8");
    unnoticed(&tell(own, good.as_bytes()));
    assert_eq!(notes(&set.sandbox.home()), [] as [serde_json::Value; 0]);
    unnoticed(&tell(set.hook(), good.as_bytes()));
    assert_eq!(notes(&set.sandbox.home()).len(), 1, "the same said well");
}

#[test]
fn an_agent_that_says_nothing_is_not_waited_for() {
    let set = Set::new();
    set.install();
    let mut silent = set.hook();
    silent
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = silent.spawn().unwrap();
    let open = child.stdin.take();
    unnoticed(&wait(child));
    drop(open);
    // Nor is one that says everything and leaves the pipe open.
    let mut open = set.hook();
    open.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = open.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(set.said().as_bytes()).unwrap();
    unnoticed(&wait(child));
    drop(stdin);
    assert_eq!(notes(&set.sandbox.home()).len(), 1);
}

#[test]
fn a_home_that_cannot_be_written_is_no_reason_to_say_anything() {
    let set = Set::new();
    // It is not there, and a hook does not make one.
    unnoticed(&tell(set.hook(), set.said().as_bytes()));
    assert!(!set.sandbox.home().exists());
    // It is a file.
    fs::write(set.sandbox.home(), "").unwrap();
    unnoticed(&tell(set.hook(), set.said().as_bytes()));
    fs::remove_file(set.sandbox.home()).unwrap();
    // Others may write to it.
    fs::create_dir(set.sandbox.home()).unwrap();
    fs::set_permissions(set.sandbox.home(), fs::Permissions::from_mode(0o777)).unwrap();
    unnoticed(&tell(set.hook(), set.said().as_bytes()));
    assert!(!set.sandbox.home().join("spool").exists());
    // Something is in the place of the folder of notes.
    fs::set_permissions(set.sandbox.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(set.sandbox.home().join("spool"), "").unwrap();
    unnoticed(&tell(set.hook(), set.said().as_bytes()));
}

#[test]
fn a_full_or_read_only_disk_is_no_reason_to_say_anything() {
    let set = Set::new();
    let said = set.sandbox.write("said.json", &set.said());
    let script = r#"
        mkdir "$HOME/disk"
        mount -t tmpfs -o size=64k,mode=700 tmpfs "$HOME/disk"
        home="$HOME/disk/home"
        mkdir -m 700 "$home" "$home/spool"
        dd if=/dev/zero of="$HOME/disk/filler" bs=4k 2> /dev/null || true
        "$SEGNO" __hook claude "$home" < "$SAID"
        ls -A "$home/spool"
        rm "$HOME/disk/filler"
        mount -o remount,ro "$HOME/disk"
        "$SEGNO" __hook claude "$home" < "$SAID"
        ls -A "$home/spool"
        mount -o remount,rw "$HOME/disk"
        "$SEGNO" __hook claude "$home" < "$SAID"
        ls -A "$home/spool"
    "#;
    let mut command = Command::new("unshare");
    set.sandbox.furnish(&mut command);
    let root = is_root();
    command
        .env("CLAUDE_CONFIG_DIR", set.root())
        .env("SEGNO", set.sandbox.binary())
        .env("SAID", said)
        .args([if root { "-m" } else { "-Urm" }, "sh", "-eu", "-c", script]);
    let said = finish(command).good();
    assert_eq!(
        (said.stdout.trim(), said.stderr.as_str()),
        (&*format!("claude-{ID}.json"), "")
    );
}

/// Whether this is root, who needs no user namespace to mount.
fn is_root() -> bool {
    let mut command = Command::new("id");
    command.arg("-u");
    finish(command).stdout.trim() == "0"
}
