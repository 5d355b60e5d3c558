//! The updates of `session/update` as types. Unknown ones are kept as they came.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// A chunk of the agent's answer.
    Text(Chunk),
    /// A chunk of its reasoning.
    Thought(Chunk),
    /// A chunk of a user message; only in a replay.
    UserMessage(Chunk),
    /// A tool call was announced.
    ToolStarted(Tool),
    /// A tool call changed. Fields that are `None` have not changed.
    ToolChanged(Tool),
    /// The whole plan.
    Plan(Vec<PlanEntry>),
    /// The context usage.
    Context {
        /// Tokens in the context.
        used: u64,
        /// The size of the context window.
        size: u64,
        /// What the session has cost so far.
        cost: Option<Money>,
    },
    /// It requested permission for a tool call, and this was the answer.
    Permission {
        tool: Tool,
        /// Whether this single use was allowed.
        granted: bool,
    },
    /// It requested a file.
    File {
        operation: FileOperation,
        /// As the agent wrote it.
        path: String,
        /// The reason, if the request was refused.
        refused: Option<String>,
    },
    /// An update of another session than the prompted one.
    OtherSession {
        /// That session, if it was named.
        session: Option<String>,
        /// As it came.
        value: Value,
    },
    /// Anything else: mode changes, lists of commands, additions of later versions.
    Raw {
        /// The `sessionUpdate` or the method.
        kind: String,
        /// As it came.
        value: Value,
    },
}

/// A chunk of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub text: String,
    /// The message that it belongs to, if the agent names it.
    pub message: Option<String>,
}

impl From<&str> for Chunk {
    /// A chunk without a message id.
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            message: None,
        }
    }
}

/// What is known of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub id: String,
    /// For the user.
    pub title: Option<String>,
    pub kind: Option<ToolKind>,
    pub status: Option<Status>,
    /// Its output: texts, diffs, terminals, as they came.
    pub content: Option<Vec<Value>>,
    /// The files that it touches.
    pub locations: Option<Vec<Location>>,
    /// The whole call, as it came.
    pub value: Value,
}

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
    Search,
    /// Runs programs.
    Execute,
    Think,
    /// Fetches from elsewhere.
    Fetch,
    /// Changes the session's mode.
    SwitchMode,
    /// Something else, according to the agent.
    Other,
    /// A value that this version of the protocol does not define.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Pending,
    InProgress,
    Completed,
    Failed,
    /// A value that this version of the protocol does not define.
    Unknown(String),
}

/// A position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub path: String,
    pub line: Option<u64>,
}

/// An entry of an agent's plan, in the agent's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanEntry {
    pub content: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Money {
    pub amount: f64,
    /// `USD`.
    pub currency: String,
}

/// A file operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOperation {
    Read,
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
    /// The protocol's value for it.
    pub fn as_str(&self) -> &str {
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
    /// Parses a tool call; `None` if it has no id.
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
    /// Parses the `update` of a `session/update`.
    pub(super) fn read(value: &Value) -> Self {
        let kind = value["sessionUpdate"].as_str().unwrap_or_default();
        let known = match kind {
            "agent_message_chunk" => chunk(value).map(Self::Text),
            "agent_thought_chunk" => chunk(value).map(Self::Thought),
            "user_message_chunk" => chunk(value).map(Self::UserMessage),
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

fn chunk(value: &Value) -> Option<Chunk> {
    let content = &value["content"];
    let text = content["text"]
        .as_str()
        .filter(|_| content["type"] == "text")?;
    Some(Chunk {
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
    fn updates_of_real_agents_are_parsed() {
        let update = |kind: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": "a"}, "messageId": "m"});
        let read = |value: Value| Update::read(&value);
        let chunk = Chunk {
            message: Some("m".into()),
            ..Chunk::from("a")
        };
        let text = Update::Text(chunk.clone());
        assert_eq!(read(update("agent_message_chunk")), text);
        let thought = Update::Thought(chunk.clone());
        assert_eq!(read(update("agent_thought_chunk")), thought);
        assert_eq!(
            read(update("user_message_chunk")),
            Update::UserMessage(chunk)
        );
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
    fn unknown_updates_stay_raw() {
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
