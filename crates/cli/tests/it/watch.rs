//! `segno agents watch` mirrors transcripts while they grow.

#![expect(
    clippy::disallowed_methods,
    reason = "a test writes, replaces and deletes transcripts as programs do"
)]

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use segno_testkit::model::{ModelServer, standard};
use segno_testkit::programs::{Agent, AgentSandbox};
use segno_testkit::sandbox::{
    ProcessOutput, Sandbox, deadline, run_to_end, wait_for_output, wait_until,
};
use serde_json::{Value, json};

use crate::sandbox;

/// The binary, and a Claude Code configuration folder that does not exist at first.
struct Fixture {
    sandbox: Sandbox,
}

impl Fixture {
    fn new() -> Self {
        Self { sandbox: sandbox() }
    }

    fn root(&self) -> PathBuf {
        self.sandbox.work().join("claude")
    }

    fn transcript(&self, session: u32) -> PathBuf {
        self.root()
            .join(format!("projects/-work/{}.jsonl", id(session)))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        command.env("CLAUDE_CONFIG_DIR", self.root());
        command
    }

    fn segno(&self, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(words))
    }

    fn watch(&self) -> Watcher {
        Watcher::start(self.command(&["agents", "watch", "--json"]))
    }

    /// Appends a message to a transcript.
    fn append_message(&self, session: u32, turn: u32, words: &str) {
        let path = self.transcript(session);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(self.line(session, turn, words).as_bytes())
            .unwrap();
    }

    fn line(&self, session: u32, turn: u32, words: &str) -> String {
        let uuid = |turn: u32| format!("0a11c0de-0000-4000-8000-{turn:012}");
        let (kind, message) = if turn.is_multiple_of(2) {
            ("user", json!({"role": "user", "content": words}))
        } else {
            let message = json!({
                "id": format!("msg_{turn}"), "type": "message", "role": "assistant",
                "model": "claude-test", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": words}],
                "usage": {"input_tokens": 100, "output_tokens": 7},
            });
            ("assistant", message)
        };
        let line = json!({
            "type": kind, "uuid": uuid(turn), "parentUuid": turn.checked_sub(1).map(uuid),
            "sessionId": id(session), "cwd": self.sandbox.work(), "version": "2.1.325",
            "isSidechain": false, "timestamp": format!("2026-11-15T10:00:{turn:02}.000Z"),
            "message": message,
        });
        format!("{line}\n")
    }

    /// Everything in the journal of a session.
    fn full_log(&self, session: &str) -> String {
        self.segno(&["logs", session, "--full"])
            .expect_success()
            .stdout
    }

    fn sessions(&self) -> usize {
        self.segno(&["sessions", "list", "--all", "--json"])
            .expect_success()
            .json()
            .len()
    }
}

fn id(session: u32) -> String {
    format!("5e550000-0000-4000-8000-{session:012}")
}

/// A running `segno agents watch` process.
struct Watcher {
    child: Child,
    lines: Receiver<Value>,
    seen: RefCell<Vec<Value>>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watcher {
    /// Returns when the process is watching.
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).unwrap());
            }
        });
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        stderr.read_line(&mut first).unwrap();
        assert!(first.starts_with("watching "), "{first}");
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self {
            child,
            lines,
            seen: RefCell::default(),
        }
    }

    /// Waits until a transcript is mirrored up to its current end; returns its session.
    #[track_caller]
    fn wait_until_mirrored(&self, path: &Path) -> String {
        let length = fs::metadata(path).unwrap().len();
        self.wait_for_line(path, |line| line["bytes"] == length)
    }

    /// Waits until the watcher reports a line about this transcript that satisfies `is_wanted`;
    /// returns its session.
    #[track_caller]
    fn wait_for_line(&self, path: &Path, is_wanted: impl Fn(&Value) -> bool) -> String {
        let wanted =
            |line: &&Value| line["file"].as_str().map(Path::new) == Some(path) && is_wanted(line);
        loop {
            if let Some(line) = self.seen.borrow().iter().find(wanted) {
                return line["session"].as_str().unwrap().to_owned();
            }
            let line = self.lines.recv_timeout(deadline());
            self.seen
                .borrow_mut()
                .push(line.expect("it is mirrored in time"));
        }
    }

    fn signal(mut self, signal: Signal) -> std::process::ExitStatus {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
        self.child.wait().unwrap()
    }
}

