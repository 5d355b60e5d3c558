//! The `tools` block, and the names of tools wherever they stand.

use std::time::Duration;

use serde_json::Value;

use super::fields::Keys;
use super::place::{Place, shortened};
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

/// The tools that Segno brings along, and whether they go out into the network.
const NATIVE: [(&str, bool); 14] = [
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
    // What a program does cannot be told from outside.
    ("python_exec", true),
    ("spec_verify", false),
];

/// The word that specs use for all services they declare.
const ALL_EXECUTORS: &str = "http_executors";

/// How long a service may take unless the spec says otherwise.
const EXECUTOR_TIMEOUT: Duration = Duration::from_secs(30);

/// What models may ask for, as the spec declares it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Declared {
    /// Those that Segno brings along.
    pub native: Vec<String>,
    /// Services.
    pub executors: Vec<Executor>,
    /// MCP servers, each with tools of its own.
    pub servers: Vec<Server>,
}

/// A service that is called over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Executor {
    /// The name of its tool.
    pub id: String,
    /// Where it is.
    pub base_url: String,
    /// What is sent along; `${NAME}` stands for a secret.
    pub headers: Vec<(String, String)>,
    /// How long a call may take.
    pub timeout: Duration,
    /// Everything that a model is told of it.
    pub description: String,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Its name.
    pub id: String,
    /// How it is reached.
    pub transport: Transport,
}

/// How an MCP server is reached. `${NAME}` in values stands for a secret.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport {
    /// A program that is started.
    Program {
        /// The program and its arguments.
        argv: Vec<String>,
        /// What is added to its environment.
        env: Vec<(String, String)>,
    },
    /// A place on the network.
    Address {
        /// Where.
        url: String,
        /// What is sent along.
        headers: Vec<(String, String)>,
    },
}

impl Declared {
    /// The names of all there are.
    pub fn names(&self) -> Vec<String> {
        let executors = self.executors.iter().map(|executor| &executor.id);
        let servers = self.servers.iter().map(|server| &server.id);
        let names = self.native.iter().chain(executors).chain(servers);
        names.cloned().collect()
    }

    /// What an agent has that chooses nothing: all that may be used.
    pub(super) fn usable(&self, guardrails: &Guardrails) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| self.forbidden(name, guardrails).is_none());
        names
    }

    /// Why a tool must not be used, if that is known from its name. What an MCP server has is only
    /// known when it runs.
    fn forbidden(&self, name: &str, guardrails: &Guardrails) -> Option<&'static str> {
        let native = NATIVE.iter().find(|(known, _)| *known == name);
        // A program that is started might go out too.
        if guardrails.deny_network && native.is_none_or(|(_, goes_out)| *goes_out) {
            return Some("`deny_network`");
        }
        let is_server = self.servers.iter().any(|server| server.id == name);
        (!is_server && !guardrails.allows(name)).then_some("`allow_tools`")
    }
}

/// The names of the tools that Segno brings along.
pub fn native() -> impl Iterator<Item = &'static str> {
    NATIVE.iter().map(|(name, _)| *name)
}

pub(super) fn read(place: &Place<'_>) -> Declared {
    let fields = place.fields(&KEYS);
    let list = |key: &str| fields.read(key, |place| place.list(0));
    let mut declared = Declared::default();
    for place in list("python") {
        let callable = if place.is_map() {
            place.fields(&CALLABLE_KEYS).get("callable")
        } else {
            Some(place)
        };
        declared
            .native
            .extend(callable.and_then(|place| name(&place, &[])));
    }
    for place in list(ALL_EXECUTORS) {
        let executor = executor(&place);
        check_id(&place, &executor.id, &declared);
        declared.executors.push(executor);
    }
    for place in list("mcp") {
        let server = server(&place);
        check_id(&place, &server.id, &declared);
        declared.servers.push(server);
    }
    declared
}

/// One name for one thing, and one that models can say.
fn check_id(place: &Place<'_>, id: &str, declared: &Declared) {
    let spoken = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !id.chars().all(spoken) || id.len() > 64 {
        place.invalid("the `id` of a tool has at most 64 letters, digits and `_ -`");
    } else if native().any(|known| known == id) || id == ALL_EXECUTORS {
        place.invalid(format!(
            "`{id}` is the name of a tool that Segno brings along"
        ));
    } else if !id.is_empty() && declared.names().iter().any(|known| known == id) {
        place.invalid(format!("there are two tools `{id}`"));
    }
}

