//! Transcripts mirrored while they grow, by the real binary.

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
use segno_testkit::programs::{Agent, Stage};
use segno_testkit::sandbox::{Said, Sandbox, deadline, finish, until, wait};
use serde_json::{Value, json};

use crate::sandbox;

/// The binary, and a folder that Claude Code keeps everything in, which is not there at first.
struct Set {
    sandbox: Sandbox,
}

impl Set {
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

    fn segno(&self, words: &[&str]) -> Said {
        finish(self.command(words))
    }

    fn watch(&self) -> Watcher {
        Watcher::start(self.command(&["watch", "--json"]))
    }

    /// Adds something that was said.
    fn say(&self, session: u32, turn: u32, words: &str) {
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
        let record = |turn: u32| format!("0a11c0de-0000-4000-8000-{turn:012}");
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
            "type": kind, "uuid": record(turn), "parentUuid": turn.checked_sub(1).map(record),
            "sessionId": id(session), "cwd": self.sandbox.work(), "version": "2.1.325",
            "isSidechain": false, "timestamp": format!("2026-11-15T10:00:{turn:02}.000Z"),
            "message": message,
        });
        format!("{line}\n")
    }

    /// Everything that is kept of a session.
    fn kept(&self, session: &str) -> String {
        self.segno(&["logs", session, "--full"]).good().stdout
    }

    fn sessions(&self) -> usize {
        self.segno(&["sessions", "list", "--all", "--json"])
            .good()
            .json()
            .len()
    }
}

fn id(session: u32) -> String {
    format!("5e550000-0000-4000-8000-{session:012}")
}

