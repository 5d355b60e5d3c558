//! What an agent reports, in neutral words. What is not known is kept as it came.

use serde_json::Value;

/// Something that an agent reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// A piece of its answer.
    Text(Piece),
    /// A piece of what it thinks.
    Thought(Piece),
    /// A piece of what the person said; in a replay.
    Said(Piece),
    /// A tool is about to be used.
    ToolStarted(Tool),
    /// Something about a tool is known now. What is `None` has not changed.
    ToolChanged(Tool),
    /// What it means to do, as a whole.
    Plan(Vec<PlanEntry>),
    /// How full its context is.
    Context {
        /// Tokens in it.
        used: u64,
        /// Tokens that fit.
        size: u64,
        /// What the session has cost so far.
        cost: Option<Money>,
    },
    /// It asked for leave to use a tool, and this was the answer.
    Leave {
        /// The tool.
        tool: Tool,
        /// Whether it was given, for this once.
        granted: bool,
    },
    /// It asked for a file.
    File {
        /// What was to be done.
        deed: Deed,
        /// The file, as it was named.
        path: String,
        /// Why not, if not.
        refused: Option<String>,
    },
    /// Of another session than the one that was asked.
    Foreign {
        /// That session, if it was named.
        session: Option<String>,
        /// As it came.
        value: Value,
    },
    /// Anything else: changes of mode, lists of commands, what later versions bring.
    Raw {
        /// What it calls itself: the sort of update, or the method.
        kind: String,
        /// As it came.
        value: Value,
    },
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The words.
    pub text: String,
    /// The message that it is a piece of, if that was said.
    pub message: Option<String>,
}

impl From<&str> for Piece {
    /// Words of which nothing else is known.
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            message: None,
        }
    }
}

/// A tool that an agent uses, as far as it was told.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The call's own name.
    pub id: String,
    /// For people.
    pub title: Option<String>,
    /// What sort it is.
    pub kind: Option<ToolKind>,
    /// How far it is.
    pub status: Option<Status>,
    /// What it brought: texts, diffs, terminals, as they came.
    pub content: Option<Vec<Value>>,
    /// What it touches.
    pub locations: Option<Vec<Location>>,
    /// All of it, as it came.
    pub value: Value,
}

/// What sort of thing a tool does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files or data.
    Delete,
    /// Moves or renames files.
    Move,
    /// Looks for something.
    Search,
    /// Runs programs.
    Execute,
    /// Thinks.
    Think,
    /// Fetches from elsewhere.
    Fetch,
    /// Changes the session's mode.
    SwitchMode,
    /// Something else, as the agent says itself.
    Other,
    /// A word that the protocol did not have.
    Unknown(String),
}

/// How far a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It has not begun.
    Pending,
    /// It runs.
    InProgress,
    /// It is done.
    Completed,
    /// It went wrong.
    Failed,
    /// A word that the protocol did not have.
    Unknown(String),
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: String,
    /// The line.
    pub line: Option<u64>,
}

/// One thing that an agent means to do. Its words are the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanEntry {
    /// What.
    pub content: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

/// Money.
#[derive(Debug, Clone, PartialEq)]
pub struct Money {
    /// How much.
    pub amount: f64,
    /// Of what: `USD`.
    pub currency: String,
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

impl From<&str> for ToolKind {
    fn from(word: &str) -> Self {
        match word {
            "read" => Self::Read,
            "edit" => Self::Edit,
            "delete" => Self::Delete,
            "move" => Self::Move,
            "search" => Self::Search,
            "execute" => Self::Execute,
            "think" => Self::Think,
            "fetch" => Self::Fetch,
            "switch_mode" => Self::SwitchMode,
            "other" => Self::Other,
            word => Self::Unknown(word.to_owned()),
        }
    }
}

impl ToolKind {
    /// The protocol's word for it.
    pub fn word(&self) -> &str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::SwitchMode => "switch_mode",
            Self::Other => "other",
            Self::Unknown(word) => word,
        }
    }
}

impl From<&str> for Status {
    fn from(word: &str) -> Self {
        match word {
            "pending" => Self::Pending,
            "in_progress" => Self::InProgress,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            word => Self::Unknown(word.to_owned()),
        }
    }
}

impl Tool {
    /// The tool in `value`; `None` if it has no name.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let word = |key: &str| value[key].as_str();
        let locations = value["locations"].as_array();
        Some(Self {
            id: word("toolCallId")?.to_owned(),
            title: word("title").map(str::to_owned),
            kind: word("kind").map(ToolKind::from),
            status: word("status").map(Status::from),
            content: value["content"].as_array().cloned(),
            locations: locations.map(|all| all.iter().filter_map(Location::read).collect()),
            value: value.clone(),
        })
    }
}

