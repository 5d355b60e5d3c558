//! What a tool call does, independent of the vendor and in bounded size.

use segno_core::note::{MAX_ITEMS, Todo};
use segno_core::tool::ToolCall;
use serde_json::Value;

use super::output::cut;
use super::runner::{Runner, View};
use super::shell::{self, Simple, Then};
use super::todo::{self, Change};

/// The maximum length of a subject, command or path.
const SUBJECT: usize = 300;

/// Tools of any vendor that run a shell command.
const SHELLS: [&str; 10] = [
    "bash",
    "shell",
    "exec_command",
    "local_shell",
    "execute",
    "run_shell_command",
    "shell_command",
    "container.exec",
    "terminal",
    "run_command",
];

/// Tools that write files.
const WRITERS: [&str; 16] = [
    "write",
    "edit",
    "multiedit",
    "notebookedit",
    "file_write",
    "apply_patch",
    "write_file",
    "replace",
    "create_file",
    "str_replace_editor",
    "str_replace_based_edit_tool",
    "delete",
    "move",
    "patch",
    "edit_file",
    "update",
];

/// Programs whose exit status says whether they found something.
const SEARCHES: [&str; 17] = [
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "test", "[", "[[", "diff", "cmp", "which",
    "pgrep", "find", "ls", "stat", "type",
];

/// Programs that do not change the meaning of an exit status.
const NEUTRAL: [&str; 22] = [
    "cd", "echo", "printf", "cat", "head", "tail", "sort", "uniq", "wc", "true", "false", ":",
    "xargs", "sed", "awk", "cut", "tr", "export", "set", "pwd", "fi", "done",
];

/// Programs whose error messages count even if the exit status does not show the error.
const BUILDERS: [&str; 19] = [
    "cargo", "rustc", "make", "ninja", "cmake", "gcc", "g++", "clang", "go", "npm", "yarn", "pnpm",
    "tsc", "npx", "python", "python3", "pip", "mvn", "gradle",
];

/// What a tool call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Runs commands.
    Shell(Shell),
    /// Writes files.
    Write {
        paths: Vec<String>,
        /// The subject of a failure.
        subject: String,
    },
    /// Sets the todo list.
    List(Vec<Todo>),
    /// Changes one task.
    Task(Change),
    /// Anything else.
    Other {
        /// The subject of a failure.
        subject: String,
    },
}

/// Shell commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shell {
    /// The subject of a failure.
    pub(super) subject: String,
    /// The commands as they were typed.
    pub(super) command: String,
    /// The test runners among the commands.
    pub(super) tests: Vec<(Runner, View)>,
    /// Whether the commands only search for something.
    pub(super) searches: bool,
    /// Whether the exit status is that of the main command, or of a later one.
    pub(super) status: Status,
    /// Whether error messages in the output count.
    pub(super) builds: bool,
}

/// Whose exit status is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// That of the main command.
    Own,
    /// That of a later command.
    Masked,
}

/// Classifies a tool call.
pub(super) fn action(call: &ToolCall) -> Action {
    let name = call.name.to_ascii_lowercase();
    if SHELLS.contains(&name.as_str())
        && let Some((text, commands)) = command(&call.input)
    {
        return Action::Shell(shell(&text, &commands));
    }
    if let Some(list) = todo::list(&name, &call.input) {
        return Action::List(list);
    }
    if let Some(change) = todo::change(&name, &call.input) {
        return Action::Task(change);
    }
    let paths = paths(&call.input);
    let about = match paths.first() {
        Some(path) => path.clone(),
        None => about(&call.input),
    };
    let subject = cut(format!("{} {about}", call.name).trim(), SUBJECT);
    if WRITERS.contains(&name.as_str()) && !paths.is_empty() {
        return Action::Write { paths, subject };
    }
    Action::Other { subject }
}

