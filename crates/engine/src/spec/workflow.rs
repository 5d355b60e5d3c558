//! The top of a spec, and the way in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use segno_core::checkpoint::Trigger;
use segno_core::journal::InFlight;
use segno_core::snapshot::Rules;

use super::agents::{self, Agent};
use super::context::{self, ContextPolicy};
use super::environment::{self, Environment};
use super::fields::Keys;
use super::handoff::Reading;
use super::inputs::{self, Inputs};
use super::node;
use super::outputs::{self, Artifact};
use super::pattern::{self, Pattern};
use super::pauses::Pauses;
use super::place::{Desk, Place};
use super::problem::Problems;
use super::provider::Provider;
use super::references::{self, Files};
use super::runtime::{self, Budgets, Runtime};
use super::security::{self, Guardrails};
use super::skills::{self, Skill};
use super::telemetry::{self, Telemetry};
use super::tools::{self, Declared};

const KEYS: Keys = Keys {
    required: &["version", "name", "runtime", "agents", "pattern"],
    optional: &[
        "description",
        "metadata",
        "tags",
        "inputs",
        "outputs",
        "continuity",
        "tools",
        "skills",
        "env",
        "security",
        "context_policy",
        "telemetry",
    ],
};
const METADATA_KEYS: Keys = Keys {
    required: &[],
    optional: &["name", "description", "labels"],
};
const CONTINUITY_KEYS: Keys = Keys {
    required: &[],
    optional: &[
        "in_flight",
        "memory",
        "on_limit",
        "max_wait_s",
        "max_total_wait_s",
        "checkpoint",
        "context_full",
        "pause",
        "handoff",
    ],
};

const CHECKPOINT_KEYS: Keys = Keys {
    required: &[],
    optional: &["on", "every_s", "include", "exclude"],
};

/// What is done when the context of an agent's program is nearly full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContextFull {
    /// A fresh conversation goes on, and is told what was done.
    #[default]
    Handoff,
    /// The session is paused.
    Pause,
    /// The program is left to itself.
    Agent,
}

/// What is done when a provider says that its limit is reached, and when it is lifted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// The run waits until then.
    #[default]
    Wait,
    /// The session is paused.
    Pause,
}

/// How limits of providers are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// What is done about one.
    pub on_limit: OnLimit,
    /// How long is waited for one at most.
    pub longest: Duration,
    /// How long a session waits for all of them at most.
    pub together: Duration,
}

/// A spec that holds together: every name in it leads somewhere, every template compiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// How patiently its steps are run.
    pub runtime: Runtime,
    /// What it wants to know before it starts.
    pub inputs: Inputs,
    /// Who is asked, by name.
    pub agents: BTreeMap<String, Agent>,
    /// What models may ask for.
    pub tools: Declared,
    /// What is needed from where it runs.
    pub environment: Environment,
    /// What no agent may do.
    pub guardrails: Guardrails,
    /// What agents keep in mind.
    pub context: ContextPolicy,
    /// Who is told what happens.
    pub telemetry: Option<Telemetry>,
    /// What they can learn when they need it.
    pub skills: Vec<Skill>,
    /// What is done, in which order.
    pub pattern: Pattern,
    /// What is written when it is done.
    pub artifacts: Vec<Artifact>,
    /// What to do about a step that was in flight when its run was lost.
    pub in_flight: InFlight,
    /// Whether an agent remembers the steps before.
    pub remembers: bool,
    /// How limits are met where a provider says when they are lifted.
    pub patience: Patience,
    /// What is done when an agent's context is nearly full.
    pub context_full: ContextFull,
    /// When its files are kept.
    pub checkpoints: Checkpoints,
    /// When it pauses.
    pub pauses: Pauses,
    /// Who reads what was said when it has stopped.
    pub reading: Option<Reading>,
}

/// When the files of a workspace are kept, without anyone asking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoints {
    /// At these boundaries.
    pub on: BTreeSet<Trigger>,
    /// And this often.
    pub every: Option<Duration>,
    /// Which of them, whoever asks.
    pub rules: Rules,
}

