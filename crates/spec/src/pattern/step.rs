//! A step: a prompt to an agent, or a question to a human.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use segno_core::step::Path;
use serde_json::Value;

use crate::cursor::{Cursor, shortened};
use crate::fields::{Fields, Keys};
use crate::inputs::variables;
use crate::tools::list;

const AGENT_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &["id", "input", "vars", "tool_overrides"],
};
const PERSON_KEYS: Keys = Keys {
    required: &["type", "prompt"],
    optional: &["id", "context_display", "default", "timeout_seconds"],
};
/// A review may restrict the form of its answer.
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
/// A step with both an `agent` and a `type` is reported once, not once per key.
const BOTH_KEYS: Keys = Keys {
    required: &["agent"],
    optional: &[
        "id",
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

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Agent(AgentStep),
    Human(HumanQuestion),
}

impl Step {
    /// The name that templates use: the agent, or `hitl`.
    pub fn agent(&self) -> &str {
        match self {
            Step::Agent(step) => &step.agent,
            Step::Human(_) => "hitl",
        }
    }
}

/// A step of a list: of a chain, a route or a branch.
#[derive(Debug, Clone, PartialEq)]
pub struct ListStep {
    /// Its name; without one, its position identifies it.
    pub id: Option<String>,
    pub step: Step,
}

impl ListStep {
    /// The path of the step in the list at `list`. Two steps of a list never share a path: ids are
    /// unique, and none of them is a number.
    pub fn path(&self, list: &Path, position: usize) -> Path {
        match &self.id {
            Some(id) => list.join(id),
            None => list.join(position),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentStep {
    /// A name in the workflow's agents.
    pub agent: String,
    /// The prompt, a template. What `None` means depends on the pattern.
    pub input: Option<String>,
    /// Variables of this step's templates, in addition to the inputs.
    pub vars: BTreeMap<String, Value>,
    /// Replaces the tools of the agent in this step.
    pub tools: Option<Vec<String>>,
}

/// A question to a human.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HumanQuestion {
    /// The question, verbatim.
    pub prompt: String,
    /// Shown with the question, a template.
    pub context_display: Option<String>,
    /// The answer if no human answers in time.
    pub default: Option<String>,
    /// The time limit for an answer; unlimited if `None`.
    pub timeout: Option<Duration>,
    /// A regular expression that the answer must match.
    pub validation: Option<String>,
}

/// Reads a list of steps, at least one.
pub(super) fn list_of_steps(cursor: &Cursor<'_>, agents: &[&str]) -> Vec<ListStep> {
    let mut ids = BTreeSet::new();
    let cursors = cursor.list(1).into_iter();
    cursors
        .map(|cursor| {
            let (step, id) = read_with_id(&cursor, agents);
            let id = id.map(|cursor| {
                let id = cursor.identifier();
                if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
                    cursor.invalid("a number is the position of a step without an `id`");
                }
                if !id.is_empty() && !ids.insert(id.clone()) {
                    cursor.invalid(format!("duplicate step `{id}`"));
                }
                id
            });
            ListStep { id, step }
        })
        .collect()
}

/// Reads a step of either kind that its place in the pattern names.
pub(super) fn read(cursor: &Cursor<'_>, agents: &[&str]) -> Step {
    let (step, id) = read_with_id(cursor, agents);
    if let Some(id) = id {
        id.invalid("would be ignored: this step already has a name, its key");
    }
    step
}

/// Reads a step of either kind; its id is not read yet.
fn read_with_id<'a>(cursor: &Cursor<'a>, agents: &[&str]) -> (Step, Option<Cursor<'a>>) {
    if is_person(cursor) {
        let fields = cursor.fields(&PERSON_KEYS);
        return (Step::Human(person(&fields)), fields.get("id"));
    }
    let keys = if cursor.has("type") {
        cursor.invalid("must have either `agent` or `type`, not both");
        &BOTH_KEYS
    } else {
        &AGENT_KEYS
    };
    let fields = cursor.fields(keys);
    let vars = fields.read("vars", |cursor| variables(&cursor));
    let step = Step::Agent(AgentStep {
        agent: fields.read("agent", |cursor| agent(&cursor, agents)),
        input: fields.get("input").map(|cursor| cursor.template()),
        vars: vars
            .into_iter()
            .map(|(name, cursor)| (name.to_owned(), cursor.scalar()))
            .collect(),
        tools: fields
            .get("tool_overrides")
            .filter(|cursor| !cursor.is_empty_collection())
            .map(|cursor| list(&cursor)),
    });
    (step, fields.get("id"))
}

/// Whether a step, task or node asks a human.
pub(super) fn is_person(cursor: &Cursor<'_>) -> bool {
    cursor.has("type") && !cursor.has("agent")
}

/// Reads a question to a human, where agents are not allowed.
pub(super) fn review(cursor: &Cursor<'_>) -> HumanQuestion {
    let fields = cursor.fields(&REVIEW_KEYS);
    let mut review = person(&fields);
    if let Some(validation) = fields.get("validation") {
        let pattern = validation.fields(&VALIDATION_KEYS).get("pattern");
        review.validation = pattern.map(|cursor| {
            let text = cursor.text();
            match regex::Regex::new(&text) {
                Err(error) => cursor.invalid(format!("is not a regular expression: {error}")),
                Ok(regex)
                    if review
                        .default
                        .as_ref()
                        .is_some_and(|word| !regex.is_match(word)) =>
                {
                    cursor.invalid("does not match the `default`");
                }
                Ok(_) => {}
            }
            text
        });
    }
    review
}

/// Reads the fields of a question to a human, from a block whose table has them.
pub(super) fn person(fields: &Fields<'_>) -> HumanQuestion {
    if let Some(kind) = fields.get("type") {
        match kind.single_line().as_str() {
            "hitl" | "" => {}
            other => kind.unknown("the only `type` of a step is `hitl`", other, ["hitl"]),
        }
    }
    HumanQuestion {
        prompt: fields.read("prompt", |cursor| cursor.text()),
        context_display: fields
            .get("context_display")
            .map(|cursor| cursor.template()),
        default: fields.get("default").map(|cursor| match cursor.scalar() {
            Value::String(text) => text,
            other => other.to_string(),
        }),
        timeout: fields
            .get("timeout_seconds")
            .map(|cursor| u64::from(cursor.integer(0..=u32::MAX)))
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
        validation: None,
    }
}

/// Reads the name of an agent, and checks that it exists.
pub(super) fn agent(cursor: &Cursor<'_>, agents: &[&str]) -> String {
    let name = cursor.single_line();
    // A spec without agents is reported once, not for each step.
    if !name.is_empty() && !agents.is_empty() && !agents.contains(&name.as_str()) {
        let message = format!("unknown agent `{}`", shortened(&name));
        cursor.unknown(message, &name, agents.iter().copied());
    }
    name
}
