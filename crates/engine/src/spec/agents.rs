//! The `agents` block: who is asked, with which words, through what.

use std::collections::BTreeMap;

use super::fields::Keys;
use super::place::{Place, quoted, shortened};
use super::runtime::Defaults;

const NO_TOOLS: &str = "this version offers agents no tools";
const NO_SCHEMA: &str = "this version does not check answers against schemas";
const KEYS: Keys = Keys {
    required: &["prompt"],
    optional: &["provider", "command"],
    later: &[
        ("tools", NO_TOOLS),
        ("permissions", NO_TOOLS),
        (
            "model_id",
            "providers `scripted` and `command` choose no model, so it would be ignored",
        ),
        (
            "inference",
            "providers `scripted` and `command` take no such settings",
        ),
        ("input_schema", NO_SCHEMA),
        ("output_schema", NO_SCHEMA),
    ],
};
/// An agent that is kept in a file of its own. It is refused as a whole; its keys are only checked
/// for slips.
const REFERENCE_KEYS: Keys = Keys {
    required: &["$ref"],
    optional: &["tools", "provider", "model_id", "inference"],
    later: &[],
};

/// Providers of the format that a later version speaks to.
const LATER: [&str; 9] = [
    "anthropic",
    "openai",
    "ollama",
    "bedrock",
    "gemini",
    "azure_openai",
    "claude-code",
    "codex",
    "acp",
];
const NOW: [(&str, Sort); 2] = [("scripted", Sort::Scripted), ("command", Sort::Command)];

/// A provider by name, before it is known what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Scripted,
    Command,
}

/// What answers for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

impl Provider {
    /// The name that the format gives it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scripted { .. } => "scripted",
            Self::Command { .. } => "command",
        }
    }

    /// Everything about it that an answer depends on, as one text.
    pub fn identity(&self) -> String {
        match self {
            Self::Scripted { script } => format!("scripted {script:?}"),
            Self::Command { argv } => format!("command {argv:?}"),
        }
    }
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Who it is: a template.
    pub prompt: String,
    /// What answers for it: its own choice, or what `runtime` says.
    pub provider: Provider,
}

pub(super) fn read(place: &Place<'_>, defaults: &Defaults<'_>) -> BTreeMap<String, Agent> {
    let entries = place.named();
    if place.is_map() && entries.is_empty() {
        place.invalid("must hold at least 1");
    }
    let mut asked = Vec::new();
    let mut agents = BTreeMap::new();
    for (name, place) in entries {
        if place.has("$ref") {
            if let Some(file) = place.fields(&REFERENCE_KEYS).get("$ref") {
                file.unsupported("not supported yet: write the agent into this file");
            }
            continue;
        }
        let (agent, sort) = agent(&place, defaults);
        asked.push(sort);
        agents.insert(name.to_owned(), agent);
    }
    unused(defaults, &asked);
    agents
}

fn agent(place: &Place<'_>, defaults: &Defaults<'_>) -> (Agent, Option<Sort>) {
    let fields = place.fields(&KEYS);
    let sort = match fields.get("provider") {
        Some(provider) => sort(&provider),
        None => defaults.sort,
    };
    let own = fields.get("command");
    let provider = if sort == Some(Sort::Scripted) {
        if let Some(own) = own {
            own.invalid("would be ignored: this agent's provider is `scripted`");
        }
        scripted(defaults)
    } else {
        let own = own.as_ref().map(argv);
        let inherited = defaults.command.as_ref().map(|(_, argv)| argv.clone());
        let argv = own.or(inherited);
        if argv.is_none() && sort.is_some() {
            place.invalid("`command` is missing, here and in `runtime`");
        }
        Provider::Command {
            argv: argv.unwrap_or_default(),
        }
    };
    // Where it cannot be rendered it is sent as it stands: some prompts only speak of templates.
    let prompt = fields.read("prompt", |prompt| prompt.text());
    (Agent { prompt, provider }, sort)
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

/// What no agent will look at must not stand there as if it did something.
fn unused(defaults: &Defaults<'_>, asked: &[Option<Sort>]) {
    // A provider that was refused might have looked at it.
    if asked.is_empty() || asked.contains(&None) {
        return;
    }
    let ignored = [
        (
            defaults.script.as_ref().map(|(place, _)| place),
            Sort::Scripted,
        ),
        (
            defaults.command.as_ref().map(|(place, _)| place),
            Sort::Command,
        ),
    ];
    for (place, sort) in ignored {
        if let Some(place) = place
            && !asked.contains(&Some(sort))
        {
            let name = if sort == Sort::Scripted {
                "scripted"
            } else {
                "command"
            };
            place.invalid(format!("would be ignored: no agent's provider is `{name}`"));
        }
    }
}

/// A provider's name; `None` if it was refused.
pub(super) fn sort(place: &Place<'_>) -> Option<Sort> {
    let text = place.line_of_text();
    let now = NOW.iter().map(|(name, _)| *name);
    if let Some((_, sort)) = NOW.iter().find(|(name, _)| *name == text) {
        return Some(*sort);
    }
    if LATER.contains(&text.as_str()) {
        place.unsupported(format!(
            "provider `{text}` is not supported yet; this version runs {}",
            quoted(now)
        ));
    } else if !text.is_empty() {
        let message = format!("no such provider: `{}`", shortened(&text));
        place.unknown(message, &text, now.chain(LATER));
    }
    None
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
