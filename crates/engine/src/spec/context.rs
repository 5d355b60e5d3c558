//! The `context_policy` block: what agents keep in mind.

use super::fields::Keys;
use super::place::Place;

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
/// The tools that may be added to every agent.
const JIT: [(&str, &str); 4] = [
    ("grep", "grep"),
    ("head", "head"),
    ("tail", "tail"),
    ("search", "search"),
];

/// What agents keep in mind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContextPolicy {
    /// When a conversation is made shorter, if at all.
    pub compaction: Option<Compaction>,
    /// Notes that are taken, if any.
    pub notes: Option<Notes>,
    /// Tools that every agent has besides its own.
    pub jit_tools: Vec<String>,
}

/// When and how a conversation is made shorter.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// From how many tokens on.
    pub when_tokens_over: u64,
    /// Which part of the older messages is summed up.
    pub summary_ratio: f64,
    /// How many messages stay as they are.
    pub preserve_recent: usize,
    /// The model that sums up, if not the agent's own.
    pub model: Option<String>,
}

/// Notes of what was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// The file, relative to the workspace.
    pub file: String,
    /// How many of them an agent is shown.
    pub include_last: usize,
    /// How they are written.
    pub format: NotesFormat,
}

/// How notes are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NotesFormat {
    /// For people.
    #[default]
    Markdown,
    /// A line of JSON each.
    Json,
}

pub(super) fn read(place: &Place<'_>) -> ContextPolicy {
    let fields = place.fields(&KEYS);
    let mut policy = ContextPolicy {
        compaction: fields
            .get("compaction")
            .and_then(|place| compaction(&place)),
        notes: fields.get("notes").map(|place| notes(&place)),
        jit_tools: Vec::new(),
    };
    if let Some(place) = fields.get("retrieval") {
        let fields = place.fields(&RETRIEVAL_KEYS);
        for place in fields.read("jit_tools", |place| place.list(0)) {
            policy.jit_tools.push(place.choice(&JIT).to_owned());
        }
        for place in fields.read("mcp_servers", |place| place.list(0)) {
            let id = place.line_of_text();
            let servers = &place.declared().servers;
            if !servers.iter().any(|server| server.id == id) {
                let known = servers.iter().map(|server| server.id.as_str());
                place.unknown(format!("no MCP server `{id}` in `tools`"), &id, known);
            }
            policy.jit_tools.push(id);
        }
    }
    policy
}

fn compaction(place: &Place<'_>) -> Option<Compaction> {
    let fields = place.fields(&COMPACTION_KEYS);
    let compaction = Compaction {
        when_tokens_over: fields
            .get("when_tokens_over")
            .map_or(60_000, |place| place.count(1000)),
        summary_ratio: fields
            .get("summary_ratio")
            .map_or(0.35, |place| place.number(&(0.0..=1.0))),
        preserve_recent: fields
            .get("preserve_recent_messages")
            .map_or(12, |place| place.integer(1..=u32::MAX) as usize),
        model: fields
            .get("summarization_model")
            .map(|place| place.line_of_text()),
    };
    let enabled = fields.get("enabled");
    enabled
        .is_none_or(|place| place.choice_of_truth())
        .then_some(compaction)
}

fn notes(place: &Place<'_>) -> Notes {
    let fields = place.fields(&NOTES_KEYS);
    Notes {
        file: fields.read("file", |place| {
            let file = place.line_of_text();
            let outside = |part: std::path::Component<'_>| {
                !matches!(
                    part,
                    std::path::Component::Normal(_) | std::path::Component::CurDir
                )
            };
            if std::path::Path::new(&file).components().any(outside) {
                place.invalid("must be a file inside the workspace, without `..`");
            }
            file
        }),
        include_last: fields
            .get("include_last")
            .map_or(12, |place| place.integer(1..=u32::MAX) as usize),
        format: fields.read("format", |place| {
            place.choice(&[
                ("markdown", NotesFormat::Markdown),
                ("json", NotesFormat::Json),
            ])
        }),
    }
}
