//! The `agents` block: the prompt, provider, tools and permissions of each agent.

use std::collections::BTreeMap;

use super::cursor::Cursor;
use super::fields::Keys;
use super::provider::{self, Defaults, Own, Provider, ProviderKind, provider_kind};
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

/// Whether a model may call a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Permission {
    #[default]
    Allow,
    /// A human decides on each call.
    Ask,
    Deny,
}

/// The permissions of an agent's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    tools: BTreeMap<String, Permission>,
}

impl Permissions {
    /// The key for all tools that are not named.
    const OTHERS: &str = "*";

    fn read(cursor: &Cursor<'_>, tools: &[String]) -> Self {
        let tools = cursor.entries().into_iter().map(|(name, cursor)| {
            if name != Self::OTHERS && !tools.iter().any(|tool| tool == name) {
                tools::check_name(&cursor, name, "would be ignored: this agent has no tool");
            }
            let permission = cursor.choice(&[
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

    /// The permission of a tool: its own, else that of `*`, else `allow`.
    pub fn of(&self, tool: &str) -> Permission {
        let found = self
            .tools
            .get(tool)
            .or_else(|| self.tools.get(Self::OTHERS));
        found.copied().unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The system prompt, a template.
    pub prompt: String,
    /// The agent's own provider, or the one of `runtime`.
    pub provider: Provider,
    /// What it may call, if it is a model: its own choice, or all tools that the spec declares.
    pub tools: Vec<String>,
    pub permissions: Permissions,
    /// What its prompt must look like, where the prompt is JSON.
    pub input_schema: Option<Schema>,
    pub output_schema: Option<Schema>,
}

/// `jit` are tools that every agent has in addition to its own.
pub(super) fn read(
    cursor: &Cursor<'_>,
    defaults: &Defaults<'_>,
    jit: &[String],
) -> BTreeMap<String, Agent> {
    let entries = cursor.identifier_entries();
    if cursor.is_map() && entries.is_empty() {
        cursor.invalid("must have at least 1 item");
    }
    let mut asked = Vec::new();
    let mut agents = BTreeMap::new();
    for (name, cursor) in entries {
        // The file of the `$ref` could not be read, which is already reported.
        if cursor.has("$ref") {
            continue;
        }
        let (agent, kind) = agent(&cursor, defaults, jit);
        asked.push(kind);
        agents.insert(name.to_owned(), agent);
    }
    provider::report_unused(defaults, &asked);
    agents
}

fn agent(
    cursor: &Cursor<'_>,
    defaults: &Defaults<'_>,
    jit: &[String],
) -> (Agent, Option<ProviderKind>) {
    let fields = cursor.fields(&KEYS);
    let kind = match fields.get("provider") {
        Some(provider) => provider_kind(&provider),
        None => defaults.kind,
    };
    let own = Own {
        command: fields.get("command"),
        model: fields.get("model_id"),
        inference: fields.get("inference"),
    };
    let chosen = fields.get("tools");
    let own_tools = match kind {
        Some(ProviderKind::Command) => Some("command"),
        Some(ProviderKind::Program(program)) => Some(program.as_str()),
        _ => None,
    };
    if let Some(name) = own_tools {
        let given = [chosen.clone(), fields.get("permissions")];
        for given in given
            .iter()
            .flatten()
            .filter(|given| !given.is_empty_collection())
        {
            given.invalid(format!(
                "would be ignored: provider `{name}` has its own tools"
            ));
        }
        if cursor.guardrails().deny_network {
            cursor.unsupported(format!("`deny_network` in `security` cannot be enforced with provider `{name}`: Segno does not control what the program does"));
        }
    }
    let mut tools = match chosen {
        Some(chosen) => list(&chosen),
        None => cursor.declared().usable(cursor.guardrails()),
    };
    for name in jit {
        if !tools.contains(name) {
            tools.push(name.clone());
        }
    }
    let schema = |key: &str| fields.get(key).and_then(|cursor| Schema::read(&cursor));
    let agent = Agent {
        input_schema: schema("input_schema"),
        output_schema: schema("output_schema"),
        permissions: fields.read("permissions", |cursor| Permissions::read(&cursor, &tools)),
        tools,
        // A prompt that cannot be rendered is sent verbatim: some prompts only mention template
        // syntax.
        prompt: fields.read("prompt", |prompt| prompt.text()),
        provider: provider::choose(cursor, kind, &own, defaults),
    };
    (agent, kind)
}
