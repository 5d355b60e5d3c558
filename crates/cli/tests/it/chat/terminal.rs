//! A user at a terminal.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use segno_testkit::model::{ModelResponse, ModelServer};
use segno_testkit::sandbox::{Sandbox, run_to_end, wait_until};
use serde_json::json;

use super::{commanded, events, scripted, shown};
use crate::commands::{root, tree};

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
            "trap : INT; \"$SEGNO\" {words}; echo \"over $?\" > over; while [ ! -e closed ]; do sleep 0.01; done"
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
            .env("ANTHROPIC_API_KEY", "key-for-tests-only-1")
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

    /// Types text without sending it.
    fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Sends the message, and returns what the agent received as its number-th message.
    #[track_caller]
    fn send(&self, number: usize) -> String {
        self.key("Enter");
        self.wait_for(1, &format!("answer {number}"));
        let asked = self.sandbox.read(&format!("asked-{number}"));
        asked.trim_end().to_owned()
    }

    /// Types a line and sends it.
    fn type_line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.wait_for(1, &format!("> {text}"));
        self.key("Enter");
    }

    /// The modes of the terminal, as `stty` shows them.
    fn modes(&self) -> String {
        let tty = self.tmux(&["display-message", "-p", "#{pane_tty}"]);
        let mut command = Command::new("stty");
        command.args(["-a", "-F", tty.trim()]);
        run_to_end(command).expect_success().stdout
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
fn cursor_moves_inside_the_message() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_text("go漢字 it");
    for _ in 0..4 {
        terminal.key("Left");
    }
    terminal.key("BSpace");
    terminal.type_text("é");
    terminal.key("Home");
    terminal.type_text("let's ");
    terminal.key("C-Right");
    terminal.type_text("!");
    terminal.wait_for(1, "> let's goé字! it");
    // Behind `字!`, by columns: the wide character counts twice.
    let cursor = terminal.tmux(&["display-message", "-p", "#{cursor_x}"]);
    assert_eq!(cursor.trim(), "14");
    terminal.key("M-Enter");
    terminal.wait_for(1, "   it");
    assert!(terminal.send(0).ends_with("let's goé字!\n it"));
    // The next line is free again.
    terminal.type_text("x");
    terminal.wait_for(1, "> x");
}

#[test]
fn arrow_up_brings_earlier_messages_back() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_text("first");
    terminal.send(0);
    terminal.type_text("second");
    terminal.send(1);
    terminal.type_text("draft");
    terminal.wait_for(1, "> draft");
    terminal.key("Up");
    terminal.wait_for(2, "> second");
    terminal.key("Up");
    terminal.wait_for(2, "> first");
    for _ in 0..2 {
        terminal.key("Down");
    }
    terminal.wait_for(1, "> draft");
    terminal.key("Up");
    terminal.key("Up");
    terminal.type_text(" again");
    terminal.wait_for(1, "> first again");
    assert!(terminal.send(2).ends_with("first again"));
    // Typed text may contain secrets: only the journal has it, after redaction.
    let home = sandbox.home().parent().unwrap().to_owned();
    let named = |path: &PathBuf| path.to_string_lossy().contains("history");
    assert_eq!(tree(&home).into_iter().find(named), None);
}

#[test]
fn lines_of_an_answer_appear_above_what_is_typed() {
    let sandbox = scripted_in_pieces();
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("hello");
    terminal.wait_for(1, "line 1");
    terminal.type_text("the next question is long");
    terminal.key("C-a");
    terminal.wait_for(1, "> the next question is long");
    sandbox.write("go", "");
    // The prompt is drawn again below each piece of the answer, so a screen may be without it.
    let mut screen = String::new();
    wait_until("the answer and the typed text are shown", || {
        screen = terminal.screen();
        screen.contains("line 60") && screen.contains("> the next question is long")
    });
    let lines: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
    let shown: Vec<&&str> = lines
        .iter()
        .filter(|line| line.starts_with("line "))
        .collect();
    let expected: Vec<String> = (1..=60).map(|number| format!("line {number}")).collect();
    assert_eq!(shown, expected.iter().collect::<Vec<_>>(), "{screen}");
    let typed = lines.iter().filter(|line| line.contains("question"));
    assert_eq!(typed.collect::<Vec<_>>(), [&"> the next question is long"]);
    terminal.type_text("and ");
    assert!(terminal.send(1).ends_with("and the next question is long"));
}

/// A sandbox whose agent writes a line, waits for the file `go`, and writes 59 more.
fn scripted_in_pieces() -> Sandbox {
    commanded(
        "if [ $number = 0 ]; then echo line 1; while [ ! -e go ]; do sleep 0.01; done; for n in $(seq 2 60); do echo line $n; done; fi",
    )
}

