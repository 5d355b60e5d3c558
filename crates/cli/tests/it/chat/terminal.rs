//! A person at a terminal.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use segno_testkit::sandbox::{Sandbox, finish, until};

use super::{commanded, entries, scripted, shown};
use crate::commands::root;

/// A chat in a terminal of its own.
struct Terminal<'a> {
    sandbox: &'a Sandbox,
    /// Its server's own: one that is going down does not answer for the next.
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// Starts segno in it, and waits for the prompt.
    fn start(sandbox: &'a Sandbox, words: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = root(sandbox).join(format!("tmux-{number}"));
        let terminal = Self { sandbox, socket };
        for file in ["over", "closed"] {
            let _ = std::fs::remove_file(sandbox.work().join(file));
        }
        let line = format!(
            "\"$SEGNO\" {words}; echo \"over $?\" > over; while [ ! -e closed ]; do sleep 0.01; done"
        );
        terminal.tmux(&[
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "40",
            "sh",
            "-c",
            &line,
        ]);
        terminal.shows(1, "> ");
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        self.sandbox.furnish(&mut command);
        command
            .env("SEGNO", self.sandbox.binary())
            .env("TERM", "screen-256color")
            .arg("-S")
            .arg(&self.socket)
            .args(["-f", "/dev/null"])
            .args(words);
        finish(command).good().stdout
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-500"])
    }

    /// Waits until so many lines of the screen begin with these words.
    #[track_caller]
    fn shows(&self, times: usize, words: &str) {
        let begins = |line: &&str| line.starts_with(words.trim_end());
        until(&format!("{words:?} is shown {times} times"), || {
            self.screen().lines().filter(begins).count() >= times
        });
    }

    fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Types a line and sends it.
    fn type_line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.shows(1, &format!("> {text}"));
        self.key("Enter");
    }

    /// Waits for the end, and returns the exit code.
    #[track_caller]
    fn over(&self) -> String {
        until("segno has ended", || {
            self.sandbox.read("over").ends_with('\n')
        });
        self.sandbox.read("over").trim().to_owned()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.sandbox.write("closed", "");
        let mut command = Command::new("tmux");
        self.sandbox.furnish(&mut command);
        command.arg("-S").arg(&self.socket).arg("kill-server");
        let _ = command.output();
    }
}

const TALK: &str = "chat --spec bot.yaml --name talk";

#[test]
fn messages_are_typed_and_answered_until_the_person_leaves() {
    for leave in ["/quit", "/pause", "C-d", "C-c"] {
        let sandbox = commanded("");
        let terminal = Terminal::start(&sandbox, TALK);
        terminal.type_line("hello");
        terminal.shows(1, "answer 0");
        until("it waits for the person", || {
            shown(&sandbox)["status"] == "waiting"
        });
        terminal.type_line("/nothing");
        terminal.shows(1, "there is no `/nothing`");
        // A path is no command.
        terminal.type_line("/etc/hosts is what?");
        terminal.shows(1, "answer 1");
        terminal.type_line("/status");
        terminal.shows(1, "talk with bot, 2 messages, 2 turns, 0 tool calls");
        if leave.starts_with('/') {
            terminal.type_line(leave);
        } else {
            terminal.key(leave);
        }
        assert_eq!(terminal.over(), "over 0");
        terminal.shows(1, "`segno chat --session talk` goes on");
        assert_eq!(shown(&sandbox)["status"], "paused", "{leave}");
        assert!(sandbox.read("asked-1").contains("[user] hello"));
    }
}

#[test]
fn whoever_says_nothing_leaves_nothing_behind() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, TALK);
    terminal.key("C-d");
    assert_eq!(terminal.over(), "over 0");
    assert_eq!(crate::commands::standings(&sandbox), []);
}

#[test]
fn what_is_pasted_is_one_message_however_long_it_is() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, TALK);
    // Longer than what a terminal takes as one line by itself.
    let lines: Vec<String> = (0..200)
        .map(|number| format!("{number} {}", "long ".repeat(30)))
        .collect();
    let long = "x".repeat(6000);
    let text = format!("{}\n{long}\nlast", lines.join("\n"));
    let file = sandbox.write("pasted", &text);
    terminal.tmux(&["load-buffer", file.to_str().unwrap()]);
    terminal.tmux(&["paste-buffer", "-p"]);
    terminal.shows(1, "  last");
    assert_eq!(sandbox.calls().len(), 0, "nothing is sent by itself");
    terminal.key("Enter");
    terminal.shows(1, "answer 0");
    let asked = sandbox.read("asked-0");
    assert!(asked.trim_end().ends_with(&text), "{} bytes", asked.len());
}

