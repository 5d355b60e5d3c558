//! A step: a question to an agent, or to a person.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::spec::fields::{Fields, Keys};
use crate::spec::inputs::variables;
use crate::spec::place::{Place, shortened};
use crate::spec::tools::list;

const AGENT_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["input", "vars", "tool_overrides"],
};
const PERSON_KEYS: Keys = Keys {
    required: &["type", "prompt"],
    optional: &["context_display", "default", "timeout_seconds"],
};
/// A question that decides whether to go on may say what its answer looks like.
const REVIEW_KEYS: Keys = Keys {
    required: &["type", "prompt"],
    optional: &[
        "context_display",
        "default",
        "timeout_seconds",
        "validation",
    ],
};
const VALIDATION_KEYS: Keys = Keys {
    required: &["pattern"],
    optional: &[],
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
};

/// Something to be asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Of an agent.
    Agent(AgentStep),
    /// Of a person.
    Person(Person),
}

impl Step {
    /// Who is asked, as templates name it.
    pub fn agent(&self) -> &str {
        match self {
            Step::Agent(step) => &step.agent,
            Step::Person(_) => "hitl",
        }
    }
}

/// A question to an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentStep {
    /// Who is asked: a name in the workflow's agents.
    pub agent: String,
    /// What is asked, a template. What `None` means depends on where the step stands.
    pub input: Option<String>,
    /// What this step's templates see in addition to the inputs.
    pub vars: BTreeMap<String, Value>,
    /// What may be asked for in this step, instead of what the agent may ask for.
    pub tools: Option<Vec<String>>,
}

/// A question to a person.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Person {
    /// The question, in these very words.
    pub prompt: String,
    /// What is shown with it, a template.
    pub context_display: Option<String>,
    /// The answer if nobody gives one in time.
    pub default: Option<String>,
    /// How long an answer is waited for; forever if `None`.
    pub timeout: Option<Duration>,
    /// What an answer must look like: a regular expression.
    pub validation: Option<String>,
}

/// A step of either sort.
pub(super) fn read(place: &Place<'_>, agents: &[&str]) -> Step {
    if is_person(place) {
        return Step::Person(person(&place.fields(&PERSON_KEYS)));
    }
    let keys = if place.has("type") {
        place.invalid("is either a step with an `agent` or one with a `type`, never both");
        &BOTH_KEYS
    } else {
        &AGENT_KEYS
    };
    let fields = place.fields(keys);
    let vars = fields.read("vars", |place| variables(&place));
    Step::Agent(AgentStep {
        agent: fields.read("agent", |place| agent(&place, agents)),
        input: fields.get("input").map(|place| place.template()),
        vars: vars
            .into_iter()
            .map(|(name, place)| (name.to_owned(), place.scalar()))
            .collect(),
        tools: fields
            .get("tool_overrides")
            .filter(|place| !place.asks_for_nothing())
            .map(|place| list(&place)),
    })
}

/// Whether a step, task or node asks a person.
pub(super) fn is_person(place: &Place<'_>) -> bool {
    place.has("type") && !place.has("agent")
}

/// A question to a person, where only that may stand.
pub(super) fn review(place: &Place<'_>) -> Person {
    let fields = place.fields(&REVIEW_KEYS);
    let mut review = person(&fields);
    if let Some(validation) = fields.get("validation") {
        let pattern = validation.fields(&VALIDATION_KEYS).get("pattern");
        review.validation = pattern.map(|place| {
            let text = place.text();
            match regex::Regex::new(&text) {
                Err(error) => place.invalid(format!("is not a regular expression: {error}")),
                Ok(regex)
                    if review
                        .default
                        .as_ref()
                        .is_some_and(|word| !regex.is_match(word)) =>
                {
                    place.invalid("does not match the `default`");
                }
                Ok(_) => {}
            }
            text
        });
    }
    review
}

/// The fields of a question to a person, in a block whose table names them.
pub(super) fn person(fields: &Fields<'_>) -> Person {
    if let Some(kind) = fields.get("type") {
        match kind.line_of_text().as_str() {
            "hitl" | "" => {}
            other => kind.unknown("the only `type` of a step is `hitl`", other, ["hitl"]),
        }
    }
    Person {
        prompt: fields.read("prompt", |place| place.text()),
        context_display: fields.get("context_display").map(|place| place.template()),
        default: fields.get("default").map(|place| match place.scalar() {
            Value::String(text) => text,
            other => other.to_string(),
        }),
        timeout: fields
            .get("timeout_seconds")
            .map(|place| u64::from(place.integer(0..=u32::MAX)))
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
        validation: None,
    }
}

/// The name of an agent that there is.
pub(super) fn agent(place: &Place<'_>, agents: &[&str]) -> String {
    let name = place.line_of_text();
    // Without any agents that is the problem, not each step.
    if !name.is_empty() && !agents.is_empty() && !agents.contains(&name.as_str()) {
        let message = format!("no such agent: `{}`", shortened(&name));
        place.unknown(message, &name, agents.iter().copied());
    }
    name
}
