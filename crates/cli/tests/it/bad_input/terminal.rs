//! What Segno writes to a terminal.

use std::fs;
use std::process::Command;

use segno_testkit::sandbox::{Sandbox, chain_spec, run_to_end, wait_until};

use crate::commands::{failing_chain, root};
use crate::sandbox;

/// A terminal in which a line of shell runs to its end.
struct Terminal<'a> {
    sandbox: &'a Sandbox,
}

impl Terminal<'_> {
    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        self.sandbox.set_env(&mut command);
        command
            .env("SEGNO", self.sandbox.binary())
            .env("TERM", "screen-256color");
        command
            .arg("-S")
            .arg(root(self.sandbox).join("tmux"))
            .args(["-f", "/dev/null"])
            .args(words);
        run_to_end(command).expect_success().stdout
    }

    /// Starts a line in a terminal of this size, which stays open afterwards.
    fn begin(&self, columns: u16, rows: u16, line: &str) {
        let line = format!(
            "trap : INT; segno() {{ \"$SEGNO\" \"$@\"; }}; {line}; touch over; while [ ! -e closed ]; do sleep 0.01; done"
        );
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&[
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            "sh",
            "-c",
            &line,
        ]);
    }

    /// Waits for the question of the workflow that asks. Nothing is between it and the prompt.
    fn wait_for_question(&self) {
        wait_until("the question stands there", || {
            let screen = self.tmux(&["capture-pane", "-p"]);
            screen
                .trim_end()
                .ends_with("It says: the tide\nPublish it?\n>")
        });
    }

    /// Runs the line and returns what the screen shows.
    fn screen(&self, columns: u16, line: &str) -> String {
        self.begin(columns, 60, line);
        wait_until("the line has run", || {
            self.sandbox.work().join("over").exists()
        });
        let screen = self.tmux(&["capture-pane", "-p"]);
        screen.trim_end().to_owned()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.sandbox.write("closed", "");
        let mut command = Command::new("tmux");
        self.sandbox.set_env(&mut command);
        command
            .arg("-S")
            .arg(root(self.sandbox).join("tmux"))
            .arg("kill-server");
        let _ = command.output();
    }
}

/// Everything that a line of shell writes to its terminal, byte by byte.
fn typescript(sandbox: &Sandbox, line: &str) -> String {
    let mut command = Command::new("script");
    sandbox.set_env(&mut command);
    command
        .env("SEGNO", sandbox.binary())
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    command
        .args(["-q", "-e", "-c", line])
        .arg(root(sandbox).join("typescript"));
    run_to_end(command);
    let bytes = fs::read(root(sandbox).join("typescript")).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Asserts that the output has no control characters except those that redraw the live line.
#[track_caller]
fn assert_harmless(written: &str) {
    let rest = written.replace("\r\u{1b}[2K", "");
    let acts = |c: char| {
        (c.is_control() && !"\r\n\t".contains(c)) || ('\u{202a}'..='\u{202e}').contains(&c)
    };
    assert!(!rest.contains(acts), "{rest:?}");
}

#[test]
fn a_narrow_terminal_shows_one_line_per_session() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "stuck"])
        .refused(10, &[]);
    let terminal = Terminal { sandbox: &sandbox };
    let screen = terminal.screen(20, "segno sessions list");
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines.len(), 2, "{screen}");
    assert_eq!(lines[0], "NAME   STATUS  LAST…");
    assert!(lines[1].starts_with("stuck  failed  "), "{screen}");
}

#[test]
fn questions_are_asked_at_the_terminal() {
    let sandbox = sandbox();
    crate::commands::write_asking_workflow(&sandbox);
    let terminal = Terminal { sandbox: &sandbox };
    terminal.begin(80, 24, "segno run report.yaml");
    terminal.wait_for_question();
    terminal.tmux(&["send-keys", "yes", "Enter"]);
    wait_until("the run is over", || sandbox.work().join("over").exists());
    let screen = terminal.tmux(&["capture-pane", "-p"]);
    assert!(screen.contains("published"), "{screen}");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/2"]);
}

