//! `python_exec`: code that a model wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_agents::BuiltinTools;
use segno_core::tool::ToolCall;
use segno_core::tool::Tools;
use serde_json::{Value, json};

use super::{ManualClock, ask, assert_problem, gear};
use crate::fixture::{processes_with, runtime, until};

/// Starts a child in a session of its own that holds the pipes, prints a line, and stays.
const STUBBORN: &str = "
import subprocess, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(['sleep', '1000'], start_new_session=True)
open('ready', 'w').close()
time.sleep(1000)
";

struct Workspace {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    tools: BuiltinTools,
}

impl Workspace {
    fn new() -> Self {
        let clock = Arc::<ManualClock>::default();
        Self {
            folder: tempfile::tempdir().unwrap(),
            tools: BuiltinTools::new(&["python_exec".to_owned()], gear(&[], &clock)),
            clock,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn run(&self, input: Value) -> Result<String, String> {
        ask(&self.tools, "python_exec", input, self.folder.path())
    }

    fn code(&self, code: &str) -> Result<String, String> {
        self.run(json!({"code": code}))
    }

    /// The running processes of this workspace, including the guard.
    fn processes(&self) -> Vec<i32> {
        living_in(&self.path())
    }
}

fn living_in(folder: &Path) -> Vec<i32> {
    processes_with(&format!("HOME={}", folder.display()))
}

#[test]
fn code_runs_in_the_workspace_and_returns_output() {
    let workspace = Workspace::new();
    let output = workspace.code("import os\nprint(os.getcwd(), 'für', 6 * 7)");
    let expected = format!("{} für 42\n", workspace.path().display());
    assert_eq!(output.unwrap(), expected);
    let output = workspace.code("open('made.txt', 'w').write('x')");
    assert_eq!(output.unwrap(), "the code ran and printed nothing");
    assert!(workspace.path().join("made.txt").exists());
    assert_eq!(workspace.clock.asked(), [30, 30]);
}

#[test]
fn failed_code_returns_output_and_error() {
    let workspace = Workspace::new();
    let problem = workspace.code("print('so far')\n1 / 0").unwrap_err();
    let start = "so far\n`python3` exited with code 1: Traceback";
    assert!(problem.starts_with(start), "{problem}");
    assert!(
        problem.ends_with("ZeroDivisionError: division by zero"),
        "{problem}"
    );
    assert_problem(&workspace.code("print('never'"), "SyntaxError");
    let killed = workspace.code("import os\nos.kill(os.getpid(), 9)");
    assert_eq!(killed.unwrap_err(), "`python3` was killed by signal 9");
}

#[test]
fn bad_input_is_refused() {
    let workspace = Workspace::new();
    for (input, problem) in [
        (json!({}), "`code` is missing"),
        (json!({"code": 1}), "`code` must be of type string"),
        (
            json!({"code": "", "timeout": 0}),
            "`timeout` must be from 1 to 300",
        ),
        (
            json!({"code": "", "timeout": 301}),
            "`timeout` must be from 1 to 300",
        ),
    ] {
        assert_problem(&workspace.run(input), problem);
    }
}

#[test]
fn code_timeout_kills_the_whole_process_tree() {
    let workspace = Workspace::new();
    let (folder, clock) = (workspace.path(), Arc::clone(&workspace.clock));
    let watcher = std::thread::spawn(move || {
        until("the child is there", || folder.join("ready").exists());
        let living = living_in(&folder).len();
        clock.advance();
        living
    });
    let ended = workspace.run(json!({"code": STUBBORN, "timeout": 300}));
    let expected = "`python3` was killed: it ran longer than 300 seconds";
    assert_eq!(ended.unwrap_err(), expected);
    assert_eq!(workspace.processes(), [0; 0], "still there");
    let living = watcher.join().unwrap();
    assert!(living >= 3, "guard, code and child, but: {living}");
    assert_eq!(workspace.clock.asked(), [300]);
}

#[test]
fn dropped_code_leaves_no_process() {
    let workspace = Workspace::new();
    let folder = workspace.path();
    let call = ToolCall {
        id: "1".to_owned(),
        name: "python_exec".to_owned(),
        input: json!({"code": STUBBORN}),
    };
    runtime().block_on(async {
        let there = folder.clone();
        let ready = tokio::task::spawn_blocking(move || {
            until("the child is there", || there.join("ready").exists());
        });
        tokio::select! {
            result = workspace.tools.run(&call, &folder) => panic!("ended: {result:?}"),
            seen = ready => seen.unwrap(),
        }
    });
    until("all are gone", || workspace.processes().is_empty());
}

#[test]
fn finished_code_leaves_no_process() {
    let workspace = Workspace::new();
    let output = workspace.code(&STUBBORN.replace("time.sleep(1000)", "print('done')"));
    assert_eq!(output.unwrap(), "done\n");
    assert_eq!(workspace.processes(), [0; 0]);
}

#[test]
fn endless_output_kills_the_code() {
    let workspace = Workspace::new();
    let ended = workspace.code("while True: print('x' * 1000)");
    assert_problem(
        &ended,
        "`python3` was killed: its answer has more than 1048576 bytes",
    );
    assert_eq!(workspace.processes(), [0; 0]);
    let output = workspace.code("import sys; sys.stdout.write('x' * 1048576)");
    assert_eq!(output.unwrap().len(), 1 << 20);
}

#[test]
fn code_does_not_see_the_environment() {
    let ours = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(ours).is_some(), "nothing to hide");
    let workspace = Workspace::new();
    // A python that is a wrapper script sets variables itself, so the test checks the environment
    // of the guard, from which it is inherited.
    let output = workspace.code(
        "import os
guard = open(f'/proc/{os.getppid()}/environ').read().strip('\\0').split('\\0')
print(sorted(variable.split('=')[0] for variable in guard))
print(os.environ['HOME'])
print('CARGO_MANIFEST_DIR' in os.environ)",
    );
    let home = workspace.path();
    let expected = format!(
        "['HOME', 'LANG', 'PATH', 'TMPDIR']\n{}\nFalse\n",
        home.display()
    );
    assert_eq!(output.unwrap(), expected);
}

/// Code that tries to write, to signal and to look outside, and prints what it could do.
const ESCAPES: &str = "
import os, signal, sys, tempfile
outside, owner = OUTSIDE, OWNER
def attempt(name, act):
    try:
        act()
        print(name)
    except OSError:
        pass
attempt('create', lambda: open(outside + '/new', 'w'))
attempt('overwrite', lambda: open(outside + '/file', 'r+'))
attempt('truncate', lambda: os.truncate(outside + '/file', 0))
attempt('remove', lambda: os.remove(outside + '/file'))
attempt('rename', lambda: os.rename(outside + '/file', 'file'))
attempt('signal', lambda: os.kill(owner, 0))
# Root may read this in any case.
if os.getuid():
    attempt('environment', lambda: open(f'/proc/{owner}/environ').read())
open('inside', 'w').write('x')
os.rename('inside', 'renamed')
os.makedirs('a/b')
os.rename('renamed', 'a/b/c')
tempfile.NamedTemporaryFile().write(b'x')
open('/dev/null', 'w').write('x')
print(open(outside + '/file').read())
";

fn escapes(outside: &Path) -> String {
    let owner = std::process::id().to_string();
    let outside = format!("'{}'", outside.display());
    ESCAPES
        .replace("OUTSIDE", &outside)
        .replace("OWNER", &owner)
}

#[test]
fn code_writes_only_inside_the_workspace() {
    let (workspace, outside) = (Workspace::new(), tempfile::tempdir().unwrap());
    crate::fixture::write(&outside.path().join("file"), b"kept");
    let output = workspace.code(&escapes(outside.path()));
    if !has_landlock() {
        return;
    }
    assert_eq!(output.unwrap(), "kept\n");
    assert!(workspace.path().join("a/b/c").exists());
    assert_eq!(crate::fixture::read(outside.path().join("file")), b"kept");
}

#[test]
fn user_can_allow_code_to_write_anywhere() {
    let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut gear = gear(&[], &Arc::default());
    gear.confine_programs = false;
    let tools = BuiltinTools::new(&["python_exec".to_owned()], gear);
    let code = format!("open('{}/new', 'w').write('x')", outside.path().display());
    ask(
        &tools,
        "python_exec",
        json!({"code": code}),
        workspace.path(),
    )
    .unwrap();
    assert!(outside.path().join("new").exists());
}

/// Whether this kernel can restrict signals, too: the newest restriction that is used.
fn has_landlock() -> bool {
    use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset
        .scope(Scope::Signal)
        .and_then(Ruleset::create)
        .is_ok()
}

#[test]
fn workspace_files_are_not_imported() {
    let workspace = Workspace::new();
    crate::fixture::write(&workspace.path().join("json.py"), b"print('planted')");
    let output = workspace.code("import json; print(json.dumps([1]))");
    assert_eq!(output.unwrap(), "[1]\n");
}