impl Checkpoints {
    fn read(place: &Place<'_>) -> Self {
        let fields = place.fields(&CHECKPOINT_KEYS);
        let on = fields.read("on", |place| place.list(0));
        let trigger = |place: &Place<'_>| {
            place.choice(&[
                ("complete", Trigger::Complete),
                ("error", Trigger::Error),
                ("pause", Trigger::Pause),
                ("task_complete", Trigger::TaskComplete),
                ("timeout", Trigger::Timeout),
                ("shutdown", Trigger::Shutdown),
                ("crash", Trigger::Crash),
                ("detach", Trigger::Detach),
                ("exhaustion", Trigger::Exhaustion),
                ("expiry", Trigger::Expiry),
            ])
        };
        Self {
            on: on.iter().map(trigger).collect(),
            every: fields
                .get("every_s")
                .map(|place| Duration::from_secs(place.integer(1..=WEEK_S).into())),
            rules: Rules {
                include: fields.read("include", |place| patterns(&place)),
                exclude: fields.read("exclude", |place| patterns(&place)),
            },
        }
    }
}

/// Patterns that say something.
fn patterns(place: &Place<'_>) -> Vec<String> {
    let pattern = |place: &Place<'_>| {
        let text = place.text();
        if !Rules::says_something(&text) {
            place.invalid("a pattern must name something");
        }
        text
    };
    place.list(0).iter().map(pattern).collect()
}

/// How long is waited unless a spec says otherwise.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// How long a session waits in all unless a spec says otherwise.
const LONGEST_TOGETHER: Duration = Duration::from_hours(7 * 24);

const WEEK_S: u32 = 7 * 24 * 3600;
const YEAR_S: u32 = 365 * 24 * 3600;

/// How many steps a graph may have unless its spec says otherwise: it may go round for ever.
const GRAPH_STEPS: u64 = 100;

impl Workflow {
    /// What it may use up.
    pub fn budgets(&self) -> Budgets {
        let mut budgets = self.runtime.budgets.clone();
        if let Pattern::Graph(_) = self.pattern {
            budgets.max_steps.get_or_insert(GRAPH_STEPS);
        }
        budgets
    }
}

/// Reads a spec that stands alone, YAML or JSON. Either it holds together, or everything that is
/// wrong is told.
pub fn parse(text: &str) -> Result<Workflow, Problems> {
    let none = |_: &str| Err("a spec that is kept stands alone".to_owned());
    load(text, &none).map(|(_, workflow)| workflow)
}

/// A spec's values, without looking at what they mean.
pub(crate) fn as_json(text: &str) -> Result<serde_json::Value, Problems> {
    Ok(node::read(text)?.to_json())
}

/// Reads a spec and the files that it refers to. Returns it as one text that stands alone, and what
/// it says.
pub fn load(text: &str, files: Files<'_>) -> Result<(String, Workflow), Problems> {
    let desk = Desk::default();
    let mut root = node::read(text)?;
    let alone = match references::resolve(&mut root, files) {
        Ok(false) => text.to_owned(),
        Ok(true) => root.to_text(),
        Err(problems) => {
            desk.problems.borrow_mut().extend(problems);
            String::new()
        }
    };
    let workflow = read(&desk, &Place::root(&desk, &root));
    match Problems::of(desk.problems.take()) {
        None => Ok((alone, workflow)),
        Some(problems) => Err(problems),
    }
}