#[test]
fn mirrored_transcript_survives_its_deletion() {
    let fixture = Fixture::new();
    let watcher = fixture.watch();
    // Not even the folder existed when the watcher started.
    fixture.append_message(1, 0, "Tell me of turnips.");
    let session = watcher.wait_until_mirrored(&fixture.transcript(1));
    fixture.append_message(1, 1, "A turnip is a root.");
    assert_eq!(watcher.wait_until_mirrored(&fixture.transcript(1)), session);
    fixture.append_message(1, 2, "And of beets?");
    watcher.wait_until_mirrored(&fixture.transcript(1));
    fs::remove_file(fixture.transcript(1)).unwrap();
    // The watcher still mirrors another transcript.
    fixture.append_message(2, 0, "Hello.");
    assert_ne!(watcher.wait_until_mirrored(&fixture.transcript(2)), session);
    let log = fixture.full_log(&session);
    for words in [
        "Tell me of turnips.",
        "A turnip is a root.",
        "And of beets?",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(
        watcher.signal(Signal::INT).success(),
        "Ctrl-C is how it ends"
    );
}

#[test]
fn killed_watcher_loses_nothing() {
    let fixture = Fixture::new();
    fixture.append_message(1, 0, "before");
    let watcher = fixture.watch();
    let session = watcher.wait_until_mirrored(&fixture.transcript(1));
    fixture.append_message(1, 1, "Roots under way.");
    watcher.signal(Signal::KILL);
    fixture.append_message(1, 2, "Beets while nobody watched.");
    fixture.append_message(2, 0, "new while nobody watched");
    let watcher = fixture.watch();
    assert_eq!(watcher.wait_until_mirrored(&fixture.transcript(1)), session);
    watcher.wait_until_mirrored(&fixture.transcript(2));
    let log = fixture.full_log(&session);
    for words in ["Roots under way.\"", "| Beets while nobody watched."] {
        assert_eq!(log.matches(words).count(), 1, "{words}: {log}");
    }
    watcher.signal(Signal::TERM);
    assert_eq!(fixture.sessions(), 2);
}

#[test]
fn broken_transcripts_do_not_stop_the_watcher() {
    let fixture = Fixture::new();
    let watcher = fixture.watch();
    fixture.append_message(1, 0, "first");
    let session = watcher.wait_until_mirrored(&fixture.transcript(1));
    fs::write(fixture.transcript(1), "").unwrap();
    fs::write(fixture.transcript(2), "\0\0 not json\n{\"type\":").unwrap();
    fs::rename(fixture.transcript(1), fixture.transcript(3)).unwrap();
    fs::create_dir(fixture.transcript(4)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", fixture.transcript(5)).unwrap();
    fixture.append_message(6, 0, "still there");
    watcher.wait_until_mirrored(&fixture.transcript(6));
    fs::remove_dir_all(fixture.root()).unwrap();
    fixture.append_message(7, 0, "anew");
    watcher.wait_until_mirrored(&fixture.transcript(7));
    assert!(fixture.full_log(&session).contains("first"));
}

#[test]
fn watch_once_mirrors_everything_and_exits() {
    let fixture = Fixture::new();
    for session in 0..5 {
        fixture.append_message(session, 0, "hello");
    }
    let output = fixture
        .segno(&["agents", "watch", "--once", "--json", "claude"])
        .expect_success();
    assert_eq!(output.json().len(), 5, "{}", output.stdout);
    let output = fixture
        .segno(&["agents", "watch", "--once", "--json"])
        .expect_success();
    assert_eq!(output.stdout, "", "nothing is new");
    fixture.append_message(3, 1, "more");
    let output = fixture
        .segno(&["agents", "watch", "--once"])
        .expect_success();
    assert!(
        output.stdout.starts_with("updated ") && output.stdout.contains(&id(3)),
        "{}",
        output.stdout
    );
    assert_eq!(fixture.sessions(), 5);
}

#[test]
fn second_watcher_is_refused() {
    let fixture = Fixture::new();
    let watcher = fixture.watch();
    let who = format!("by process {} since ", watcher.child.id());
    for words in [&["agents", "watch"][..], &["agents", "watch", "--once"]] {
        fixture
            .segno(words)
            .refused(21, &["watched already", &who, "H0103"]);
    }
    watcher.signal(Signal::KILL);
    fixture
        .segno(&["agents", "watch", "--once"])
        .expect_success();
}

#[test]
fn transcript_reported_by_a_hook_is_mirrored_anywhere() {
    let fixture = Fixture::new();
    fixture
        .segno(&["agents", "hooks", "install", "claude"])
        .expect_success();
    fixture.append_message(1, 0, "elsewhere");
    let run_hook = |session: u32| {
        let home = fixture.sandbox.home();
        let mut hook = fixture.command(&["__hook", "claude", home.to_str().unwrap()]);
        let mut child = hook.stdin(Stdio::piped()).spawn().unwrap();
        let event =
            json!({"session_id": id(session), "transcript_path": fixture.transcript(session)});
        child
            .stdin
            .take()
            .unwrap()
            .write_all(event.to_string().as_bytes())
            .unwrap();
        wait_for_output(child).expect_success();
    };
    let spool_files = || {
        fs::read_dir(fixture.sandbox.home().join("spool"))
            .unwrap()
            .count()
    };
    run_hook(1);
    assert_eq!(spool_files(), 1);
    // This watcher watches another folder.
    let mut command = fixture.sandbox.command(&["agents", "watch", "--json"]);
    command.env("CLAUDE_CONFIG_DIR", fixture.sandbox.work().join("nothing"));
    let watcher = Watcher::start(command);
    watcher.wait_until_mirrored(&fixture.transcript(1));
    fixture.append_message(2, 0, "also elsewhere");
    run_hook(2);
    watcher.wait_until_mirrored(&fixture.transcript(2));
    wait_until("the notes are done with", || spool_files() == 0);
}

#[test]
fn transcripts_of_real_agents_are_mirrored() {
    for agent in Agent::ALL {
        let server = ModelServer::scripted([standard()]);
        let (stage, sandbox) = (AgentSandbox::new(&server), sandbox());
        let segno = |words: &[&str]| {
            let mut command = sandbox.command(words);
            command.envs(
                stage
                    .environment()
                    .iter()
                    .map(|(name, value)| (name, value)),
            );
            command
        };
        let watcher = Watcher::start(segno(&["agents", "watch", "--json"]));
        let prompt = format!("Do the task. {}", standard().marker());
        let (status, lines) = agent.start(&stage, &prompt).read_to_end();
        assert!(status.success(), "{lines:#?}");
        let transcript = agent
            .transcript_path(&stage, &agent.session(&lines))
            .unwrap();
        // Programs end their transcripts with records that hold no message, and the watcher reports
        // nothing for those.
        let session = watcher.wait_for_line(&transcript, |_| true);
        let has_the_end = || {
            let log = run_to_end(segno(&["logs", &session, "--full"]))
                .expect_success()
                .stdout;
            log.contains("Done: the plan, three files and a count.")
        };
        wait_until("the end is mirrored", has_the_end);
        fs::remove_file(transcript).unwrap();
        assert!(has_the_end(), "{agent:?}");
    }
}
