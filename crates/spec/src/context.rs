//! The `context_policy` block: compaction, the notes file, and tools for retrieval.

use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["compaction", "notes", "retrieval"],
};
const COMPACTION_KEYS: Keys = Keys {
    required: &[],
    optional: &[
        "enabled",
        "when_tokens_over",
        "summary_ratio",
        "preserve_recent_messages",
        "summarization_model",
    ],
};
const NOTES_KEYS: Keys = Keys {
    required: &["file"],
    optional: &["include_last", "format"],
};
const RETRIEVAL_KEYS: Keys = Keys {
    required: &[],
    optional: &["jit_tools", "mcp_servers"],
};
/// The tools that `jit_tools` may add to every agent.
const JIT: [(&str, &str); 4] = [
    ("grep", "grep"),
    ("head", "head"),
    ("tail", "tail"),
    ("search", "search"),
];

/// How the context of agents is managed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContextPolicy {
    pub compaction: Option<Compaction>,
    pub notes: Option<Notes>,
    /// Tools that every agent has in addition to its own.
    pub jit_tools: Vec<String>,
}

/// When and how a conversation is compacted.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    pub when_tokens_over: u64,
    /// Which part of the older messages is summarized.
    pub summary_ratio: f64,
    /// How many of the newest messages stay verbatim.
    pub preserve_recent: usize,
    /// The model that writes the summary, if not the agent's own.
    pub model: Option<String>,
}

/// A file in the workspace that records what was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// The file, relative to the workspace.
    pub file: String,
    /// How many of the newest notes an agent sees.
    pub include_last: usize,
    pub format: NotesFormat,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NotesFormat {
    #[default]
    Markdown,
    /// One line of JSON per note.
    Json,
}

pub(super) fn read(cursor: &Cursor<'_>) -> ContextPolicy {
    let fields = cursor.fields(&KEYS);
    let mut policy = ContextPolicy {
        compaction: fields
            .get("compaction")
            .and_then(|cursor| compaction(&cursor)),
        notes: fields.get("notes").map(|cursor| notes(&cursor)),
        jit_tools: Vec::new(),
    };
    if let Some(cursor) = fields.get("retrieval") {
        let fields = cursor.fields(&RETRIEVAL_KEYS);
        for cursor in fields.read("jit_tools", |cursor| cursor.list(0)) {
            policy.jit_tools.push(cursor.choice(&JIT).to_owned());
        }
        for cursor in fields.read("mcp_servers", |cursor| cursor.list(0)) {
            let id = cursor.single_line();
            let servers = &cursor.declared().servers;
            if !servers.iter().any(|server| server.id == id) {
                let known = servers.iter().map(|server| server.id.as_str());
                cursor.unknown(format!("`tools` has no MCP server `{id}`"), &id, known);
            }
            policy.jit_tools.push(id);
        }
    }
    policy
}

fn compaction(cursor: &Cursor<'_>) -> Option<Compaction> {
    let fields = cursor.fields(&COMPACTION_KEYS);
    let compaction = Compaction {
        when_tokens_over: fields
            .get("when_tokens_over")
            .map_or(60_000, |cursor| cursor.count(1000)),
        summary_ratio: fields
            .get("summary_ratio")
            .map_or(0.35, |cursor| cursor.number(&(0.0..=1.0))),
        preserve_recent: fields
            .get("preserve_recent_messages")
            .map_or(12, |cursor| cursor.integer(1..=u32::MAX) as usize),
        model: fields
            .get("summarization_model")
            .map(|cursor| cursor.single_line()),
    };
    let enabled = fields.get("enabled");
    enabled
        .is_none_or(|cursor| cursor.boolean())
        .then_some(compaction)
}

fn notes(cursor: &Cursor<'_>) -> Notes {
    let fields = cursor.fields(&NOTES_KEYS);
    Notes {
        file: fields.read("file", |cursor| {
            let file = cursor.single_line();
            let outside = |part: std::path::Component<'_>| {
                !matches!(
                    part,
                    std::path::Component::Normal(_) | std::path::Component::CurDir
                )
            };
            if std::path::Path::new(&file).components().any(outside) {
                cursor.invalid("must be a file inside the workspace, without `..`");
            }
            file
        }),
        include_last: fields
            .get("include_last")
            .map_or(12, |cursor| cursor.integer(1..=u32::MAX) as usize),
        format: fields.read("format", |cursor| {
            cursor.choice(&[
                ("markdown", NotesFormat::Markdown),
                ("json", NotesFormat::Json),
            ])
        }),
    }
}
