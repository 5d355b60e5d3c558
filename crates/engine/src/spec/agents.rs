//! The `agents` block: who is asked, with which words, through what.

use std::collections::BTreeMap;

use super::fields::Keys;
use super::place::Place;
use super::provider::{self, Defaults, Own, Provider, Sort, sort};
use super::schema::Schema;
use super::tools::list;

const NO_PERMISSIONS: &str = "this version gives agents no permissions of their own";
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
    ],
    later: &[("permissions", NO_PERMISSIONS)],
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
    /// What it must be asked, where it is asked JSON.
    pub input_schema: Option<Schema>,
    /// What it must answer.
    pub output_schema: Option<Schema>,
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
        // What it refers to could not be read, which was told.
        if place.has("$ref") {
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
    let schema = |key: &str| fields.get(key).and_then(|place| Schema::read(&place));
    let agent = Agent {
        input_schema: schema("input_schema"),
        output_schema: schema("output_schema"),
        tools: tools.map_or_else(|| declared.to_vec(), |tools| list(&tools)),
        // Where it cannot be rendered it is sent as it stands: some prompts only speak of templates.
        prompt: fields.read("prompt", |prompt| prompt.text()),
        provider: provider::choose(place, sort, &own, defaults),
    };
    (agent, sort)
}