#[test]
fn unknown_outcome_is_asked_at_the_terminal() {
    for (typed, calls, code) in [
        (&["done", "paid"][..], 3, "0"),
        (&["repeat"], 4, "0"),
        (&["later"], 2, "19"),
    ] {
        let sandbox = sandbox();
        crate::commands::waiting_chain(&sandbox, 3, 1);
        let (live, _) = crate::commands::start_waiting(&sandbox, &[]);
        live.kill();
        sandbox.write("go", "");
        let terminal = Terminal { sandbox: &sandbox };
        terminal.begin(
            200,
            24,
            "segno resume chain --in-flight ask; echo $? > code",
        );
        for (number, line) in typed.iter().enumerate() {
            wait_until("the question stands there", || {
                let screen = terminal.tmux(&["capture-pane", "-p"]);
                screen.matches("step steps/1").count() > number && screen.trim_end().ends_with('>')
            });
            terminal.tmux(&["send-keys", line, "Enter"]);
        }
        wait_until("the run is over", || sandbox.work().join("over").exists());
        assert_eq!(sandbox.read("code").trim(), code, "{typed:?}");
        assert_eq!(sandbox.calls().len(), calls, "{typed:?}");
    }
}

#[test]
fn answer_can_be_edited_before_it_is_sent() {
    let sandbox = sandbox();
    crate::commands::write_asking_workflow(&sandbox);
    let terminal = Terminal { sandbox: &sandbox };
    terminal.begin(80, 24, "segno run report.yaml");
    terminal.wait_for_question();
    terminal.tmux(&["send-keys", "-l", "ys"]);
    terminal.tmux(&["send-keys", "Left"]);
    terminal.tmux(&["send-keys", "-l", "e"]);
    terminal.tmux(&["send-keys", "Enter"]);
    wait_until("the run is over", || sandbox.work().join("over").exists());
    let screen = terminal.tmux(&["capture-pane", "-p"]);
    assert!(screen.contains("> yes\n"), "{screen}");
    assert!(screen.contains("published"), "{screen}");
}

#[test]
fn ctrl_c_at_a_question_pauses_and_ctrl_d_leaves_it_open() {
    for (key, code, status) in [("C-c", "130", "paused"), ("C-d", "19", "waiting")] {
        let sandbox = sandbox();
        crate::commands::write_asking_workflow(&sandbox);
        let terminal = Terminal { sandbox: &sandbox };
        let line = "segno run report.yaml; echo $? > code; stty -a > modes";
        terminal.begin(80, 24, line);
        terminal.wait_for_question();
        terminal.tmux(&["send-keys", key]);
        wait_until("the run is over", || sandbox.work().join("over").exists());
        assert_eq!(sandbox.read("code").trim(), code);
        let statuses = crate::commands::session_statuses(&sandbox);
        assert_eq!(statuses, [("report".to_owned(), status.to_owned())]);
        let modes = sandbox.read("modes");
        assert!(
            !modes.contains("-icanon") && !modes.contains("-echo "),
            "{modes}"
        );
    }
}

#[test]
fn narrow_terminal_keeps_no_trace_of_the_live_line() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 300);
    let terminal = Terminal { sandbox: &sandbox };
    let screen = terminal.screen(20, "segno run chain.yaml > answer");
    assert!(!screen.contains(" steps ·"), "{screen}");
    assert!(screen.contains("completed chain"), "{screen}");
    assert_eq!(sandbox.read("answer").len(), 2049);
}

