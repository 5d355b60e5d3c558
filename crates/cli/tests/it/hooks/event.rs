//! The hook itself: it writes a spool file and has no other visible effect.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use segno_testkit::sandbox::{ProcessOutput, run_to_end, wait_for_output};
use serde_json::json;

use super::{Fixture, ID, commands, spool_files};

impl Fixture {
    /// The JSON that Claude Code sends when a turn ends.
    fn stop_event(&self) -> String {
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

fn run_hook(mut command: Command, input: &[u8]) -> ProcessOutput {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A hook that stops reading early closes the pipe.
    let _ = stdin.write_all(input);
    drop(stdin);
    wait_for_output(child)
}

#[track_caller]
fn assert_silent(output: &ProcessOutput) {
    assert_eq!(
        (
            output.code(),
            output.stdout.as_str(),
            output.stderr.as_str()
        ),
        (0, "", "")
    );
}

#[test]
fn spool_file_names_the_changed_transcript() {
    let fixture = Fixture::new();
    fixture.install();
    for _ in 0..3 {
        assert_silent(&run_hook(fixture.hook(), fixture.stop_event().as_bytes()));
    }
    let spool_files = spool_files(&fixture.sandbox.home());
    assert_eq!(
        spool_files.len(),
        1,
        "one for each session: {spool_files:?}"
    );
    assert_eq!(spool_files[0]["session"], ID);
    let file = fixture.root().join(format!("projects/-work/{ID}.jsonl"));
    assert_eq!(
        spool_files[0]["file"].as_str().map(Path::new),
        Some(file.as_path())
    );
    let folder = fixture.sandbox.home().join("spool");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let spool_file = fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(mode(&spool_file), 0o600);
}

#[test]
fn installed_command_works_in_any_shell() {
    let fixture = Fixture::new();
    let command = commands(&fixture.install(), "Stop").remove(0);
    for shell in ["sh", "bash"] {
        let mut started = Command::new(shell);
        fixture.sandbox.set_env(&mut started);
        started
            .env("CLAUDE_CONFIG_DIR", fixture.root())
            .env_remove("SEGNO_HOME");
        started.arg("-c").arg(&command);
        assert_silent(&run_hook(started, fixture.stop_event().as_bytes()));
        assert_eq!(spool_files(&fixture.sandbox.home()).len(), 1);
        fs::remove_dir_all(fixture.sandbox.home().join("spool")).unwrap();
    }
}

#[test]
fn invalid_input_leaves_no_spool_file_and_no_output() {
    let fixture = Fixture::new();
    fixture.install();
    let good = fixture.stop_event();
    let elsewhere = |path: &str| {
        let mut input: serde_json::Value = serde_json::from_str(&good).unwrap();
        input["transcript_path"] = path.into();
        input.to_string()
    };
    let root = fixture.root().display().to_string();
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
    for input in &wrong {
        assert_silent(&run_hook(fixture.hook(), input.as_bytes()));
        assert_eq!(
            spool_files(&fixture.sandbox.home()),
            [] as [serde_json::Value; 0],
            "{input:.200}"
        );
    }
    let home = fixture.sandbox.home().display().to_string();
    for words in [
        &["__hook"][..],
        &["__hook", "claude"],
        &["__hook", "other", &home],
        &["__hook", "claude", "home"],
    ] {
        assert_silent(&run_hook(fixture.command(words), good.as_bytes()));
    }
    let mut own = fixture.hook();
    own.env("SEGNO_SESSION", "01M7FF2RH3CH825BCH5Q5XP8B8");
    assert_silent(&run_hook(own, good.as_bytes()));
    assert_eq!(
        spool_files(&fixture.sandbox.home()),
        [] as [serde_json::Value; 0]
    );
    assert_silent(&run_hook(fixture.hook(), good.as_bytes()));
    assert_eq!(
        spool_files(&fixture.sandbox.home()).len(),
        1,
        "the same said well"
    );
}

#[test]
fn hook_does_not_wait_for_a_silent_agent() {
    let fixture = Fixture::new();
    fixture.install();
    let mut silent = fixture.hook();
    silent
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = silent.spawn().unwrap();
    let open = child.stdin.take();
    assert_silent(&wait_for_output(child));
    drop(open);
    // The hook does not wait for an agent that sends everything and leaves the pipe open, either.
    let mut open = fixture.hook();
    open.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = open.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(fixture.stop_event().as_bytes()).unwrap();
    assert_silent(&wait_for_output(child));
    drop(stdin);
    assert_eq!(spool_files(&fixture.sandbox.home()).len(), 1);
}

#[test]
fn hook_is_silent_about_an_unwritable_home() {
    let fixture = Fixture::new();
    // The home does not exist, and a hook does not create one.
    assert_silent(&run_hook(fixture.hook(), fixture.stop_event().as_bytes()));
    assert!(!fixture.sandbox.home().exists());
    // The home is a file.
    fs::write(fixture.sandbox.home(), "").unwrap();
    assert_silent(&run_hook(fixture.hook(), fixture.stop_event().as_bytes()));
    fs::remove_file(fixture.sandbox.home()).unwrap();
    // Others may write to the home.
    fs::create_dir(fixture.sandbox.home()).unwrap();
    fs::set_permissions(fixture.sandbox.home(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_silent(&run_hook(fixture.hook(), fixture.stop_event().as_bytes()));
    assert!(!fixture.sandbox.home().join("spool").exists());
    // A file is in the place of the spool folder.
    fs::set_permissions(fixture.sandbox.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(fixture.sandbox.home().join("spool"), "").unwrap();
    assert_silent(&run_hook(fixture.hook(), fixture.stop_event().as_bytes()));
}

#[test]
fn hook_is_silent_about_a_full_or_read_only_disk() {
    let fixture = Fixture::new();
    let input = fixture.sandbox.write("said.json", &fixture.stop_event());
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
    fixture.sandbox.set_env(&mut command);
    let root = is_root();
    command
        .env("CLAUDE_CONFIG_DIR", fixture.root())
        .env("SEGNO", fixture.sandbox.binary())
        .env("SAID", input)
        .args([if root { "-m" } else { "-Urm" }, "sh", "-eu", "-c", script]);
    let output = run_to_end(command).expect_success();
    assert_eq!(
        (output.stdout.trim(), output.stderr.as_str()),
        (&*format!("claude-{ID}.json"), "")
    );
}

/// Whether this process is root, which needs no user namespace to mount.
fn is_root() -> bool {
    let mut command = Command::new("id");
    command.arg("-u");
    run_to_end(command).stdout.trim() == "0"
}