#[test]
fn ctrl_c_stops_an_answer_and_keeps_the_chat() {
    let sandbox = commanded("if [ $number = 0 ]; then echo $$ > agent.pid; sleep 600; fi");
    let terminal = Terminal::start(&sandbox, TALK);
    terminal.type_line("slow");
    until("the agent is at work", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    terminal.key("C-c");
    terminal.shows(1, "stopped");
    crate::commands::until_gone(sandbox.read("agent.pid").trim());
    assert_eq!(shown(&sandbox)["status"], "waiting");
    terminal.type_line("quick");
    terminal.shows(1, "answer 1");
    let asked = sandbox.read("asked-1");
    assert!(asked.contains("[user] slow\n[user] (The answer to this message was broken off"));
    assert_eq!(entries(&sandbox, "exchange_ended")[0]["ending"], "stopped");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1"]);
}

#[test]
fn what_is_cleared_is_told_to_nobody_and_stays_in_the_journal() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, TALK);
    terminal.type_line("my name is Ada");
    terminal.shows(1, "answer 0");
    terminal.type_line("/clear");
    terminal.shows(1, "forgotten");
    terminal.type_line("who am I?");
    terminal.shows(1, "answer 1");
    assert!(!sandbox.read("asked-1").contains("Ada"));
    assert_eq!(entries(&sandbox, "chat_cleared").len(), 1);
    let said = sandbox.segno(&["sessions", "search", "Ada"]).good();
    assert!(said.stdout.contains("talk"), "{said:?}");
}

#[test]
fn a_chat_that_was_killed_goes_on_with_what_it_was_asked_when_it_is_opened_again() {
    let sandbox = commanded("if [ ! -e go ]; then echo $$ > agent.pid; sleep 600; fi");
    let mut child = sandbox.start(&["chat", "--spec", "bot.yaml", "--name", "talk", "hello"]);
    until("the agent is at work", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.write("go", "");
    for words in ["chat --session talk", "resume talk"] {
        let terminal = Terminal::start(&sandbox, words);
        terminal.shows(1, "chat talk (");
        if words.starts_with("chat") {
            terminal.shows(1, "the last message was not answered to the end");
            terminal.shows(1, "answer 0");
        }
        terminal.type_line("/quit");
        assert_eq!(terminal.over(), "over 0");
    }
    assert_eq!(sandbox.calls(), ["messages/0", "messages/0"]);
}

#[test]
fn a_chat_at_a_prompt_is_paused_when_nothing_was_said_for_a_while() {
    let sandbox = commanded("");
    sandbox.configure("[chat]\nidle_after_s = 1\n");
    let terminal = Terminal::start(&sandbox, TALK);
    terminal.type_line("hello");
    terminal.shows(1, "answer 0");
    until("it is paused", || shown(&sandbox)["status"] == "paused");
    terminal.type_line("still there");
    terminal.shows(1, "answer 1");
    assert_eq!(shown(&sandbox)["chat"]["messages"], 2);
}

#[test]
fn a_terminal_acts_on_nothing_that_an_agent_says() {
    let sandbox = scripted("default: {text: \"\\e]0;owned\\a\\e[2Jdone \\u202Eevil\"}");
    let terminal = Terminal::start(&sandbox, TALK);
    terminal.type_line("hello");
    terminal.shows(1, "␛]0;owned␇␛[2Jdone");
    let title = terminal.tmux(&["display-message", "-p", "#{pane_title}"]);
    assert!(!title.contains("owned"), "{title}");
    assert!(
        terminal.screen().contains("> hello"),
        "nothing was wiped away"
    );
}

#[test]
fn the_terminal_is_as_it_was_when_a_signal_ends_a_chat() {
    // At the prompt, and while an answer that is shown already is written down.
    ended_by_a_signal("waiting", &["paused"]);
    ended_by_a_signal("running", &["paused", "interrupted"]);
}

#[track_caller]
fn ended_by_a_signal(from: &str, then: &[&str]) {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, TALK);
    terminal.type_line("hello");
    terminal.shows(1, "answer 0");
    if from == "waiting" {
        until("it waits", || shown(&sandbox)["status"] == from);
    }
    let pane = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let children = Command::new("pgrep")
        .args(["-P", pane.trim(), "segno"])
        .output()
        .unwrap();
    let pid = String::from_utf8(children.stdout).unwrap();
    Command::new("kill").arg(pid.trim()).status().unwrap();
    assert_eq!(terminal.over(), "over 143");
    let status = shown(&sandbox)["status"].as_str().unwrap().to_owned();
    assert!(then.contains(&status.as_str()), "{status}");
    let tty = terminal.tmux(&["display-message", "-p", "#{pane_tty}"]);
    let modes = Command::new("stty")
        .args(["-a", "-F", tty.trim()])
        .output()
        .unwrap();
    let modes = String::from_utf8(modes.stdout).unwrap();
    let off: Vec<&str> = modes
        .split_whitespace()
        .filter(|mode| ["-icanon", "-isig", "-echo"].contains(mode))
        .collect();
    assert!(
        modes.contains("icanon") && off.is_empty(),
        "{off:?}: {modes}"
    );
}