/// A watcher that runs.
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
    /// Returns when it watches.
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

    /// Waits until a transcript was mirrored up to its present end; returns its session.
    #[track_caller]
    fn mirrors(&self, path: &Path) -> String {
        let length = fs::metadata(path).unwrap().len();
        self.tells(path, |line| line["bytes"] == length)
    }

    /// Waits until something of a transcript was mirrored that is as wanted; returns its session.
    #[track_caller]
    fn tells(&self, path: &Path, is_wanted: impl Fn(&Value) -> bool) -> String {
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
fn a_transcript_is_mirrored_while_it_grows_and_kept_when_it_is_gone() {
    let set = Set::new();
    let watcher = set.watch();
    // Not even the folder was there when it began.
    set.say(1, 0, "Tell me of turnips.");
    let session = watcher.mirrors(&set.transcript(1));
    set.say(1, 1, "A turnip is a root.");
    assert_eq!(watcher.mirrors(&set.transcript(1)), session);
    set.say(1, 2, "And of beets?");
    watcher.mirrors(&set.transcript(1));
    fs::remove_file(set.transcript(1)).unwrap();
    // Another one goes on being mirrored.
    set.say(2, 0, "Hello.");
    assert_ne!(watcher.mirrors(&set.transcript(2)), session);
    let kept = set.kept(&session);
    for words in [
        "Tell me of turnips.",
        "A turnip is a root.",
        "And of beets?",
    ] {
        assert!(kept.contains(words), "{words}: {kept}");
    }
    assert!(
        watcher.signal(Signal::INT).success(),
        "Ctrl-C is how it ends"
    );
}

#[test]
fn nothing_is_lost_when_the_watcher_is_killed() {
    let set = Set::new();
    set.say(1, 0, "before");
    let watcher = set.watch();
    let session = watcher.mirrors(&set.transcript(1));
    set.say(1, 1, "Roots under way.");
    watcher.signal(Signal::KILL);
    set.say(1, 2, "Beets while nobody watched.");
    set.say(2, 0, "new while nobody watched");
    let watcher = set.watch();
    assert_eq!(watcher.mirrors(&set.transcript(1)), session);
    watcher.mirrors(&set.transcript(2));
    let kept = set.kept(&session);
    for words in ["Roots under way.", "Beets while nobody watched."] {
        let said = format!("\"text\":\"{words}\"");
        assert_eq!(kept.matches(&said).count(), 1, "{words}: {kept}");
    }
    watcher.signal(Signal::TERM);
    assert_eq!(set.sessions(), 2);
}

#[test]
fn what_is_emptied_replaced_renamed_or_nonsense_does_not_stop_it() {
    let set = Set::new();
    let watcher = set.watch();
    set.say(1, 0, "first");
    let session = watcher.mirrors(&set.transcript(1));
    fs::write(set.transcript(1), "").unwrap();
    fs::write(set.transcript(2), "\0\0 not json\n{\"type\":").unwrap();
    fs::rename(set.transcript(1), set.transcript(3)).unwrap();
    fs::create_dir(set.transcript(4)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", set.transcript(5)).unwrap();
    set.say(6, 0, "still there");
    watcher.mirrors(&set.transcript(6));
    fs::remove_dir_all(set.root()).unwrap();
    set.say(7, 0, "anew");
    watcher.mirrors(&set.transcript(7));
    assert!(set.kept(&session).contains("first"));
}

#[test]
fn one_round_takes_what_is_there_and_ends() {
    let set = Set::new();
    for session in 0..5 {
        set.say(session, 0, "hello");
    }
    let said = set.segno(&["watch", "--once", "--json", "claude"]).good();
    assert_eq!(said.json().len(), 5, "{}", said.stdout);
    let said = set.segno(&["watch", "--once", "--json"]).good();
    assert_eq!(said.stdout, "", "nothing is new");
    set.say(3, 1, "more");
    let said = set.segno(&["watch", "--once"]).good();
    assert!(
        said.stdout.starts_with("updated ") && said.stdout.contains(&id(3)),
        "{}",
        said.stdout
    );
    assert_eq!(set.sessions(), 5);
}

#[test]
fn there_is_one_watcher_at_a_time() {
    let set = Set::new();
    let watcher = set.watch();
    let who = format!("by process {} since ", watcher.child.id());
    for words in [&["watch"][..], &["watch", "--once"]] {
        set.segno(words)
            .refused(21, &["watched already", &who, "H0103"]);
    }
    watcher.signal(Signal::KILL);
    set.segno(&["watch", "--once"]).good();
}

#[test]
fn what_a_hook_told_of_is_mirrored_wherever_it_is() {
    let set = Set::new();
    set.segno(&["hooks", "install", "claude"]).good();
    set.say(1, 0, "elsewhere");
    let tell = |session: u32| {
        let home = set.sandbox.home();
        let mut hook = set.command(&["__hook", "claude", home.to_str().unwrap()]);
        let mut child = hook.stdin(Stdio::piped()).spawn().unwrap();
        let said = json!({"session_id": id(session), "transcript_path": set.transcript(session)});
        child
            .stdin
            .take()
            .unwrap()
            .write_all(said.to_string().as_bytes())
            .unwrap();
        wait(child).good();
    };
    let notes = || {
        fs::read_dir(set.sandbox.home().join("spool"))
            .unwrap()
            .count()
    };
    tell(1);
    assert_eq!(notes(), 1);
    // This one looks at another folder.
    let mut command = set.sandbox.command(&["watch", "--json"]);
    command.env("CLAUDE_CONFIG_DIR", set.sandbox.work().join("nothing"));
    let watcher = Watcher::start(command);
    watcher.mirrors(&set.transcript(1));
    set.say(2, 0, "also elsewhere");
    tell(2);
    watcher.mirrors(&set.transcript(2));
    until("the notes are done with", || notes() == 0);
}

#[test]
fn what_real_agents_do_by_themselves_is_kept() {
    for agent in Agent::ALL {
        let server = ModelServer::scripted([standard()]);
        let (stage, sandbox) = (Stage::new(&server), sandbox());
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
        let watcher = Watcher::start(segno(&["watch", "--json"]));
        let prompt = format!("Do the task. {}", standard().marker());
        let (status, lines) = agent.start(&stage, &prompt).end();
        assert!(status.success(), "{lines:#?}");
        let record = agent.record(&stage, &agent.session(&lines)).unwrap();
        // Programs end their records with notes in which nothing is said, and nothing is told of these.
        let session = watcher.tells(&record, |_| true);
        let has_the_end = || {
            let kept = finish(segno(&["logs", &session, "--full"])).good().stdout;
            kept.contains("Done: the plan, three files and a count.")
        };
        until("the end is mirrored", has_the_end);
        fs::remove_file(record).unwrap();
        assert!(has_the_end(), "{agent:?}");
    }
}
