//! The provider of an agent: the one of `runtime`, or the agent's own.

use segno_core::cli_agent::CliAgentKind;

use super::cursor::{Cursor, shortened};
use super::fields::{Fields, Keys};

const NAMES: [(&str, ProviderKind); 11] = [
    ("anthropic", ProviderKind::Api(Vendor::Anthropic)),
    ("openai", ProviderKind::Api(Vendor::OpenAi)),
    ("azure_openai", ProviderKind::Api(Vendor::Azure)),
    ("gemini", ProviderKind::Api(Vendor::Gemini)),
    ("bedrock", ProviderKind::Api(Vendor::Bedrock)),
    ("ollama", ProviderKind::Api(Vendor::Ollama)),
    (
        "claude-code",
        ProviderKind::Program(CliAgentKind::ClaudeCode),
    ),
    ("codex", ProviderKind::Program(CliAgentKind::Codex)),
    ("acp", ProviderKind::Program(CliAgentKind::Acp)),
    ("command", ProviderKind::Command),
    ("scripted", ProviderKind::Scripted),
];

const INFERENCE_KEYS: Keys = Keys {
    required: &[],
    optional: &["temperature", "top_p", "max_tokens"],
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// Uses the Messages API.
    Anthropic,
    /// Uses chat completions.
    OpenAi,
    /// Uses chat completions, at the customer's own address.
    Azure,
    /// Uses chat completions.
    Gemini,
    /// Uses the Converse API of a region.
    Bedrock,
    /// Uses chat completions, without a key.
    Ollama,
}

impl Vendor {
    /// Its name in the format.
    pub fn name(self) -> &'static str {
        let kind = ProviderKind::Api(self);
        let known = NAMES.iter().find(|(_, known)| *known == kind);
        known.map_or("", |(name, _)| name)
    }

    /// An address with the path that this vendor has between host and version.
    fn path(self, base: &str) -> String {
        match (self, base.strip_suffix("/v1")) {
            (Self::Azure, Some(host)) if !host.ends_with("/openai") => format!("{host}/openai/v1"),
            // Gemini's own address has another version, at another position.
            (Self::Gemini, Some(host)) if host.ends_with("/openai") => host.to_owned(),
            // Bedrock has no version in its path.
            (Self::Bedrock, Some(host)) => host.to_owned(),
            _ => base.to_owned(),
        }
    }

    /// The model to use if the spec names none.
    fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-4-20250514",
            Self::OpenAi | Self::Azure => "gpt-4o-mini",
            Self::Gemini => "gemini-2.5-flash",
            Self::Bedrock => "us.anthropic.claude-sonnet-4-20250514-v1:0",
            Self::Ollama => "gpt-oss",
        }
    }
}

/// A provider by name, before its settings are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderKind {
    Api(Vendor),
    Program(CliAgentKind),
    Command,
    Scripted,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Provider {
    /// Prepared answers from a file, for tests.
    Scripted {
        /// The path, as the spec gives it.
        script: String,
    },
    /// A program that reads the prompt on stdin and writes the answer to stdout.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    Api(Api),
    /// An agent that speaks the Agent Client Protocol and stores its own transcript.
    Acp {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// A CLI agent that is known by name and stores its own transcript.
    Program {
        program: CliAgentKind,
        /// The model to use, if the spec names one.
        model: Option<String>,
    },
}

/// A model behind an HTTP API.
#[derive(Debug, Clone, PartialEq)]
pub struct Api {
    pub vendor: Vendor,
    pub model: String,
    /// The base URL with its version, if the spec has one: `http://127.0.0.1:8080/v1`.
    pub base: Option<String>,
    /// Letters, digits and hyphens.
    pub region: Option<String>,
    pub inference: Inference,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Inference {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub max_tokens: Option<u32>,
}

impl Inference {
    /// Reads the keys from a block that has other keys, too.
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let number =
            |key: &str, most: f64| fields.get(key).map(|cursor| cursor.number(&(0.0..=most)));
        Self {
            temperature: number("temperature", 2.0),
            top_p: number("top_p", 1.0),
            max_tokens: fields
                .get("max_tokens")
                .map(|cursor| cursor.integer(1..=u32::MAX)),
        }
    }

    /// Reads a block that has only these keys.
    pub(super) fn block(cursor: &Cursor<'_>) -> Self {
        Self::read(&cursor.fields(&INFERENCE_KEYS))
    }

    fn or(self, other: Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            max_tokens: self.max_tokens.or(other.max_tokens),
        }
    }
}

