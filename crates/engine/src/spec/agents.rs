//! The `agents` block: who is asked, with which words, through what.

use std::collections::BTreeMap;

use super::fields::Keys;
use super::place::Place;
use super::provider::{self, Defaults, Own, Provider, Sort, sort};
use super::tools::list;

const NO_PERMISSIONS: &str = "this version gives agents no permissions of their own";
const NO_SCHEMA: &str = "this version does not check answers against schemas";
const KEYS: Keys = Keys {
    required: &["prompt"],
    optional: &["provider", "command", "model_id", "inference", "tools"],
    later: &[
        ("permissions", NO_PERMISSIONS),
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
    /// What it may ask for, if it is a model: its own choice, or all that the spec declares.
    pub tools: Vec<String>,
}

/// `declared` are the tools of an agent that chooses none.
pub(super) fn read(
    place: &Place<'_>,
    defaults: &Defaults<'_>,
    declared: &[String],
) -> BTreeMap<String, Agent> {
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
        let (agent, sort) = agent(&place, defaults, declared);
        asked.push(sort);
        agents.insert(name.to_owned(), agent);
    }
    provider::unused(defaults, &asked);
    agents
}

fn agent(place: &Place<'_>, defaults: &Defaults<'_>, declared: &[String]) -> (Agent, Option<Sort>) {
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
    let tools = fields.get("tools");
    if sort == Some(Sort::Command)
        && let Some(tools) = tools.as_ref().filter(|tools| !tools.asks_for_nothing())
    {
        tools.invalid("would be ignored: provider `command` has its own tools");
    }
    let agent = Agent {
        tools: tools.map_or_else(|| declared.to_vec(), |tools| list(&tools)),
        // Where it cannot be rendered it is sent as it stands: some prompts only speak of templates.
        prompt: fields.read("prompt", |prompt| prompt.text()),
        provider: provider::choose(place, sort, &own, defaults),
    };
    (agent, sort)
}
