//! What a tool call is meant to do, in no vendor's words, and no longer than it must be kept.

use serde_json::Value;

use super::output::cut;
use super::runner::{Runner, View};
use super::shell::{self, Simple, Then};
use super::todo::{self, Change};
use crate::memo::{MOST, Todo};
use crate::model::ToolCall;

/// The longest command, file or input that something is about.
const SUBJECT: usize = 300;

/// Tools that run a command in a shell, whoever has them.
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

/// Programs that say with their status whether they found something.
const SEARCHES: [&str; 17] = [
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "test", "[", "[[", "diff", "cmp", "which",
    "pgrep", "find", "ls", "stat", "type",
];

/// Programs that change nothing about what a status means.
const ASIDE: [&str; 22] = [
    "cd", "echo", "printf", "cat", "head", "tail", "sort", "uniq", "wc", "true", "false", ":",
    "xargs", "sed", "awk", "cut", "tr", "export", "set", "pwd", "fi", "done",
];

/// Programs whose words are believed when they speak of an error though the status does not show it.
const BUILDERS: [&str; 19] = [
    "cargo", "rustc", "make", "ninja", "cmake", "gcc", "g++", "clang", "go", "npm", "yarn", "pnpm",
    "tsc", "npx", "python", "python3", "pip", "mvn", "gradle",
];

/// What a call is meant to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// Run commands.
    Shell(Shell),
    /// Write files.
    Write {
        /// Which.
        paths: Vec<String>,
        /// What it is called when it fails.
        subject: String,
    },
    /// Say what is to do.
    List(Vec<Todo>),
    /// Change one thing that is to do.
    Task(Change),
    /// Anything else.
    Other {
        /// What it is called when it fails.
        subject: String,
    },
}

/// Commands in a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shell {
    /// What they are called when they fail.
    pub(super) subject: String,
    /// As they were typed.
    pub(super) command: String,
    /// What runs tests among them.
    pub(super) tests: Vec<(Runner, View)>,
    /// Whether they only look for something.
    pub(super) searches: bool,
    /// Whether the status is that of what was meant, and not of something after it.
    pub(super) status: Status,
    /// Whether their words about errors are to be believed.
    pub(super) builds: bool,
}

/// Whose status is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// That of what was meant.
    Own,
    /// That of something after it.
    Masked,
}

/// What a call is meant to do.
pub(super) fn deed(call: &ToolCall) -> Deed {
    let name = call.name.to_ascii_lowercase();
    if SHELLS.contains(&name.as_str())
        && let Some((text, commands)) = command(&call.input)
    {
        return Deed::Shell(shell(&text, &commands));
    }
    if let Some(list) = todo::list(&name, &call.input) {
        return Deed::List(list);
    }
    if let Some(change) = todo::change(&name, &call.input) {
        return Deed::Task(change);
    }
    let paths = paths(&call.input);
    let about = match paths.first() {
        Some(path) => path.clone(),
        None => about(&call.input),
    };
    let subject = cut(format!("{} {about}", call.name).trim(), SUBJECT);
    if WRITERS.contains(&name.as_str()) && !paths.is_empty() {
        return Deed::Write { paths, subject };
    }
    Deed::Other { subject }
}

/// The command of a call, as text and taken apart.
fn command(input: &Value) -> Option<(String, Vec<Simple>)> {
    let told = ["command", "cmd", "script"];
    let told = told.into_iter().find_map(|key| input.get(key))?;
    match told {
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
        && programs().all(|program| SEARCHES.contains(&program) || ASIDE.contains(&program));
    Shell {
        subject: subject(text, commands),
        command: cut(text.trim(), SUBJECT),
        tests,
        searches,
        status: status(commands),
        builds: programs().any(|program| BUILDERS.contains(&program)),
    }
}

/// What commands are called, however they are wrapped and however much of their output is looked at: a
/// later try is known by it.
fn subject(text: &str, commands: &[Simple]) -> String {
    let filters = |at: usize| {
        at > 0 && commands[at - 1].then == Then::Pipe && SEARCHES.contains(&commands[at].program())
    };
    let meant = |at: &usize| !ASIDE.contains(&commands[*at].program()) && !filters(*at);
    let told = (0..commands.len()).filter(meant);
    let told: Vec<String> = told.map(|at| commands[at].text()).collect();
    let told = told.join(" && ");
    let told = if told.is_empty() { text } else { &told };
    cut(&in_one_line(told), SUBJECT)
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How much is seen of what the first of these commands writes.
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

/// Whose status is told: that of the last command. One that only shows what another brought hides it.
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
        if !path.is_empty() && paths.len() < MOST && !paths.contains(&path) {
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

/// What a call without a file is about.
fn about(input: &Value) -> String {
    let keys = ["url", "query", "pattern", "title", "description"];
    let told = keys.into_iter().find_map(|key| input[key].as_str());
    match told {
        Some(told) => in_one_line(told),
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

    fn of(name: &str, input: Value) -> Deed {
        let (id, name) = ("c".to_owned(), name.to_owned());
        deed(&ToolCall { id, name, input })
    }

    fn run(command: &str) -> Shell {
        match of("Bash", json!({"command": command})) {
            Deed::Shell(shell) => shell,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_try_of_a_command_has_the_same_subject() {
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
        assert!(matches!(of("shell", list), Deed::Shell(shell) if shell.subject == "make all"));
    }

    #[test]
    fn looking_for_something_is_known_from_doing_something() {
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
    fn a_status_may_be_that_of_something_else() {
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
    fn how_much_is_seen_of_a_runner_is_known() {
        let seen = |line: &str| run(line).tests[0].1;
        assert_eq!(seen("cargo test 2>&1 | tee log"), View::Whole);
        assert_eq!(seen("cargo test 2>&1 | tail -5"), View::End);
        assert_eq!(seen("cargo test | tail -5 | head -1"), View::Part);
        assert_eq!(seen("cargo test | grep result"), View::Part);
        assert_eq!(seen("cargo test > log"), View::Part);
    }

    #[test]
    fn files_are_found_wherever_a_tool_names_them() {
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
                Deed::Write { paths, .. } => assert_eq!(paths, expected),
                other => panic!("{name}: {other:?}"),
            }
        }
        let read = of("Read", json!({"file_path": "a.txt"}));
        assert_eq!(
            read,
            Deed::Other {
                subject: "Read a.txt".into()
            }
        );
    }
}