#[test]
fn wide_terminal_shows_the_live_line() {
    let sandbox = sandbox();
    crate::commands::waiting_chain(&sandbox, 2, 1);
    let terminal = Terminal { sandbox: &sandbox };
    terminal.begin(80, 24, "segno run chain.yaml");
    wait_until("the live line shows the second step", || {
        terminal
            .tmux(&["capture-pane", "-p"])
            .contains(" 1/2 steps · steps/1 a ")
    });
    sandbox.write("go", "");
    wait_until("the run is over", || sandbox.work().join("over").exists());
    let screen = terminal.tmux(&["capture-pane", "-p"]);
    assert!(!screen.contains("1/2 steps"), "{screen}");
    assert!(screen.contains("answer of steps/1"), "{screen}");
}

#[test]
fn agent_output_cannot_control_the_terminal() {
    let sandbox = sandbox();
    sandbox.write_script(
        "agent.sh",
        "#!/bin/sh\ncat > /dev/null\nprintf 'a\\033[2Jb\\033]0;title\\007c\\033]52;c;ZXZpbA==\\007d\\302\\23331me\\342\\200\\256f\\n' | tee /dev/stderr\n[ -e well ] || exit 1\n",
    );
    sandbox.write(
        "chain.yaml",
        &chain_spec(
            "{provider: command, command: [./agent.sh], failure_policy: {retries: 0}}",
            2,
        ),
    );
    let written = typescript(&sandbox, "\"$SEGNO\" run chain.yaml");
    assert!(written.contains("title"), "{written:?}");
    assert_harmless(&written);
    sandbox.write("well", "");
    let written = typescript(&sandbox, "\"$SEGNO\" resume");
    assert!(written.contains("[2Jb"), "{written:?}");
    assert_harmless(&written);
    for command in [
        "logs --full",
        "show chain",
        "sessions list",
        "status",
        "show chain --json",
    ] {
        assert_harmless(&typescript(&sandbox, &format!("\"$SEGNO\" {command}")));
    }
    // A file gets the text unchanged.
    sandbox
        .segno(&["run", "chain.yaml", "--force"])
        .expect_success();
    assert!(sandbox.read("artifacts/out.txt").contains('b'));
}

#[test]
fn variables_and_file_names_cannot_control_the_terminal() {
    let sandbox = sandbox();
    crate::commands::scripted(
        &sandbox,
        &["input: \"{{ topic }}\""],
        "answers: [{contains: nothing, text: x}]",
    );
    crate::commands::edit(
        &sandbox,
        "name: chain",
        "name: chain\ninputs: {required: {topic: string}}",
    );
    fs::rename(
        sandbox.work().join("chain.yaml"),
        sandbox.work().join("z\u{1b}[31mb.yaml"),
    )
    .unwrap();
    let written = typescript(
        &sandbox,
        "\"$SEGNO\" run z*.yaml --var topic=\"$(printf '\\033[2Jx\\007')\"",
    );
    assert!(written.contains("no answer for step"), "{written:?}");
    assert_harmless(&written);
    for command in [
        "show chain",
        "logs --full",
        "status",
        "resume",
        "resume \"$(printf 'x\\033[31m')\"",
    ] {
        assert_harmless(&typescript(&sandbox, &format!("\"$SEGNO\" {command}")));
    }
}

#[test]
fn a_terminal_that_cannot_redraw_gets_plain_lines() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 200);
    let written = typescript(&sandbox, "TERM=dumb \"$SEGNO\" run chain.yaml");
    assert!(written.contains("completed chain"), "{written:?}");
    assert!(!written.contains('\u{1b}'), "{written:?}");
}

#[test]
fn doctor_keeps_the_earlier_screen_content() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let terminal = Terminal { sandbox: &sandbox };
    let screen = terminal.screen(80, "echo an earlier line; segno doctor");
    assert!(screen.contains("an earlier line"), "{screen}");
    assert!(!screen.contains("reading session"), "{screen}");
}

#[test]
fn piped_output_is_not_truncated() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let terminal = Terminal { sandbox: &sandbox };
    terminal.screen(20, "segno sessions list | cat > listed");
    assert!(
        !sandbox.read("listed").contains('…'),
        "{}",
        sandbox.read("listed")
    );
}