fn executor(place: &Place<'_>) -> Executor {
    let fields = place.fields(&EXECUTOR_KEYS);
    let base_url = fields.read("base_url", |place| address(&place));
    let mut told = vec![match fields.get("description") {
        Some(place) => place.text(),
        None => format!("Calls {base_url}."),
    }];
    let more = [
        ("authentication_info", "Authentication"),
        ("response_format", "Answers"),
        ("common_endpoints", "Endpoints"),
        ("examples", "Examples"),
    ];
    for (key, title) in more {
        if let Some(place) = fields.get(key) {
            told.push(format!("{title}:\n{}", outlined(&place.json())));
        }
    }
    Executor {
        id: fields.read("id", |place| place.identifier()),
        headers: fields.read("headers", |place| pairs(&place)),
        timeout: fields.get("timeout_ms").map_or(EXECUTOR_TIMEOUT, |place| {
            Duration::from_millis(place.integer(1..=u32::MAX).into())
        }),
        description: told.join("\n\n"),
        base_url,
    }
}

fn server(place: &Place<'_>) -> Server {
    let fields = place.fields(&SERVER_KEYS);
    let id = fields.read("id", |place| place.identifier());
    let transport = match (fields.get("command"), fields.get("url")) {
        (Some(command), None) => {
            let args = fields.read("args", |place| place.list(0));
            let args = args.iter().map(Place::text);
            if let Some(headers) = fields.get("headers") {
                headers.invalid("would be ignored: a program is sent no headers");
            }
            Transport::Program {
                argv: std::iter::once(command.line_of_text())
                    .chain(args)
                    .collect(),
                env: fields.read("env", |place| pairs(&place)),
            }
        }
        (None, Some(url)) => {
            for key in ["args", "env"] {
                if let Some(place) = fields.get(key) {
                    place.invalid("would be ignored: nothing is started for a `url`");
                }
            }
            Transport::Address {
                url: address(&url),
                headers: fields.read("headers", |place| pairs(&place)),
            }
        }
        _ => {
            place.invalid("an MCP server has either a `command` or a `url`");
            Transport::Program {
                argv: Vec::new(),
                env: Vec::new(),
            }
        }
    };
    Server { id, transport }
}

fn pairs(place: &Place<'_>) -> Vec<(String, String)> {
    let entries = place.entries().into_iter();
    entries
        .map(|(name, place)| {
            if name.is_empty() || name.chars().any(|c| c.is_control() || "=: ".contains(c)) {
                place.invalid("the name must not be empty or hold blanks, `=` or `:`");
            }
            let value = place.text();
            if value.chars().any(char::is_control) {
                place.invalid("must not hold control characters");
            }
            (name.to_owned(), value)
        })
        .collect()
}

pub(super) fn address(place: &Place<'_>) -> String {
    let text = place.line_of_text();
    let host = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/') || host.contains([' ', '@']))
    {
        place.invalid("must be an address like `https://api.example.com`");
    }
    text
}

/// Any value as lines that a model can read.
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

/// Whether this is the name of a tool, a service or a server that there is.
pub(super) fn is_known(place: &Place<'_>, name: &str) -> bool {
    native().any(|known| known == name)
        || place.declared().names().iter().any(|known| known == name)
}

/// Reports a name that is none of a tool, unless some server may have a tool of that name.
pub(super) fn check_name(place: &Place<'_>, name: &str, problem: &str) {
    let declared = place.declared();
    if declared.servers.is_empty() {
        let known = declared.names();
        let known = known.iter().map(String::as_str);
        let message = format!("{problem} `{}`", shortened(name));
        place.unknown(
            message,
            name,
            native().map(|name| -> &str { name }).chain(known),
        );
    }
}

/// A list of tools.
pub(super) fn list(place: &Place<'_>) -> Vec<String> {
    let (declared, guardrails) = (place.declared(), place.guardrails());
    let mut names = Vec::new();
    for place in place.list(0) {
        let mut chosen = Vec::new();
        if place.is_text(ALL_EXECUTORS) {
            chosen.extend(
                declared
                    .executors
                    .iter()
                    .map(|executor| executor.id.clone()),
            );
        } else {
            chosen.extend(name(&place, &declared.names()));
        }
        for name in chosen {
            if let Some(rule) = declared.forbidden(&name, guardrails) {
                place.invalid(format!("`{name}` is forbidden by {rule} in `security`"));
            }
            names.push(name);
        }
    }
    names
}

/// The name of a tool that there is: one of `declared`, or one that Segno brings along, with or
/// without the module that others keep it in.
fn name(place: &Place<'_>, declared: &[String]) -> Option<String> {
    let given = place.line_of_text();
    if declared.contains(&given) {
        return Some(given);
    }
    let name = given.rsplit('.').next().unwrap_or_default();
    if native().any(|known| known == name) {
        return Some(name.to_owned());
    }
    if !given.is_empty() {
        let message = format!("no such tool: `{}`", shortened(&given));
        let known = declared.iter().map(String::as_str);
        place.unknown(
            message,
            name,
            native().map(|name| -> &str { name }).chain(known),
        );
    }
    None
}