impl Provider {
    /// Its name in the format.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scripted { .. } => "scripted",
            Self::Command { .. } => "command",
            Self::Api(api) => api.vendor.name(),
            Self::Acp { .. } => CliAgentKind::Acp.as_str(),
            Self::Program { program, .. } => program.as_str(),
        }
    }

    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Api(api) => Some(&api.model),
            Self::Program { model, .. } => model.as_deref(),
            Self::Scripted { .. } | Self::Command { .. } | Self::Acp { .. } => None,
        }
    }

    /// Everything that the provider's answers depend on, as one text.
    pub fn identity(&self) -> String {
        match self {
            Self::Scripted { script } => format!("scripted {script:?}"),
            Self::Command { argv } => format!("command {argv:?}"),
            Self::Acp { argv } => format!("acp {argv:?}"),
            Self::Api(api) => format!("{} {:?} {:?}", api.vendor.name(), api.model, api.inference),
            Self::Program { program, model } => format!("{program} {model:?}"),
        }
    }
}

pub(super) struct Defaults<'a> {
    pub(super) cursor: Cursor<'a>,
    /// `None` if the provider was rejected.
    pub(super) kind: Option<ProviderKind>,
    pub(super) script: Option<(Cursor<'a>, String)>,
    pub(super) command: Option<(Cursor<'a>, Vec<String>)>,
    pub(super) model: Option<String>,
    pub(super) base: Option<String>,
    pub(super) region: Option<(Cursor<'a>, String)>,
    pub(super) inference: Inference,
    /// Keys about models, kept to report them if no agent uses them.
    pub(super) model_settings: Vec<Cursor<'a>>,
}

/// What an agent sets itself.
pub(super) struct Own<'a> {
    pub(super) command: Option<Cursor<'a>>,
    pub(super) model: Option<Cursor<'a>>,
    pub(super) inference: Option<Cursor<'a>>,
}

/// The provider of the agent at `cursor`.
pub(super) fn choose(
    cursor: &Cursor<'_>,
    kind: Option<ProviderKind>,
    own: &Own<'_>,
    defaults: &Defaults<'_>,
) -> Provider {
    let ignored = |given: &Option<Cursor<'_>>, name: &str| {
        if let Some(given) = given {
            given.invalid(format!(
                "would be ignored: this agent's provider is `{name}`"
            ));
        }
    };
    match kind {
        // The scripted provider replaces any model, so it accepts settings for models.
        Some(ProviderKind::Scripted) => {
            ignored(&own.command, "scripted");
            scripted(defaults)
        }
        Some(ProviderKind::Api(vendor)) => {
            ignored(&own.command, vendor.name());
            Provider::Api(api(vendor, own, defaults))
        }
        Some(ProviderKind::Program(CliAgentKind::Acp)) => {
            ignored(&own.model, "acp");
            ignored(&own.inference, "acp");
            Provider::Acp {
                argv: command_argv(cursor, own, defaults),
            }
        }
        Some(ProviderKind::Program(program)) => {
            ignored(&own.inference, program.as_str());
            ignored(&own.command, program.as_str());
            let model = own.model.as_ref().map(Cursor::single_line);
            // A model in `runtime` belongs to the provider in `runtime`.
            let inherited = || {
                let model = defaults.model.clone();
                model.filter(|_| defaults.kind == kind)
            };
            Provider::Program {
                program,
                model: model.or_else(inherited),
            }
        }
        Some(ProviderKind::Command) => {
            ignored(&own.model, "command");
            ignored(&own.inference, "command");
            Provider::Command {
                argv: command_argv(cursor, own, defaults),
            }
        }
        None => Provider::Command { argv: Vec::new() },
    }
}

/// The command that starts an agent: its own, or the one of `runtime`.
fn command_argv(cursor: &Cursor<'_>, own: &Own<'_>, defaults: &Defaults<'_>) -> Vec<String> {
    let chosen = own.command.as_ref().map(argv);
    let inherited = || defaults.command.as_ref().map(|(_, argv)| argv.clone());
    chosen.or_else(inherited).unwrap_or_else(|| {
        cursor.invalid("`command` is missing, here and in `runtime`");
        Vec::new()
    })
}

fn scripted(defaults: &Defaults<'_>) -> Provider {
    let script = defaults.script.as_ref().map(|(_, script)| script.clone());
    if script.is_none() {
        defaults
            .cursor
            .invalid("`script` is missing; provider `scripted` needs it");
    }
    Provider::Scripted {
        script: script.unwrap_or_default(),
    }
}

