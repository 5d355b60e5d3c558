//! Runs Python code that a model wrote.
//!
//! The code runs below a process guard, so that nothing it starts outlives it, and without Segno's
//! environment, which may contain keys. Where the kernel has Landlock it can write only to the
//! workspace and to a temporary folder of the call. This is no sandbox: the code can read what the
//! user who started Segno can read, and use the network.

use std::ffi::OsStr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use segno_core::tool::EffectClass;
use serde_json::Value;
use tempfile::TempDir;

use super::{BuiltinTool, CallContext, Run, text};
use crate::command::output::Answer;
use crate::command::{ChildProcess, Inherit, Writes};

/// The default and the longest timeout, in seconds.
const DEFAULT_SECONDS: u64 = 30;
const MAX_SECONDS: u64 = 300;

/// How many bytes it may print.
const MAX_OUTPUT: usize = 1 << 20;

pub(super) const PYTHON_EXEC: BuiltinTool = BuiltinTool {
    name: "python_exec",
    description: "Runs Python code in the workspace and returns its output.",
    class: EffectClass::Effectful,
    params: &[
        ("code", "string", true, "the Python code"),
        (
            "timeout",
            "integer",
            false,
            "timeout in seconds (default: 30, maximum: 300)",
        ),
    ],
    run: Run::Async(|input, context| Box::pin(python(input, context))),
};

async fn python(input: &Value, context: &CallContext<'_>) -> Result<String, String> {
    let seconds = input["timeout"].as_u64().unwrap_or(DEFAULT_SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(format!("`timeout` must be from 1 to {MAX_SECONDS} seconds"));
    }
    let workspace = context.workspace;
    let writes = if context.deps.confine_programs {
        Writes::WorkspaceAndTemp
    } else {
        Writes::Anywhere
    };
    let temp = TempFolder::create()?;
    let child = ChildProcess {
        guard: &context.deps.guard,
        // Isolated: neither the environment nor files of the workspace decide what is imported.
        argv: &["python3", "-I", "-"].map(str::to_owned),
        workspace,
        inherit: Inherit::Path,
        writes,
        variables: &[
            ("HOME", workspace.as_os_str()),
            ("LANG", OsStr::new("C.UTF-8")),
            ("TMPDIR", temp.path().as_os_str()),
        ],
        input: &[text(input, "code")],
        if_missing: "install Python 3",
    };
    let stop = async {
        context.deps.clock.sleep(Duration::from_secs(seconds)).await;
        let message = format!("`python3` was killed: it ran longer than {seconds} seconds");
        Error::new(ErrorKind::Timeout, message)
    };
    let mut printed = Answer::new("python3", MAX_OUTPUT, &NoListener);
    let ended = child.run(&mut printed, stop).await;
    let ended = ended.map_err(|error| error.message)?;
    let printed = printed.into_text();
    match child.check_exit(&ended) {
        None if printed.is_empty() => Ok("the code ran and printed nothing".to_owned()),
        None => Ok(printed),
        Some(failure) => Err(match printed.trim_end() {
            "" => failure.message,
            text => format!("{text}\n{}", failure.message),
        }),
    }
}

/// A temporary folder of one call. It is removed in a thread of its own: it may have many files.
struct TempFolder(Option<TempDir>);

impl TempFolder {
    fn create() -> Result<Self, String> {
        let created = TempDir::with_prefix("segno-python-");
        let created = created.map_err(|error| format!("no temporary folder: {error}"))?;
        Ok(Self(Some(created)))
    }

    fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), TempDir::path)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let folder = self.0.take();
        // Without a thread, the folder is removed here.
        let _ = thread::Builder::new().spawn(move || drop(folder));
    }
}

/// Ignores all events: the output is returned at the end.
struct NoListener;

impl Listener for NoListener {
    fn on_event(&self, _: Event<'_>) {}
}
