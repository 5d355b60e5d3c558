//! The `pattern` block: what is done, in which order.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::Keys;
use super::inputs::variables;
use super::place::{Place, shortened};

const KEYS: Keys = Keys {
    required: &["type", "config"],
    optional: &[],
    later: &[],
};
const CHAIN_KEYS: Keys = Keys {
    required: &["steps"],
    optional: &[],
    later: &[],
};
const STEP_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["input", "vars"],
    later: &[("tool_overrides", "this version offers agents no tools")],
};
/// A step that asks a person. It is refused as a whole, by its `type`; its other keys are only
/// checked for slips.
const PERSON_KEYS: Keys = Keys {
    required: &["type", "prompt"],
    optional: &["context_display", "default", "timeout_seconds"],
    later: &[],
};
/// A step cannot be both; it is told so once, not for each key that belongs to the other.
const BOTH_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &[
        "input",
        "vars",
        "type",
        "prompt",
        "context_display",
        "default",
        "timeout_seconds",
        "tool_overrides",
    ],
    later: &[],
};

/// Patterns of the format that a later version runs.
const LATER: [&str; 6] = [
    "workflow",
    "routing",
    "parallel",
    "evaluator_optimizer",
    "orchestrator_workers",
    "graph",
];

/// What is done, in which order.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// One step after the other.
    Chain(Chain),
}

impl Default for Pattern {
    fn default() -> Self {
        Self::Chain(Chain::default())
    }
}

/// Steps in order; the result is the last response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chain {
    /// At least one.
    pub steps: Vec<Step>,
}

/// One question to one agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Who is asked: a name in the workflow's agents.
    pub agent: String,
    /// What is asked, a template. `None`: the previous step's response, or nothing for the first.
    pub input: Option<String>,
    /// What this step's templates see in addition to the inputs.
    pub vars: BTreeMap<String, Value>,
}

/// `agents` are the names that steps may use.
pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Pattern {
    let fields = place.fields(&KEYS);
    let name = fields.read("type", |place| place.line_of_text());
    match (name.as_str(), fields.get("type"), fields.get("config")) {
        ("chain", _, Some(config)) => return Pattern::Chain(chain(&config, agents)),
        ("chain" | "", ..) | (_, None, _) => {}
        (later, Some(place), _) if LATER.contains(&later) => place.unsupported(format!(
            "pattern `{later}` is not supported yet; this version runs `chain`"
        )),
        (other, Some(place), _) => {
            let known = ["chain"].into_iter().chain(LATER);
            place.unknown(
                format!("no such pattern: `{}`", shortened(other)),
                other,
                known,
            );
        }
    }
    Pattern::default()
}

fn chain(place: &Place<'_>, agents: &[&str]) -> Chain {
    let fields = place.fields(&CHAIN_KEYS);
    let places = fields.read("steps", |place| place.list(1));
    Chain {
        steps: places.iter().map(|place| step(place, agents)).collect(),
    }
}

fn step(place: &Place<'_>, agents: &[&str]) -> Step {
    if place.has("type") && !place.has("agent") {
        person(place);
        return Step::default();
    }
    let keys = if place.has("type") {
        place.invalid("is either a step with an `agent` or one with a `type`, never both");
        &BOTH_KEYS
    } else {
        &STEP_KEYS
    };
    let fields = place.fields(keys);
    let agent = fields.read("agent", |place| {
        let name = place.line_of_text();
        // Without any agents that is the problem, not each step.
        if !name.is_empty() && !agents.is_empty() && !agents.contains(&name.as_str()) {
            let message = format!("no such agent: `{}`", shortened(&name));
            place.unknown(message, &name, agents.iter().copied());
        }
        name
    });
    let vars = fields.read("vars", |place| variables(&place));
    Step {
        agent,
        input: fields.get("input").map(|place| place.template()),
        vars: vars
            .into_iter()
            .map(|(name, place)| (name.to_owned(), place.scalar()))
            .collect(),
    }
}

fn person(place: &Place<'_>) {
    let fields = place.fields(&PERSON_KEYS);
    if let Some(name) = fields.get("type") {
        match name.line_of_text().as_str() {
            "hitl" => name.unsupported("not supported yet: this version cannot ask a person"),
            other => name.unknown("the only `type` of a step is `hitl`", other, ["hitl"]),
        }
    }
    for template in ["prompt", "context_display"] {
        fields.read(template, |place| place.template());
    }
    if let Some(timeout) = fields.get("timeout_seconds") {
        timeout.integer(0..=u32::MAX);
    }
}
