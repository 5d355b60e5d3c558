//! Who answers for an agent: what `runtime` says, and what an agent says otherwise.

use segno_core::companion::Program;

use super::fields::{Fields, Keys};
use super::place::{Place, shortened};

const NAMES: [(&str, Sort); 11] = [
    ("anthropic", Sort::Api(Vendor::Anthropic)),
    ("openai", Sort::Api(Vendor::OpenAi)),
    ("azure_openai", Sort::Api(Vendor::Azure)),
    ("gemini", Sort::Api(Vendor::Gemini)),
    ("bedrock", Sort::Api(Vendor::Bedrock)),
    ("ollama", Sort::Api(Vendor::Ollama)),
    ("claude-code", Sort::Program(Program::ClaudeCode)),
    ("codex", Sort::Program(Program::Codex)),
    ("acp", Sort::Program(Program::Acp)),
    ("command", Sort::Command),
    ("scripted", Sort::Scripted),
];

const INFERENCE_KEYS: Keys = Keys {
    required: &[],
    optional: &["temperature", "top_p", "max_tokens"],
};

/// Whose API it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// The Messages API.
    Anthropic,
    /// Chat completions.
    OpenAi,
    /// Chat completions, at a place of one's own.
    Azure,
    /// Chat completions too.
    Gemini,
    /// The Converse API, in some region.
    Bedrock,
    /// Chat completions, without a key.
    Ollama,
}

impl Vendor {
    /// The name that the format gives it.
    pub fn name(self) -> &'static str {
        let sort = Sort::Api(self);
        let known = NAMES.iter().find(|(_, known)| *known == sort);
        known.map_or("", |(name, _)| name)
    }

    /// An address with what this vendor puts between host and version.
    fn path(self, base: &str) -> String {
        match (self, base.strip_suffix("/v1")) {
            (Self::Azure, Some(host)) if !host.ends_with("/openai") => format!("{host}/openai/v1"),
            // Its own address has another version, in another place.
            (Self::Gemini, Some(host)) if host.ends_with("/openai") => host.to_owned(),
            // It has none.
            (Self::Bedrock, Some(host)) => host.to_owned(),
            _ => base.to_owned(),
        }
    }

    /// The model that is asked unless the spec names one.
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

/// A provider by name, before it is known what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Api(Vendor),
    Program(Program),
    Command,
    Scripted,
}

/// What answers for an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Provider {
    /// A file of answers.
    Scripted {
        /// The file, as the spec names it.
        script: String,
    },
    /// A program: the prompt on its stdin, the answer on its stdout.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// A model behind an API.
    Api(Api),
    /// An agent that speaks the Agent Client Protocol, and keeps its conversation itself.
    Acp {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// An agent's program that is known by name, and keeps its conversation itself.
    Program {
        /// Which one.
        program: Program,
        /// The model that it is to use, if the spec names one.
        model: Option<String>,
    },
}

/// A model behind an API.
#[derive(Debug, Clone, PartialEq)]
pub struct Api {
    /// Whose API it is.
    pub vendor: Vendor,
    /// The model.
    pub model: String,
    /// Where it is, with its version, if the spec says so: `http://127.0.0.1:8080/v1`.
    pub base: Option<String>,
    /// The region that the spec names: letters, digits and hyphens.
    pub region: Option<String>,
    /// How it is to answer.
    pub inference: Inference,
}

/// How a model is to answer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Inference {
    /// From 0 to 2.
    pub temperature: Option<f64>,
    /// From 0 to 1.
    pub top_p: Option<f64>,
    /// How long an answer may be.
    pub max_tokens: Option<u32>,
}

