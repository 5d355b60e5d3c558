//! A user at a terminal.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use segno_testkit::sandbox::{Sandbox, run_to_end, wait_until};

use super::{commanded, events, scripted, shown};
use crate::commands::root;

/// A chat in its own terminal.
struct Terminal<'a> {
    sandbox: &'a Sandbox,
    /// The socket of its own tmux server: a server that shuts down does not answer for the next
    /// one.
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// Starts segno in the terminal, and waits for the prompt.
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
        terminal.wait_for(1, "> ");
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        self.sandbox.set_env(&mut command);
        command
            .env("SEGNO", self.sandbox.binary())
            .env("TERM", "screen-256color")
            .arg("-S")
            .arg(&self.socket)
            .args(["-f", "/dev/null"])
            .args(words);
        run_to_end(command).expect_success().stdout
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-500"])
    }

    /// Waits until this many lines of the screen start with these words.
    #[track_caller]
    fn wait_for(&self, times: usize, words: &str) {
        let begins = |line: &&str| line.starts_with(words.trim_end());
        wait_until(&format!("{words:?} is shown {times} times"), || {
            self.screen().lines().filter(begins).count() >= times
        });
    }

    fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Types a line and sends it.
    fn type_line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.wait_for(1, &format!("> {text}"));
        self.key("Enter");
    }

    /// Waits until segno has ended, and returns its exit code as `wait_for_exit N`.
    #[track_caller]
    fn wait_for_exit(&self) -> String {
        wait_until("segno has ended", || {
            self.sandbox.read("over").ends_with('\n')
        });
        self.sandbox.read("over").trim().to_owned()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.sandbox.write("closed", "");
        let mut command = Command::new("tmux");
        self.sandbox.set_env(&mut command);
        command.arg("-S").arg(&self.socket).arg("kill-server");
        let _ = command.output();
    }
}

const CHAT: &str = "chat --spec bot.yaml --name talk";

#[test]
fn typed_messages_are_answered_until_the_user_quits() {
    for quit in ["/quit", "/pause", "C-d", "C-c"] {
        let sandbox = commanded("");
        let terminal = Terminal::start(&sandbox, CHAT);
        terminal.type_line("hello");
        terminal.wait_for(1, "answer 0");
        wait_until("it waits for the person", || {
            shown(&sandbox)["status"] == "waiting"
        });
        terminal.type_line("/nothing");
        terminal.wait_for(1, "there is no command `/nothing`");
        // A path is not a command.
        terminal.type_line("/etc/hosts is what?");
        terminal.wait_for(1, "answer 1");
        terminal.type_line("/status");
        terminal.wait_for(1, "talk with bot, 2 messages, 2 turns, 0 tool calls");
        if quit.starts_with('/') {
            terminal.type_line(quit);
        } else {
            terminal.key(quit);
        }
        assert_eq!(terminal.wait_for_exit(), "over 0");
        terminal.wait_for(1, "continue with `segno chat --session talk`");
        assert_eq!(shown(&sandbox)["status"], "paused", "{quit}");
        assert!(sandbox.read("asked-1").contains("[user] hello"));
    }
}

#[test]
fn chat_without_a_message_leaves_no_session() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.key("C-d");
    assert_eq!(terminal.wait_for_exit(), "over 0");
    assert_eq!(crate::commands::session_statuses(&sandbox), []);
}

#[test]
fn pasted_text_is_one_message() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, CHAT);
    // Longer than a terminal itself accepts as one line.
    let lines: Vec<String> = (0..200)
        .map(|number| format!("{number} {}", "long ".repeat(30)))
        .collect();
    let long = "x".repeat(6000);
    let text = format!("{}\n{long}\nlast", lines.join("\n"));
    let file = sandbox.write("pasted", &text);
    terminal.tmux(&["load-buffer", file.to_str().unwrap()]);
    terminal.tmux(&["paste-buffer", "-p"]);
    terminal.wait_for(1, "  last");
    assert_eq!(sandbox.calls().len(), 0, "nothing is sent by itself");
    terminal.key("Enter");
    terminal.wait_for(1, "answer 0");
    let asked = sandbox.read("asked-0");
    assert!(asked.trim_end().ends_with(&text), "{} bytes", asked.len());
}