#[test]
fn resized_terminal_shows_the_typed_text_once() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, CHAT);
    let text: Vec<String> = (10..40).map(|number| format!("word{number}")).collect();
    let text = text.join("-");
    terminal.type_text(&text);
    terminal.wait_for(1, "> word10");
    for (columns, rows) in [("40", "12"), ("200", "50"), ("30", "24"), ("80", "24")] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", rows]);
        wait_until("the text fits the width", || {
            // Not the lines that the terminal itself moved into its scrollback.
            let screen = terminal.tmux(&["capture-pane", "-p"]);
            let start = screen.find("> word10").unwrap_or_default();
            let shown = screen[start..].replace('\n', "");
            let longest = screen.lines().map(str::len).max().unwrap_or_default();
            let width: usize = columns.parse().unwrap();
            shown == format!("> {text}") && longest == (width - 1).min(text.len() + 2)
        });
    }
    assert!(terminal.send(0).ends_with(&text));
}

#[test]
fn text_typed_before_a_question_does_not_answer_it() {
    let sandbox = crate::sandbox();
    let go = sandbox.work().join("go");
    let server = ModelServer::start(move |number, _| {
        if number > 0 {
            return ModelResponse::Text(format!("answer {number}"));
        }
        wait_until("the user has typed", || go.exists());
        let input = json!({"path": "a.txt", "content": "done"});
        ModelResponse::Tools(String::new(), vec![("file_write".into(), input)])
    });
    let runtime = format!(
        "provider: anthropic, model_id: small-1, host: \"{}\"",
        server.host()
    );
    super::spec(&sandbox, &runtime);
    let spec = sandbox.read("bot.yaml");
    let spec = spec.replace("are brief.", "are brief., permissions: {file_write: ask}");
    sandbox.write("bot.yaml", &(spec + "tools: {python: [file_write]}\n"));
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("write it");
    wait_until("the model is asked", || !server.requests().is_empty());
    terminal.type_line("yes");
    terminal.type_text("half a mess");
    terminal.wait_for(1, "> half a mess");
    sandbox.write("go", "");
    terminal.wait_for(1, "?");
    assert!(!sandbox.work().join("a.txt").exists());
    terminal.type_text("no");
    terminal.wait_for(1, "? no");
    terminal.key("Enter");
    // The typed text is the next message, and the unfinished one is still there.
    terminal.wait_for(1, "answer 2");
    terminal.wait_for(1, "> half a mess");
    let sent = server.requests()[2].last_message();
    assert!(sent.contains("yes"), "{sent}");
    assert!(!sandbox.work().join("a.txt").exists());
}

#[test]
fn shell_is_usable_after_a_kill_at_the_prompt() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, "--version; PS1='> ' exec bash --norc -i");
    terminal.type_line("\"$SEGNO\" chat --spec bot.yaml");
    terminal.wait_for(1, "`/help`");
    terminal.type_text("half a mess");
    terminal.wait_for(1, "> half a mess");
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    kill(&["-KILL", &child(shell.trim())]);
    terminal.wait_for(1, "> half a messKilled");
    terminal.type_text("echo $((6*7)); stty -a > modes");
    // The shell shows what is typed.
    terminal.wait_for(1, "> echo $((6*7)); stty -a > modes");
    terminal.key("Enter");
    terminal.wait_for(1, "42");
    // `stty` runs after the shell has printed.
    wait_until("the modes are written", || {
        sandbox.read("modes").ends_with('\n')
    });
    assert_usable(&sandbox.read("modes"));
}

#[test]
fn second_ctrl_c_restores_the_terminal_modes() {
    let sandbox = commanded("trap '' TERM INT; echo $$ > agent.pid; sleep 600");
    let terminal = Terminal::start(&sandbox, CHAT);
    terminal.type_line("slow");
    wait_until("the agent is at work", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    // Two signals that arrive at the same time count as one, so it is pressed until it worked.
    wait_until("segno has ended", || {
        terminal.key("C-c");
        sandbox.read("over").ends_with('\n')
    });
    assert_usable(&terminal.modes());
}

#[test]
fn stdout_gets_the_answers_and_nothing_else() {
    let sandbox = commanded("");
    let terminal = Terminal::start(&sandbox, "chat --spec bot.yaml --name talk > answers");
    terminal.type_line("hello");
    wait_until("it is answered", || sandbox.read("answers") == "answer 0\n");
    terminal.type_line("/quit");
    assert_eq!(terminal.wait_for_exit(), "over 0");
    assert_eq!(sandbox.read("answers"), "answer 0\n");
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
    kill(&[&child(pane.trim())]);
    assert_eq!(terminal.wait_for_exit(), "over 143");
    let status = shown(&sandbox)["status"].as_str().unwrap().to_owned();
    assert!(then.contains(&status.as_str()), "{status}");
    assert_usable(&terminal.modes());
}

/// The pid of the segno that a shell runs.
fn child(shell: &str) -> String {
    let children = Command::new("pgrep").args(["-P", shell, "segno"]).output();
    String::from_utf8(children.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

fn kill(words: &[&str]) {
    Command::new("kill").args(words).status().unwrap();
}

/// Asserts that a terminal with these modes shows what is typed and sends signals.
#[track_caller]
fn assert_usable(modes: &str) {
    let off: Vec<&str> = modes
        .split_whitespace()
        .filter(|mode| ["-icanon", "-isig", "-echo"].contains(mode))
        .collect();
    assert!(
        modes.contains("icanon") && off.is_empty(),
        "{off:?}: {modes}"
    );
}