fn api(vendor: Vendor, own: &Own<'_>, defaults: &Defaults<'_>) -> Api {
    if defaults.base.is_none() {
        let missing = |location: &str| {
            let name = vendor.name();
            let message = format!("`host` is missing; provider `{name}` needs {location}");
            defaults.cursor.invalid(message);
        };
        match vendor {
            Vendor::Ollama => missing("the address of your server"),
            Vendor::Azure => missing("your own address: `https://NAME.openai.azure.com`"),
            Vendor::Anthropic | Vendor::OpenAi | Vendor::Gemini | Vendor::Bedrock => {}
        }
    }
    let model = own.model.as_ref().map(Cursor::single_line);
    let inference = own.inference.as_ref().map(Inference::block);
    Api {
        vendor,
        model: model
            .or_else(|| defaults.model.clone())
            .unwrap_or_else(|| vendor.model().to_owned()),
        base: defaults.base.as_ref().map(|base| vendor.path(base)),
        region: match vendor {
            Vendor::Bedrock => defaults.region.as_ref().map(|(_, name)| name.clone()),
            _ => None,
        },
        inference: inference.unwrap_or_default().or(defaults.inference),
    }
}

/// Reports settings in `runtime` that no agent uses.
pub(super) fn report_unused(defaults: &Defaults<'_>, asked: &[Option<ProviderKind>]) {
    // A provider that was rejected might have used them.
    if asked.is_empty() || asked.contains(&None) {
        return;
    }
    let asks = |kind: ProviderKind| asked.contains(&Some(kind));
    if let Some((cursor, _)) = &defaults.script
        && !asks(ProviderKind::Scripted)
    {
        cursor.invalid("would be ignored: no agent's provider is `scripted`");
    }
    let acp = ProviderKind::Program(CliAgentKind::Acp);
    if let Some((cursor, _)) = &defaults.command
        && !asks(ProviderKind::Command)
        && !asks(acp)
    {
        cursor.invalid("would be ignored: no agent's provider is `command` or `acp`");
    }
    let chooses_no_model =
        |kind: &Option<ProviderKind>| [Some(ProviderKind::Command), Some(acp)].contains(kind);
    if asked.iter().all(chooses_no_model) {
        let name = if asks(acp) { "acp" } else { "command" };
        for cursor in &defaults.model_settings {
            cursor.invalid(format!(
                "would be ignored: provider `{name}` has no choice of models"
            ));
        }
        return;
    }
    // The scripted provider replaces any model, so it accepts a region.
    let regional = [ProviderKind::Api(Vendor::Bedrock), ProviderKind::Scripted];
    let used = regional.iter().any(|kind| asked.contains(&Some(*kind)));
    if let (Some((cursor, _)), false) = (&defaults.region, used) {
        cursor.invalid("would be ignored: no agent's provider is `bedrock`");
    }
}

/// Parses the name of a provider; `None` if it is unknown, which is reported.
pub(super) fn provider_kind(cursor: &Cursor<'_>) -> Option<ProviderKind> {
    let text = cursor.single_line();
    if let Some((_, kind)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Some(*kind);
    }
    if !text.is_empty() {
        let message = format!("unknown provider `{}`", shortened(&text));
        cursor.unknown(message, &text, NAMES.iter().map(|(name, _)| *name));
    }
    None
}

/// Parses the base URL of an API, and appends the version if it is missing.
pub(super) fn base(cursor: &Cursor<'_>) -> String {
    let text = cursor.single_line();
    let base = text.trim_end_matches('/');
    let host = base
        .strip_prefix("http://")
        .or_else(|| base.strip_prefix("https://"));
    if host.is_none_or(|host| host.is_empty() || host.contains(['?', '#', '@', ' '])) {
        cursor.invalid("must be an address like `http://127.0.0.1:8080`");
    }
    if base.ends_with("/v1") {
        base.to_owned()
    } else {
        format!("{base}/v1")
    }
}

/// Parses the name of a region, which becomes part of a host name.
pub(super) fn region(cursor: &Cursor<'_>) -> String {
    let text = cursor.single_line();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.len() > 32 || !text.chars().all(fits) {
        cursor.invalid("must be a region like `eu-west-1`");
    }
    text
}

/// Parses a program and its arguments.
pub(super) fn argv(cursor: &Cursor<'_>) -> Vec<String> {
    let words: Vec<_> = cursor
        .list(1)
        .iter()
        .map(|word| (word.clone(), word.text()))
        .collect();
    for (n, (cursor, word)) in words.iter().enumerate() {
        if word.contains('\0') {
            cursor.invalid("must not contain a NUL character");
        }
        if n == 0 && word.is_empty() {
            cursor.invalid("must name a program");
        }
    }
    words.into_iter().map(|(_, word)| word).collect()
}
