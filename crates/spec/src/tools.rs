//! The `tools` block, and the names of tools wherever a spec uses them.

use std::time::Duration;

use serde_json::Value;

use super::cursor::{Cursor, shortened};
use super::fields::Keys;
use super::security::Guardrails;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["python", "http_executors", "mcp"],
};
const CALLABLE_KEYS: Keys = Keys {
    required: &["callable"],
    optional: &[],
};
const EXECUTOR_KEYS: Keys = Keys {
    required: &["id", "base_url"],
    optional: &[
        "headers",
        "timeout_ms",
        "description",
        "examples",
        "common_endpoints",
        "response_format",
        "authentication_info",
    ],
};
const SERVER_KEYS: Keys = Keys {
    required: &["id"],
    optional: &["command", "args", "env", "url", "headers"],
};

/// The built-in tools, and whether they access the network.
const NATIVE: [(&str, bool); 16] = [
    ("calculator", false),
    ("current_time", false),
    ("file_read", false),
    ("file_write", false),
    ("grep", false),
    ("head", false),
    ("tail", false),
    ("search", false),
    ("http_request", true),
    ("web_fetch", true),
    ("duckduckgo_search", true),
    ("tavily_search", true),
    // It cannot be known what a program does.
    ("python_exec", true),
    ("spec_verify", false),
    ("state_get", false),
    ("state_set", false),
];

/// The name that specs use for all HTTP services that they declare.
const ALL_EXECUTORS: &str = "http_executors";

/// The default of `timeout_ms`.
const EXECUTOR_TIMEOUT: Duration = Duration::from_secs(30);

/// The tools that a spec declares for its models.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeclaredTools {
    pub native: Vec<String>,
    pub executors: Vec<Executor>,
    pub servers: Vec<Server>,
}

/// A tool that calls an HTTP service.
#[derive(Debug, Clone, PartialEq)]
pub struct Executor {
    /// The name of the tool.
    pub id: String,
    pub base_url: String,
    /// Headers of every request; `${NAME}` stands for a secret.
    pub headers: Vec<(String, String)>,
    pub timeout: Duration,
    /// The whole description that models see.
    pub description: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub id: String,
    pub transport: Transport,
}

/// How an MCP server is reached. `${NAME}` in values stands for a secret.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A program that Segno starts.
    Program {
        argv: Vec<String>,
        /// Added to the environment of the program.
        env: Vec<(String, String)>,
    },
    Address {
        url: String,
        headers: Vec<(String, String)>,
    },
}

impl DeclaredTools {
    /// The names of all declared tools and servers.
    pub fn names(&self) -> Vec<String> {
        let executors = self.executors.iter().map(|executor| &executor.id);
        let servers = self.servers.iter().map(|server| &server.id);
        let names = self.native.iter().chain(executors).chain(servers);
        names.cloned().collect()
    }

    /// All tools that `guardrails` permit: what an agent without a choice of its own gets.
    pub(super) fn usable(&self, guardrails: &Guardrails) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| self.forbidden(name, guardrails).is_none());
        names
    }

    /// The guardrail that forbids a tool, as far as its name shows. The tools of an MCP server are
    /// known only while it runs.
    fn forbidden(&self, name: &str, guardrails: &Guardrails) -> Option<&'static str> {
        let native = NATIVE.iter().find(|(known, _)| *known == name);
        // A program that Segno starts might access the network, too.
        if guardrails.deny_network && native.is_none_or(|(_, goes_out)| *goes_out) {
            return Some("`deny_network`");
        }
        let is_server = self.servers.iter().any(|server| server.id == name);
        (!is_server && !guardrails.allows(name)).then_some("`allow_tools`")
    }
}

/// The names of the built-in tools.
pub fn native() -> impl Iterator<Item = &'static str> {
    NATIVE.iter().map(|(name, _)| *name)
}

pub(super) fn read(cursor: &Cursor<'_>) -> DeclaredTools {
    let fields = cursor.fields(&KEYS);
    let list = |key: &str| fields.read(key, |cursor| cursor.list(0));
    let mut declared = DeclaredTools::default();
    for cursor in list("python") {
        let callable = if cursor.is_map() {
            cursor.fields(&CALLABLE_KEYS).get("callable")
        } else {
            Some(cursor)
        };
        declared
            .native
            .extend(callable.and_then(|cursor| name(&cursor, &[])));
    }
    for cursor in list(ALL_EXECUTORS) {
        let executor = executor(&cursor);
        check_id(&cursor, &executor.id, &declared);
        declared.executors.push(executor);
    }
    for cursor in list("mcp") {
        let server = server(&cursor);
        check_id(&cursor, &server.id, &declared);
        declared.servers.push(server);
    }
    declared
}

/// Checks that an id is unique and is a name that models can call.
fn check_id(cursor: &Cursor<'_>, id: &str, declared: &DeclaredTools) {
    let spoken = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !id.chars().all(spoken) || id.len() > 64 {
        cursor.invalid("the `id` of a tool has at most 64 letters, digits and `_ -`");
    } else if native().any(|known| known == id) || id == ALL_EXECUTORS {
        cursor.invalid(format!("`{id}` is the name of a built-in tool"));
    } else if !id.is_empty() && declared.names().iter().any(|known| known == id) {
        cursor.invalid(format!("duplicate tool `{id}`"));
    }
}