fn read<'a>(desk: &'a Desk, place: &Place<'a>) -> Workflow {
    let fields = place.fields(&KEYS);
    // What the blocks below are held to comes first.
    let tools = fields.read("tools", |place| tools::read(&place));
    let tools = desk.declared.get_or_init(|| tools).clone();
    let guardrails = fields.read("security", |place| security::read(&place));
    let guardrails = desk.guardrails.get_or_init(|| guardrails).clone();
    let context = fields.read("context_policy", |place| context::read(&place));
    if let Some(version) = fields.get("version") {
        // Authors count their own versions here; the format has only one.
        let given = version.json();
        if !given.is_u64() && !given.is_string() {
            version.invalid(format!("must be a whole number or a text, not {given}"));
        }
    }
    if let Some(metadata) = fields.get("metadata") {
        check_metadata(&metadata);
    }
    let (mut runtime, mut agents) = (Runtime::default(), BTreeMap::new());
    if let Some(place) = fields.get("runtime") {
        let defaults;
        (runtime, defaults) = runtime::read(&place);
        if let Some(place) = fields.get("agents") {
            agents = agents::read(&place, &defaults, &context.jit_tools);
        }
        // What a program uses it does not tell. A provider that was refused has no program.
        let told = |agent: &Agent| !matches!(&agent.provider, Provider::Command { argv } if !argv.is_empty());
        let acp = |agent: &Agent| matches!(agent.provider, Provider::Acp { .. });
        let Budgets {
            max_cost,
            max_tokens,
            ..
        } = runtime.budgets;
        if max_cost.is_some() && !agents.values().all(told) {
            place.unsupported("`max_cost_usd` cannot be kept with provider `command`, which does not tell what it costs");
        }
        if max_cost.is_some() && agents.values().any(acp) {
            place.unsupported("`max_cost_usd` cannot be kept with provider `acp`: not every agent tells what it costs");
        }
        if max_tokens.is_some() && !agents.is_empty() && !agents.values().any(told) {
            place.unsupported("`max_tokens` cannot be kept with provider `command`, which does not tell what it uses");
        }
    }
    let names = fields.read("agents", |place| place.keys());
    let continuity = fields.get("continuity");
    let continuity = continuity.map(|place| place.fields(&CONTINUITY_KEYS));
    let continuity = |key: &str| continuity.as_ref().and_then(|fields| fields.get(key));
    let reading = continuity("handoff").map(|place| Reading::read(&place, &agents));
    Workflow {
        name: fields.read("name", |place| name(&place)),
        description: fields.get("description").map(|place| place.text()),
        tags: fields.read("tags", |place| tags(&place)),
        runtime,
        inputs: fields.read("inputs", |place| inputs::read(&place)),
        agents,
        pattern: fields.read("pattern", |place| pattern::read(&place, &names)),
        tools,
        environment: fields.read("env", |place| environment::read(&place)),
        guardrails,
        context,
        telemetry: fields.read("telemetry", |place| telemetry::read(&place)),
        skills: fields.read("skills", |place| skills::read(&place)),
        artifacts: fields.read("outputs", |place| outputs::read(&place)),
        in_flight: continuity("in_flight").map_or(InFlight::Repeat, |place| {
            place.choice(&[("repeat", InFlight::Repeat), ("stop", InFlight::Stop)])
        }),
        remembers: continuity("memory")
            .is_none_or(|place| place.choice(&[("steps", true), ("none", false)])),
        pauses: continuity("pause")
            .map(|place| Pauses::read(&place))
            .unwrap_or_default(),
        reading,
        checkpoints: continuity("checkpoint")
            .map(|place| Checkpoints::read(&place))
            .unwrap_or_default(),
        context_full: continuity("context_full").map_or(ContextFull::Handoff, |place| {
            place.choice(&[
                ("handoff", ContextFull::Handoff),
                ("pause", ContextFull::Pause),
                ("agent", ContextFull::Agent),
            ])
        }),
        patience: Patience {
            on_limit: continuity("on_limit").map_or(OnLimit::Wait, |place| {
                place.choice(&[("wait", OnLimit::Wait), ("pause", OnLimit::Pause)])
            }),
            longest: continuity("max_wait_s").map_or(LONGEST_WAIT, |place| {
                Duration::from_secs(place.integer(0..=WEEK_S).into())
            }),
            together: continuity("max_total_wait_s").map_or(LONGEST_TOGETHER, |place| {
                Duration::from_secs(place.integer(0..=YEAR_S).into())
            }),
        },
    }
}

fn name(place: &Place<'_>) -> String {
    let name = place.line_of_text();
    if name.chars().count() > 200 {
        place.invalid("must not be longer than 200 characters");
    }
    name
}

/// For people and other programs; only its shape is checked.
fn check_metadata(place: &Place<'_>) {
    let fields = place.fields(&METADATA_KEYS);
    for key in ["name", "description"] {
        fields.read(key, |place| place.text());
    }
    for (_, label) in fields.read("labels", |place| place.entries()) {
        label.scalar();
    }
}

fn tags(place: &Place<'_>) -> Vec<String> {
    let mut tags = Vec::new();
    for place in place.list(0) {
        let tag = place.text();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !tag.starts_with(plain) || !tag.chars().all(|c| plain(c) || "._-".contains(c)) {
            place.invalid(
                "a tag is made of small letters, digits and `. _ -`, and starts with a letter or digit",
            );
        } else if tags.contains(&tag) {
            place.invalid(format!("tag `{tag}` is given twice"));
        }
        tags.push(tag);
    }
    tags
}