impl Location {
    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            path: value["path"].as_str()?.to_owned(),
            line: value["line"].as_u64(),
        })
    }
}

impl Update {
    /// The update in what a session reports.
    pub(super) fn read(value: &Value) -> Self {
        let kind = value["sessionUpdate"].as_str().unwrap_or_default();
        let known = match kind {
            "agent_message_chunk" => piece(value).map(Self::Text),
            "agent_thought_chunk" => piece(value).map(Self::Thought),
            "user_message_chunk" => piece(value).map(Self::Said),
            "tool_call" => Tool::read(value).map(Self::ToolStarted),
            "tool_call_update" => Tool::read(value).map(Self::ToolChanged),
            "plan" => plan(value).map(Self::Plan),
            "usage_update" => context(value),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Raw {
            kind: kind.to_owned(),
            value: value.clone(),
        })
    }
}

fn piece(value: &Value) -> Option<Piece> {
    let content = &value["content"];
    let text = content["text"]
        .as_str()
        .filter(|_| content["type"] == "text")?;
    Some(Piece {
        text: text.to_owned(),
        message: value["messageId"].as_str().map(str::to_owned),
    })
}

fn plan(value: &Value) -> Option<Vec<PlanEntry>> {
    let entry = |entry: &Value| {
        let word = |key: &str| entry[key].as_str().map(str::to_owned);
        Some(PlanEntry {
            content: word("content")?,
            priority: word("priority")?,
            status: word("status")?,
        })
    };
    value["entries"].as_array()?.iter().map(entry).collect()
}

fn context(value: &Value) -> Option<Update> {
    let cost = &value["cost"];
    let money = || {
        Some(Money {
            amount: cost["amount"].as_f64()?,
            currency: cost["currency"].as_str()?.to_owned(),
        })
    };
    Some(Update::Context {
        used: value["used"].as_u64()?,
        size: value["size"].as_u64()?,
        cost: money(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_real_agents_report_is_understood() {
        let chunk = |kind: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": "a"}, "messageId": "m"});
        let read = |value: Value| Update::read(&value);
        let piece = Piece {
            message: Some("m".into()),
            ..Piece::from("a")
        };
        let text = Update::Text(piece.clone());
        assert_eq!(read(chunk("agent_message_chunk")), text);
        let thought = Update::Thought(piece.clone());
        assert_eq!(read(chunk("agent_thought_chunk")), thought);
        assert_eq!(read(chunk("user_message_chunk")), Update::Said(piece));
        let cost = json!({"amount": 0.25, "currency": "USD"});
        assert_eq!(
            read(json!({"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost})),
            Update::Context {
                used: 1,
                size: 9,
                cost: Some(Money {
                    amount: 0.25,
                    currency: "USD".into()
                })
            }
        );
        let value = json!({
            "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Write", "kind": "edit",
            "status": "pending", "content": [{"type": "diff"}],
            "locations": [{"path": "/a", "line": 3}, {"path": 1}],
        });
        let tool = Tool {
            id: "t".into(),
            title: Some("Write".into()),
            kind: Some(ToolKind::Edit),
            status: Some(Status::Pending),
            content: Some(vec![json!({"type": "diff"})]),
            locations: Some(vec![Location {
                path: "/a".into(),
                line: Some(3),
            }]),
            value: value.clone(),
        };
        assert_eq!(read(value), Update::ToolStarted(tool));
        let entry = json!({"content": "c", "priority": "high", "status": "pending"});
        let plan = read(json!({"sessionUpdate": "plan", "entries": [entry]}));
        assert!(matches!(plan, Update::Plan(entries) if entries[0].content == "c"));
    }

    #[test]
    fn what_is_not_known_stays_as_it_came() {
        for value in [
            json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}),
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image"}}),
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "text": "x"}}),
            json!({"sessionUpdate": "tool_call", "title": "nameless"}),
            json!({"sessionUpdate": "plan", "entries": [{"content": 1}]}),
            json!({"sessionUpdate": "usage_update", "used": -1, "size": 2}),
            json!({"sessionUpdate": "of_tomorrow", "x": 1}),
            json!({"sessionUpdate": 7}),
            json!([]),
        ] {
            let kind = value["sessionUpdate"].as_str().unwrap_or_default();
            let expected = Update::Raw {
                kind: kind.to_owned(),
                value: value.clone(),
            };
            assert_eq!(Update::read(&value), expected);
        }
        let odd = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "dance", "status": "odd"});
        let Update::ToolChanged(tool) = Update::read(&odd) else {
            panic!("it has a name");
        };
        assert_eq!(tool.kind, Some(ToolKind::Unknown("dance".into())));
        assert_eq!(tool.status, Some(Status::Unknown("odd".into())));
    }
}