fn executor(cursor: &Cursor<'_>) -> Executor {
    let fields = cursor.fields(&EXECUTOR_KEYS);
    let base_url = fields.read("base_url", |cursor| address(&cursor));
    let mut description = vec![match fields.get("description") {
        Some(cursor) => cursor.text(),
        None => format!("Calls {base_url}."),
    }];
    let more = [
        ("authentication_info", "Authentication"),
        ("response_format", "Answers"),
        ("common_endpoints", "Endpoints"),
        ("examples", "Examples"),
    ];
    for (key, title) in more {
        if let Some(cursor) = fields.get(key) {
            description.push(format!("{title}:\n{}", outlined(&cursor.json())));
        }
    }
    Executor {
        id: fields.read("id", |cursor| cursor.identifier()),
        headers: fields.read("headers", |cursor| pairs(&cursor)),
        timeout: fields.get("timeout_ms").map_or(EXECUTOR_TIMEOUT, |cursor| {
            Duration::from_millis(cursor.integer(1..=u32::MAX).into())
        }),
        description: description.join("\n\n"),
        base_url,
    }
}

fn server(cursor: &Cursor<'_>) -> Server {
    let fields = cursor.fields(&SERVER_KEYS);
    let id = fields.read("id", |cursor| cursor.identifier());
    let transport = match (fields.get("command"), fields.get("url")) {
        (Some(command), None) => {
            let args = fields.read("args", |cursor| cursor.list(0));
            let args = args.iter().map(Cursor::text);
            if let Some(headers) = fields.get("headers") {
                headers.invalid("would be ignored: headers are only sent to a `url`");
            }
            Transport::Program {
                argv: std::iter::once(command.single_line()).chain(args).collect(),
                env: fields.read("env", |cursor| pairs(&cursor)),
            }
        }
        (None, Some(url)) => {
            for key in ["args", "env"] {
                if let Some(cursor) = fields.get(key) {
                    cursor.invalid("would be ignored: no program is started for a `url`");
                }
            }
            Transport::Address {
                url: address(&url),
                headers: fields.read("headers", |cursor| pairs(&cursor)),
            }
        }
        _ => {
            cursor.invalid("an MCP server needs either a `command` or a `url`");
            Transport::Program {
                argv: Vec::new(),
                env: Vec::new(),
            }
        }
    };
    Server { id, transport }
}

fn pairs(cursor: &Cursor<'_>) -> Vec<(String, String)> {
    let entries = cursor.entries().into_iter();
    entries
        .map(|(name, cursor)| {
            if name.is_empty() || name.chars().any(|c| c.is_control() || "=: ".contains(c)) {
                cursor.invalid("the name must not be empty or contain spaces, `=` or `:`");
            }
            let value = cursor.text();
            if value.chars().any(char::is_control) {
                cursor.invalid("must not contain control characters");
            }
            (name.to_owned(), value)
        })
        .collect()
}

pub(super) fn address(cursor: &Cursor<'_>) -> String {
    let text = cursor.single_line();
    let host = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/') || host.contains([' ', '@']))
    {
        cursor.invalid("must be an address like `https://api.example.com`");
    }
    text
}

/// Formats a value as lines for a model.
fn outlined(value: &Value) -> String {
    let line = |value: &Value| match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    match value {
        Value::Array(items) => {
            let lines: Vec<_> = items
                .iter()
                .map(|item| format!("- {}", line(item)))
                .collect();
            lines.join("\n")
        }
        other => line(other),
    }
}

/// Whether this is the name of an existing tool, service or server.
pub(super) fn is_known(cursor: &Cursor<'_>, name: &str) -> bool {
    native().any(|known| known == name)
        || cursor.declared().names().iter().any(|known| known == name)
}

/// Reports an unknown name of a tool, unless an MCP server may have that tool.
pub(super) fn check_name(cursor: &Cursor<'_>, name: &str, problem: &str) {
    let declared = cursor.declared();
    if declared.servers.is_empty() {
        let known = declared.names();
        let known = known.iter().map(String::as_str);
        let message = format!("{problem} `{}`", shortened(name));
        cursor.unknown(
            message,
            name,
            native().map(|name| -> &str { name }).chain(known),
        );
    }
}

/// Reads a list of tools, and checks them against the guardrails.
pub(super) fn list(cursor: &Cursor<'_>) -> Vec<String> {
    let (declared, guardrails) = (cursor.declared(), cursor.guardrails());
    let mut names = Vec::new();
    for cursor in cursor.list(0) {
        let mut chosen = Vec::new();
        if cursor.is_text(ALL_EXECUTORS) {
            chosen.extend(
                declared
                    .executors
                    .iter()
                    .map(|executor| executor.id.clone()),
            );
        } else {
            chosen.extend(name(&cursor, &declared.names()));
        }
        for name in chosen {
            if let Some(rule) = declared.forbidden(&name, guardrails) {
                cursor.invalid(format!("`{name}` is forbidden by {rule} in `security`"));
            }
            names.push(name);
        }
    }
    names
}

/// The name of an existing tool: one of `declared`, or a built-in one, with or without the module
/// that other tools put before it.
fn name(cursor: &Cursor<'_>, declared: &[String]) -> Option<String> {
    let given = cursor.single_line();
    if declared.contains(&given) {
        return Some(given);
    }
    let name = given.rsplit('.').next().unwrap_or_default();
    if native().any(|known| known == name) {
        return Some(name.to_owned());
    }
    if !given.is_empty() {
        let message = format!("unknown tool `{}`", shortened(&given));
        let known = declared.iter().map(String::as_str);
        cursor.unknown(
            message,
            name,
            native().map(|name| -> &str { name }).chain(known),
        );
    }
    None
}