impl Inference {
    /// From a block whose table names these keys.
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let number =
            |key: &str, most: f64| fields.get(key).map(|place| place.number(&(0.0..=most)));
        Self {
            temperature: number("temperature", 2.0),
            top_p: number("top_p", 1.0),
            max_tokens: fields
                .get("max_tokens")
                .map(|place| place.integer(1..=u32::MAX)),
        }
    }

    /// From a block of its own.
    pub(super) fn block(place: &Place<'_>) -> Self {
        Self::read(&place.fields(&INFERENCE_KEYS))
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
    /// The name that the format gives it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scripted { .. } => "scripted",
            Self::Command { .. } => "command",
            Self::Api(api) => api.vendor.name(),
            Self::Acp { .. } => Program::Acp.as_str(),
            Self::Program { program, .. } => program.as_str(),
        }
    }

    /// The model, where one is chosen.
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Api(api) => Some(&api.model),
            Self::Program { model, .. } => model.as_deref(),
            Self::Scripted { .. } | Self::Command { .. } | Self::Acp { .. } => None,
        }
    }

    /// Everything about it that an answer depends on, as one text.
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

/// What agents inherit from `runtime`.
pub(super) struct Defaults<'a> {
    pub(super) place: Place<'a>,
    /// `None` if it was refused.
    pub(super) sort: Option<Sort>,
    pub(super) script: Option<(Place<'a>, String)>,
    pub(super) command: Option<(Place<'a>, Vec<String>)>,
    pub(super) model: Option<String>,
    pub(super) base: Option<String>,
    pub(super) region: Option<(Place<'a>, String)>,
    pub(super) inference: Inference,
    /// What is said about models: somebody must look at it.
    pub(super) of_models: Vec<Place<'a>>,
}

/// What an agent says for itself.
pub(super) struct Own<'a> {
    pub(super) command: Option<Place<'a>>,
    pub(super) model: Option<Place<'a>>,
    pub(super) inference: Option<Place<'a>>,
}

/// What answers for the agent at `place`.
pub(super) fn choose(
    place: &Place<'_>,
    sort: Option<Sort>,
    own: &Own<'_>,
    defaults: &Defaults<'_>,
) -> Provider {
    let ignored = |given: &Option<Place<'_>>, name: &str| {
        if let Some(given) = given {
            given.invalid(format!(
                "would be ignored: this agent's provider is `{name}`"
            ));
        }
    };
    match sort {
        // It stands in for any model, so it takes what is said about models.
        Some(Sort::Scripted) => {
            ignored(&own.command, "scripted");
            scripted(defaults)
        }
        Some(Sort::Api(vendor)) => {
            ignored(&own.command, vendor.name());
            Provider::Api(api(vendor, own, defaults))
        }
        Some(Sort::Program(Program::Acp)) => {
            ignored(&own.model, "acp");
            ignored(&own.inference, "acp");
            Provider::Acp {
                argv: started_by(place, own, defaults),
            }
        }
        Some(Sort::Program(program)) => {
            ignored(&own.inference, program.as_str());
            ignored(&own.command, program.as_str());
            let model = own.model.as_ref().map(Place::line_of_text);
            // What `runtime` says of models is said of its own provider's.
            let inherited = || {
                let model = defaults.model.clone();
                model.filter(|_| defaults.sort == sort)
            };
            Provider::Program {
                program,
                model: model.or_else(inherited),
            }
        }
        Some(Sort::Command) => {
            ignored(&own.model, "command");
            ignored(&own.inference, "command");
            Provider::Command {
                argv: started_by(place, own, defaults),
            }
        }
        None => Provider::Command { argv: Vec::new() },
    }
}

/// The program that an agent is started with: its own choice, or what `runtime` says.
fn started_by(place: &Place<'_>, own: &Own<'_>, defaults: &Defaults<'_>) -> Vec<String> {
    let chosen = own.command.as_ref().map(argv);
    let inherited = || defaults.command.as_ref().map(|(_, argv)| argv.clone());
    chosen.or_else(inherited).unwrap_or_else(|| {
        place.invalid("`command` is missing, here and in `runtime`");
        Vec::new()
    })
}

fn scripted(defaults: &Defaults<'_>) -> Provider {
    let script = defaults.script.as_ref().map(|(_, script)| script.clone());
    if script.is_none() {
        defaults
            .place
            .invalid("`script` is missing: provider `scripted` answers from it");
    }
    Provider::Scripted {
        script: script.unwrap_or_default(),
    }
}

