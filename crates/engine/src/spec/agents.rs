//! The `agents` block: who is asked, with which words, through what.

use std::collections::BTreeMap;

use super::fields::Keys;
use super::place::Place;
use super::provider::{self, Defaults, Own, Provider, Sort, sort};

const NO_TOOLS: &str = "this version offers agents no tools";
const NO_SCHEMA: &str = "this version does not check answers against schemas";
const KEYS: Keys = Keys {
    required: &["prompt"],
    optional: &["provider", "command", "model_id", "inference"],
    later: &[
        ("tools", NO_TOOLS),
        ("permissions", NO_TOOLS),
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

/// One agent.
#[derive(Debug, Clone, PartialEq)]
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
    provider::unused(defaults, &asked);
    agents
}

fn agent(place: &Place<'_>, defaults: &Defaults<'_>) -> (Agent, Option<Sort>) {
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
    let agent = Agent {
        // Where it cannot be rendered it is sent as it stands: some prompts only speak of templates.
        prompt: fields.read("prompt", |prompt| prompt.text()),
        provider: provider::choose(place, sort, &own, defaults),
    };
    (agent, sort)
}