/// The command of a call, as text and parsed.
fn command(input: &Value) -> Option<(String, Vec<Simple>)> {
    let found = ["command", "cmd", "script"];
    let found = found.into_iter().find_map(|key| input.get(key))?;
    match found {
        Value::String(text) => Some((text.clone(), shell::commands(text))),
        Value::Array(words) => {
            let words = words.iter().filter_map(Value::as_str).map(str::to_owned);
            let words: Vec<String> = words.collect();
            Some((words.join(" "), shell::commands_of(words)))
        }
        _ => None,
    }
}

fn shell(text: &str, commands: &[Simple]) -> Shell {
    let runner = |at: usize| Some((Runner::of(&commands[at])?, view(&commands[at..])));
    let tests: Vec<(Runner, View)> = (0..commands.len()).filter_map(runner).take(8).collect();
    let programs = || commands.iter().map(Simple::program);
    let searches = programs().any(|program| SEARCHES.contains(&program))
        && programs().all(|program| SEARCHES.contains(&program) || NEUTRAL.contains(&program));
    Shell {
        subject: subject(text, commands),
        command: cut(text.trim(), SUBJECT),
        tests,
        searches,
        status: status(commands),
        builds: programs().any(|program| BUILDERS.contains(&program)),
    }
}

/// The subject of a command line, independent of wrappers and output filters: it identifies a later
/// retry of the same command.
fn subject(text: &str, commands: &[Simple]) -> String {
    let filters = |at: usize| {
        at > 0 && commands[at - 1].then == Then::Pipe && SEARCHES.contains(&commands[at].program())
    };
    let meant = |at: &usize| !NEUTRAL.contains(&commands[*at].program()) && !filters(*at);
    let found = (0..commands.len()).filter(meant);
    let found: Vec<String> = found.map(|at| commands[at].text()).collect();
    let found = found.join(" && ");
    let found = if found.is_empty() { text } else { &found };
    cut(&in_one_line(found), SUBJECT)
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How much of the first command's output is visible.
fn view(commands: &[Simple]) -> View {
    let mut view = View::Whole;
    for (at, simple) in commands.iter().enumerate() {
        if simple.redirected {
            return View::Part;
        }
        if at > 0 {
            view = match (simple.program(), view) {
                ("tee" | "cat", view) => view,
                ("tail", _) => View::End,
                _ => return View::Part,
            };
        }
        if simple.then != Then::Pipe {
            break;
        }
    }
    view
}

/// Whose exit status is reported: that of the last command. A command that only shows another one's
/// output masks it.
fn status(commands: &[Simple]) -> Status {
    let masks = |pair: &[Simple]| match pair[0].then {
        Then::Pipe | Then::Or => true,
        Then::Next => !matches!(pair[0].program(), "cd" | "export" | "set" | "source" | "."),
        Then::And | Then::End => false,
    };
    if commands.windows(2).any(masks) {
        Status::Masked
    } else {
        Status::Own
    }
}

/// The files that a call names.
fn paths(input: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    let mut add = |path: &str| {
        let path = cut(path.trim(), SUBJECT);
        if !path.is_empty() && paths.len() < MAX_ITEMS && !paths.contains(&path) {
            paths.push(path);
        }
    };
    for key in ["file_path", "notebook_path", "path", "filePath"] {
        input[key].as_str().into_iter().for_each(&mut add);
    }
    match &input["changes"] {
        Value::Array(changes) => {
            let named = changes.iter().filter_map(|change| change["path"].as_str());
            named.for_each(&mut add);
        }
        Value::Object(changes) => changes.keys().for_each(|path| add(path)),
        _ => {}
    }
    let patch = input.as_str().or_else(|| input["patch"].as_str());
    let patch = patch
        .or_else(|| input["input"].as_str())
        .unwrap_or_default();
    for line in patch.lines().filter_map(|line| line.strip_prefix("*** ")) {
        let heads = ["Add File: ", "Update File: ", "Delete File: ", "Move to: "];
        let path = heads.iter().find_map(|head| line.strip_prefix(head));
        path.into_iter().for_each(&mut add);
    }
    paths
}

/// The subject of a call without a file.
fn about(input: &Value) -> String {
    let keys = ["url", "query", "pattern", "title", "description"];
    let found = keys.into_iter().find_map(|key| input[key].as_str());
    match found {
        Some(found) => in_one_line(found),
        None if input.as_object().is_none_or(serde_json::Map::is_empty) => String::new(),
        None => {
            let text = input.to_string();
            text[..text.floor_char_boundary(4 * SUBJECT)].to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(name: &str, input: Value) -> Action {
        let (id, name) = ("c".to_owned(), name.to_owned());
        action(&ToolCall { id, name, input })
    }

    fn run(command: &str) -> Shell {
        match of("Bash", json!({"command": command})) {
            Action::Shell(shell) => shell,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn retried_command_has_the_same_subject() {
        for line in [
            "cargo test -p core",
            "cd /x && cargo test -p core 2>&1 | tail -20",
            "bash -lc 'RUST_BACKTRACE=1 timeout 60 cargo test  -p core'",
        ] {
            assert_eq!(run(line).subject, "cargo test -p core", "{line}");
        }
        assert_eq!(run("cat a.txt").subject, "cat a.txt");
        assert_eq!(run("").subject, "");
        let list = json!({"command": ["bash", "-lc", "make all"]});
        assert!(matches!(of("shell", list), Action::Shell(shell) if shell.subject == "make all"));
    }

    #[test]
    fn searches_are_distinguished_from_actions() {
        for line in [
            "grep -r x .",
            "cd a && rg x | head -3",
            "test -f x",
            "diff a b; echo $?",
        ] {
            assert!(run(line).searches, "{line}");
        }
        for line in ["make && grep x y", "cat x", "cargo test | grep FAILED"] {
            assert!(!run(line).searches, "{line}");
        }
        assert_eq!(run("cargo test | grep FAILED").subject, "cargo test");
    }

    #[test]
    fn status_of_a_later_command_is_masked() {
        for line in [
            "cargo test",
            "cd x && cargo test",
            "cd x; cargo test",
            "a && b",
        ] {
            assert_eq!(run(line).status, Status::Own, "{line}");
        }
        for line in [
            "cargo test | tail",
            "cargo test || true",
            "cargo test; echo $?",
        ] {
            assert_eq!(run(line).status, Status::Masked, "{line}");
        }
    }

    #[test]
    fn visible_part_of_runner_output_is_known() {
        let seen = |line: &str| run(line).tests[0].1;
        assert_eq!(seen("cargo test 2>&1 | tee log"), View::Whole);
        assert_eq!(seen("cargo test 2>&1 | tail -5"), View::End);
        assert_eq!(seen("cargo test | tail -5 | head -1"), View::Part);
        assert_eq!(seen("cargo test | grep result"), View::Part);
        assert_eq!(seen("cargo test > log"), View::Part);
    }

    #[test]
    fn paths_are_found_in_every_tool_input() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n@@\n*** End Patch";
        for (name, input, expected) in [
            (
                "Write",
                json!({"file_path": "/w/a", "content": "path"}),
                vec!["/w/a"],
            ),
            ("NotebookEdit", json!({"notebook_path": "n"}), vec!["n"]),
            ("file_write", json!({"path": "p"}), vec!["p"]),
            (
                "apply_patch",
                json!({"changes": [{"path": "x"}, {"path": "y"}]}),
                vec!["x", "y"],
            ),
            ("edit", json!({"changes": {"x": {}}}), vec!["x"]),
            ("apply_patch", json!(patch), vec!["a.rs", "b.rs"]),
        ] {
            match of(name, input) {
                Action::Write { paths, .. } => assert_eq!(paths, expected),
                other => panic!("{name}: {other:?}"),
            }
        }
        let read = of("Read", json!({"file_path": "a.txt"}));
        assert_eq!(
            read,
            Action::Other {
                subject: "Read a.txt".into()
            }
        );
    }
}