fn api(vendor: Vendor, own: &Own<'_>, defaults: &Defaults<'_>) -> Api {
    if defaults.base.is_none() {
        let missing = |place: &str| {
            let name = vendor.name();
            let message = format!("`host` is missing: provider `{name}` is {place}");
            defaults.place.invalid(message);
        };
        match vendor {
            Vendor::Ollama => missing("somewhere on your network"),
            Vendor::Azure => missing("at an address of your own: `https://NAME.openai.azure.com`"),
            Vendor::Anthropic | Vendor::OpenAi | Vendor::Gemini | Vendor::Bedrock => {}
        }
    }
    let model = own.model.as_ref().map(Place::line_of_text);
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

/// What no agent will look at must not stand there as if it did something.
pub(super) fn unused(defaults: &Defaults<'_>, asked: &[Option<Sort>]) {
    // A provider that was refused might have looked at it.
    if asked.is_empty() || asked.contains(&None) {
        return;
    }
    let asks = |sort: Sort| asked.contains(&Some(sort));
    if let Some((place, _)) = &defaults.script
        && !asks(Sort::Scripted)
    {
        place.invalid("would be ignored: no agent's provider is `scripted`");
    }
    let acp = Sort::Program(Program::Acp);
    if let Some((place, _)) = &defaults.command
        && !asks(Sort::Command)
        && !asks(acp)
    {
        place.invalid("would be ignored: no agent's provider is `command` or `acp`");
    }
    let chooses_no_model = |sort: &Option<Sort>| [Some(Sort::Command), Some(acp)].contains(sort);
    if asked.iter().all(chooses_no_model) {
        let name = if asks(acp) { "acp" } else { "command" };
        for place in &defaults.of_models {
            place.invalid(format!(
                "would be ignored: provider `{name}` chooses no model"
            ));
        }
        return;
    }
    // The stand-in for any model takes it, too.
    let regional = [Sort::Api(Vendor::Bedrock), Sort::Scripted];
    let used = regional.iter().any(|sort| asked.contains(&Some(*sort)));
    if let (Some((place, _)), false) = (&defaults.region, used) {
        place.invalid("would be ignored: no agent's provider is `bedrock`");
    }
}

/// A provider's name; `None` if it was refused.
pub(super) fn sort(place: &Place<'_>) -> Option<Sort> {
    let text = place.line_of_text();
    if let Some((_, sort)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Some(*sort);
    }
    if !text.is_empty() {
        let message = format!("no such provider: `{}`", shortened(&text));
        place.unknown(message, &text, NAMES.iter().map(|(name, _)| *name));
    }
    None
}

/// An address, with its version at the end.
pub(super) fn base(place: &Place<'_>) -> String {
    let text = place.line_of_text();
    let base = text.trim_end_matches('/');
    let host = base
        .strip_prefix("http://")
        .or_else(|| base.strip_prefix("https://"));
    if host.is_none_or(|host| host.is_empty() || host.contains(['?', '#', '@', ' '])) {
        place.invalid("must be an address like `http://127.0.0.1:8080`");
    }
    if base.ends_with("/v1") {
        base.to_owned()
    } else {
        format!("{base}/v1")
    }
}

/// A region. It becomes part of an address.
pub(super) fn region(place: &Place<'_>) -> String {
    let text = place.line_of_text();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.len() > 32 || !text.chars().all(fits) {
        place.invalid("must be a region like `eu-west-1`");
    }
    text
}

/// A program and its arguments.
pub(super) fn argv(place: &Place<'_>) -> Vec<String> {
    let words: Vec<_> = place
        .list(1)
        .iter()
        .map(|word| (word.clone(), word.text()))
        .collect();
    for (n, (place, word)) in words.iter().enumerate() {
        if word.contains('\0') {
            place.invalid("must not hold a NUL character");
        }
        if n == 0 && word.is_empty() {
            place.invalid("must name a program");
        }
    }
    words.into_iter().map(|(_, word)| word).collect()
}