#[test]
fn ctrl_c_stops_an_answer_and_keeps_the_chat() {
    let sandbox = commanded("if [ $number = 0 ]; then echo $$ > agent.pid; sleep 600; fi");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("slow");
    wait_until("the agent is at work", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    terminal.key("C-c");
    terminal.wait_for(1, "stopped");
    crate::commands::until_gone(sandbox.read("agent.pid").trim());
    assert_eq!(shown(&sandbox)["status"], "waiting");
    terminal.type_line("quick");
    terminal.wait_for(1, "answer 1");
    let asked = sandbox.read("asked-1");
    assert!(asked.contains("[user] slow\n[user] (The answer to this message was interrupted"));
    assert_eq!(events(&sandbox, "exchange_ended")[0]["ending"], "stopped");
    assert_eq!(sandbox.calls(), ["messages/0", "messages/1"]);
}

#[test]
fn cleared_messages_are_not_sent_but_stay_in_the_journal() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("my name is Ada");
    terminal.wait_for(1, "answer 0");
    terminal.type_line("/clear");
    terminal.wait_for(1, "cleared the conversation");
    terminal.type_line("who am I?");
    terminal.wait_for(1, "answer 1");
    assert!(!sandbox.read("asked-1").contains("Ada"));
    assert_eq!(events(&sandbox, "chat_cleared").len(), 1);
    let output = sandbox.segno(&["search", "Ada"]).expect_success();
    assert!(output.stdout.contains("talk"), "{output:?}");
}

#[test]
fn reopened_chat_answers_its_killed_exchange() {
    let sandbox = commanded("if [ ! -e go ]; then echo $$ > agent.pid; sleep 600; fi");
    let mut child = sandbox.start(&["chat", "--spec", "bot.yaml", "--name", "talk", "hello"]);
    wait_until("the agent is at work", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.write("go", "");
    for words in ["chat --session talk", "resume talk"] {
        let terminal = Terminal::start(&sandbox, words);
        terminal.wait_for(1, "chat talk (");
        if words.starts_with("chat") {
            terminal.wait_for(1, "the last message was not fully answered");
            terminal.wait_for(1, "answer 0");
        }
        terminal.type_line("/quit");
        assert_eq!(terminal.wait_for_exit(), "over 0");
    }
    assert_eq!(sandbox.calls(), ["messages/0", "messages/0"]);
}

#[test]
fn idle_prompt_pauses_the_chat() {
    let sandbox = commanded("");
    sandbox.configure("[chat]\nidle_after_s = 1\n");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("hello");
    terminal.wait_for(1, "answer 0");
    wait_until("it is paused", || shown(&sandbox)["status"] == "paused");
    terminal.type_line("still there");
    terminal.wait_for(1, "answer 1");
    assert_eq!(shown(&sandbox)["chat"]["messages"], 2);
}

#[test]
fn agent_output_cannot_control_the_terminal() {
    let sandbox = scripted("default: {text: \"\\e]0;owned\\a\\e[2Jdone \\u202Eevil\"}");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("hello");
    terminal.wait_for(1, "␛]0;owned␇␛[2Jdone");
    let title = terminal.tmux(&["display-message", "-p", "#{pane_title}"]);
    assert!(!title.contains("owned"), "{title}");
    assert!(
        terminal.screen().contains("> hello"),
        "nothing was wiped away"
    );
}

#[test]
fn signal_restores_the_terminal_modes() {
    // At the prompt, and while the journal still commits an answer that is on the screen already.
    assert_signal_restores_terminal("waiting", &["paused"]);
    assert_signal_restores_terminal("running", &["paused", "interrupted"]);
}

#[track_caller]
fn assert_signal_restores_terminal(from: &str, then: &[&str]) {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("hello");
    terminal.wait_for(1, "answer 0");
    if from == "waiting" {
        wait_until("it waits", || shown(&sandbox)["status"] == from);
    }
    let pane = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let children = Command::new("pgrep")
        .args(["-P", pane.trim(), "segno"])
        .output()
        .unwrap();
    let pid = String::from_utf8(children.stdout).unwrap();
    Command::new("kill").arg(pid.trim()).status().unwrap();
    assert_eq!(terminal.wait_for_exit(), "over 143");
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
