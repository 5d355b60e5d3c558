//! Scripts: the answers of a model, turn by turn, independent of the vendor.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// The answers of a model to a prompt with the script's marker.
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) name: String,
    pub(super) turns: Vec<Turn>,
    pub(super) repairs_calls: bool,
}

impl Script {
    /// A script. The last turn should have no calls: it is repeated whenever a model is asked for
    /// more turns than the script has.
    pub fn new(name: &str, turns: impl IntoIterator<Item = Turn>) -> Self {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(plain) && name != "script", "{name:?}");
        let turns: Vec<Turn> = turns.into_iter().collect();
        assert!(!turns.is_empty(), "a script is not empty");
        Self {
            name: name.to_owned(),
            turns,
            repairs_calls: true,
        }
    }

    /// Continues after calls that failed or whose outcome is unknown, instead of repairing them.
    pub fn without_repairs(mut self) -> Self {
        self.repairs_calls = false;
        self
    }

    /// The same with a pause between the pieces of every answer.
    pub fn slowly(mut self, pause: Duration) -> Self {
        for turn in &mut self.turns {
            turn.pace = Pace::Slow(pause);
        }
        self
    }

    /// The same with a pause before every answer.
    pub fn late(mut self, pause: Duration) -> Self {
        for turn in &mut self.turns {
            turn.pace = Pace::Late(pause);
        }
        self
    }

    /// The text that a prompt must contain.
    pub fn marker(&self) -> String {
        format!("[script:{}]", self.name)
    }

    /// How many turns it has.
    pub fn turns(&self) -> usize {
        self.turns.len()
    }

    /// The content of files after `turn`, as far as writes and edits determine it.
    pub(super) fn content(&self, turn: usize) -> BTreeMap<&str, String> {
        let mut content: BTreeMap<&str, String> = BTreeMap::new();
        for call in self.turns[..=turn].iter().flat_map(|turn| &turn.calls) {
            match call {
                Call::Write { path, text } => {
                    content.insert(path, text.clone());
                }
                Call::Edit { path, old, new } => {
                    let text = content.entry(path).or_default();
                    *text = text.replacen(old, new, 1);
                }
                _ => {}
            }
        }
        content
    }

    /// The calls that produce the intended result of `turn`, wherever it was interrupted: a model
    /// that does not know the outcome of a call checks before it acts.
    pub(super) fn repair_calls(&self, turn: usize) -> Vec<Call> {
        let content = self.content(turn);
        let repair = |call: &Call| match call {
            Call::Write { path, .. } | Call::Edit { path, .. } => {
                let (text, path) = (quote(&content[path.as_str()]), quote(path));
                let command =
                    format!("mkdir -p \"$(dirname {path})\" && printf %s {text} > {path}");
                Call::shell(&command)
            }
            other => other.careful(),
        };
        self.turns[turn].calls.iter().map(repair).collect()
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// One answer of the model.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub(super) thinking: Option<String>,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Option<Usage>,
    pub(super) pace: Pace,
    pub(super) fault: Option<(Fault, FaultRepeat)>,
}

impl Turn {
    /// What the tag of the turn replaces in its text. Without it, the tag follows the text.
    pub const TAG: &str = "{tag}";

    /// A turn with this text.
    pub fn say(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// A turn that fails.
    pub fn fail(fault: Fault, often: FaultRepeat) -> Self {
        Self {
            fault: Some((fault, often)),
            ..Self::say("It works again.")
        }
    }

    /// With a thought before the text.
    pub fn thinking(mut self, thought: &str) -> Self {
        self.thinking = Some(thought.to_owned());
        self
    }

    /// With a call after the text; several calls are made at once.
    pub fn call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// With this reported usage.
    pub fn using(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// In pieces with this pause between them.
    pub fn slowly(mut self, pause: Duration) -> Self {
        self.pace = Pace::Slow(pause);
        self
    }

    /// Stopping in the middle of the answer until the test releases it.
    pub fn held(mut self) -> Self {
        self.pace = Pace::Held;
        self
    }
}

/// What a model asks its agent to do. Paths are relative to the workspace.
#[derive(Debug, Clone)]
pub enum Call {
    /// Runs a command in a shell.
    Shell {
        command: String,
        /// A command that succeeds if this one has run to its end, for a model that does not know.
        done: Option<String>,
    },
    /// Runs a command in the background. Agents without this feature run it as usual.
    Background { command: String },
    /// Writes a file.
    Write { path: String, text: String },
    /// Replaces whole lines of a file that was written before.
    Edit {
        path: String,
        /// The existing lines, without the last line feed.
        old: String,
        /// The lines that replace them.
        new: String,
    },
    /// Gives a task to a subagent (Claude Code only).
    Delegate {
        /// The task; it may have a marker of its own.
        prompt: String,
    },
    /// A tool of an MCP server.
    McpTool {
        server: String,
        /// The name of the tool on the server.
        tool: String,
        input: Value,
    },
    /// A tool under the vendor's own name.
    Raw { name: String, input: Value },
}

impl Call {
    /// A command in a shell.
    pub fn shell(command: &str) -> Self {
        Self::Shell {
            command: command.to_owned(),
            done: None,
        }
    }

    /// A command in a shell, and one that checks whether it has been run.
    pub fn checked(command: &str, done: &str) -> Self {
        Self::Shell {
            command: command.to_owned(),
            done: Some(done.to_owned()),
        }
    }

    /// A file to write.
    pub fn write(path: &str, text: &str) -> Self {
        Self::Write {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Lines to replace.
    pub fn edit(path: &str, old: &str, new: &str) -> Self {
        Self::Edit {
            path: path.to_owned(),
            old: old.to_owned(),
            new: new.to_owned(),
        }
    }

    /// A tool of an MCP server.
    pub fn mcp_tool(server: &str, tool: &str, input: Value) -> Self {
        Self::McpTool {
            server: server.to_owned(),
            tool: tool.to_owned(),
            input,
        }
    }

    /// The same call by a model that checks before it acts.
    pub(super) fn careful(&self) -> Self {
        match self {
            Self::Shell {
                command,
                done: Some(done),
            } => Self::shell(&format!(
                "if {done}; then echo done before; else {command}; fi"
            )),
            other => other.clone(),
        }
    }
}

/// How fast an answer is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    #[default]
    AtOnce,
    /// As a whole, after a pause.
    Late(Duration),
    /// In pieces with a pause between them.
    Slow(Duration),
    /// The first half, and the second half when the test releases it.
    Held,
}

/// How a model fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 401: the key is not known.
    Unauthorized,
    /// 429: too many requests; retry after this time.
    Limited(Duration),
    /// 529: too busy.
    Overloaded,
    /// 400: the prompt does not fit.
    TooLong,
    /// The stream ends in the middle.
    Cut,
    /// The connection is closed before anything is sent.
    HangUp,
}

/// How often a turn fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultRepeat {
    Always,
    /// This many times; then it is answered.
    First(usize),
}

/// The reported tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, including the cached ones.
    pub input: u64,
    /// The cached part of the input.
    pub cached: u64,
    pub output: u64,
}
