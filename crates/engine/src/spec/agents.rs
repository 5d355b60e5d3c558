//! The `agents` block: who is asked, with which words, through what.

use std::collections::BTreeMap;

use super::fields::Keys;
use super::place::Place;
use super::provider::{self, Defaults, Own, Provider, Sort, sort};
use super::schema::Schema;
use super::tools::{self, list};

const KEYS: Keys = Keys {
    required: &["prompt"],
    optional: &[
        "provider",
        "command",
        "model_id",
        "inference",
        "tools",
        "input_schema",
        "output_schema",
        "permissions",
    ],
};

/// Whether a tool is used when a model asks for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Permission {
    /// Yes.
    #[default]
    Allow,
    /// If a person says so, each time.
    Ask,
    /// No.
    Deny,
}

/// What a model may do with its tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    tools: BTreeMap<String, Permission>,
}

impl Permissions {
    /// The word for all tools that are not named.
    const OTHERS: &str = "*";

    fn read(place: &Place<'_>, tools: &[String]) -> Self {
        let tools = place.entries().into_iter().map(|(name, place)| {
            if name != Self::OTHERS && !tools.iter().any(|tool| tool == name) {
                tools::check_name(&place, name, "would be ignored: this agent has no tool");
            }
            let permission = place.choice(&[
                ("allow", Permission::Allow),
                ("ask", Permission::Ask),
                ("deny", Permission::Deny),
            ]);
            (name.to_owned(), permission)
        });
        Self {
            tools: tools.collect(),
        }
    }

    /// What holds for a tool.
    pub fn of(&self, tool: &str) -> Permission {
        let found = self
            .tools
            .get(tool)
            .or_else(|| self.tools.get(Self::OTHERS));
        found.copied().unwrap_or_default()
    }
}

/// One agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Who it is: a template.
    pub prompt: String,
    /// What answers for it: its own choice, or what `runtime` says.
    pub provider: Provider,
    /// What it may ask for, if it is a model: its own choice, or all that the spec declares.
    pub tools: Vec<String>,
    /// What it may do with them.
    pub permissions: Permissions,
    /// What it must be asked, where it is asked JSON.
    pub input_schema: Option<Schema>,
    /// What it must answer.
    pub output_schema: Option<Schema>,
}

/// `jit` are tools that every agent has besides its own.
pub(super) fn read(
    place: &Place<'_>,
    defaults: &Defaults<'_>,
    jit: &[String],
) -> BTreeMap<String, Agent> {
    let entries = place.named();
    if place.is_map() && entries.is_empty() {
        place.invalid("must hold at least 1");
    }
    let mut asked = Vec::new();
    let mut agents = BTreeMap::new();
    for (name, place) in entries {
        // What it refers to could not be read, which was told.
        if place.has("$ref") {
            continue;
        }
        let (agent, sort) = agent(&place, defaults, jit);
        asked.push(sort);
        agents.insert(name.to_owned(), agent);
    }
    provider::unused(defaults, &asked);
    agents
}

fn agent(place: &Place<'_>, defaults: &Defaults<'_>, jit: &[String]) -> (Agent, Option<Sort>) {
    let fields = place.fields(&KEYS);
    let sort = match fields.get("provider") {
        Some(provider) => sort(&provider),
        None => defaults.sort,
    };
    let own = Own {
        command: fields.get("command"),
        model: fields.get("model_id"),
        inference: fields.get("inference"),
    };
    let chosen = fields.get("tools");
    let own_tools = match sort {
        Some(Sort::Command) => Some("command"),
        Some(Sort::Program(program)) => Some(program.as_str()),
        _ => None,
    };
    if let Some(name) = own_tools {
        let given = [chosen.clone(), fields.get("permissions")];
        for given in given
            .iter()
            .flatten()
            .filter(|given| !given.asks_for_nothing())
        {
            given.invalid(format!(
                "would be ignored: provider `{name}` has its own tools"
            ));
        }
        if place.guardrails().deny_network {
            place.unsupported(format!("`deny_network` in `security` cannot be kept with provider `{name}`: what a program does is its own affair"));
        }
    }
    let mut tools = match chosen {
        Some(chosen) => list(&chosen),
        None => place.declared().usable(place.guardrails()),
    };
    for name in jit {
        if !tools.contains(name) {
            tools.push(name.clone());
        }
    }
    let schema = |key: &str| fields.get(key).and_then(|place| Schema::read(&place));
    let agent = Agent {
        input_schema: schema("input_schema"),
        output_schema: schema("output_schema"),
        permissions: fields.read("permissions", |place| Permissions::read(&place, &tools)),
        tools,
        // Where it cannot be rendered it is sent as it stands: some prompts only speak of templates.
        prompt: fields.read("prompt", |prompt| prompt.text()),
        provider: provider::choose(place, sort, &own, defaults),
    };
    (agent, sort)
}
