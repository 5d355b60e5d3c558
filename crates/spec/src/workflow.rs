//! The top level of a spec, and the entry points [`load`] and [`parse`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use segno_core::checkpoint::Trigger;
use segno_core::journal::InFlight;
use segno_core::snapshot::Rules;
use segno_core::usage::ContextLimits;

use super::agents::{self, Agent};
use super::auto_resume::AutoResume;
use super::context::{self, ContextPolicy};
use super::cursor::{Cursor, ParseState};
use super::environment::{self, Environment};
use super::fields::Keys;
use super::file_changes::may_change_files;
use super::handoff::Handoff;
use super::inputs::{self, Inputs};
use super::node;
use super::outputs::{self, Artifact};
use super::pattern::{self, Pattern};
use super::pauses::PausePolicy;
use super::problem::Problems;
use super::provider::Provider;
use super::references::{self, FileReader};
use super::runtime::{self, Budgets, Runtime};
use super::security::{self, Guardrails};
use super::skills::{self, Skill};
use super::telemetry::{self, Telemetry};
use super::tools::{self, DeclaredTools};

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
        "context_warning_percent",
        "context_full_percent",
        "pause",
        "resume",
        "handoff",
    ],
};

const CHECKPOINT_KEYS: Keys = Keys {
    required: &[],
    optional: &["on", "every_s", "include", "exclude"],
};

/// What a run does when the context of a CLI agent is nearly full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContextFull {
    /// A new conversation continues with the resume context.
    #[default]
    Handoff,
    /// The session is paused.
    Pause,
    /// The CLI agent handles it, for example by its own compaction.
    Agent,
}

/// What a run does when a provider reports a rate limit and when it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLimit {
    #[default]
    Wait,
    /// The session is paused.
    Pause,
}

/// How long a run waits for the rate limits of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitPolicy {
    pub on_limit: OnLimit,
    /// The longest wait for one limit (`max_wait_s`).
    pub max_wait: Duration,
    /// The longest wait of a session for all limits (`max_total_wait_s`).
    pub max_total_wait: Duration,
}

/// A valid spec: every reference in it resolves, every template compiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    pub name: String,
    pub description: Option<String>,
    pub tags: Vec<String>,
    pub runtime: Runtime,
    pub inputs: Inputs,
    pub agents: BTreeMap<String, Agent>,
    /// What models may call.
    pub tools: DeclaredTools,
    pub environment: Environment,
    pub guardrails: Guardrails,
    pub context: ContextPolicy,
    /// Where spans are exported to, if anywhere.
    pub telemetry: Option<Telemetry>,
    pub skills: Vec<Skill>,
    pub pattern: Pattern,
    pub artifacts: Vec<Artifact>,
    /// What a resume does with a step that was in flight when its run was lost.
    pub in_flight: InFlight,
    /// Whether a model sees the prompts and answers of earlier steps (`memory: steps`).
    pub has_memory: bool,
    pub rate_limits: RateLimitPolicy,
    pub context_full: ContextFull,
    /// When a context is nearly full, and when it is full.
    pub context_limits: ContextLimits,
    /// When checkpoints are created automatically.
    pub checkpoints: Checkpoints,
    pub pauses: PausePolicy,
    /// When workers resume a session of this spec by themselves.
    pub auto_resume: AutoResume,
    pub handoff: Handoff,
}

/// When checkpoints are created without a request, and which files they contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoints {
    /// As the spec says; otherwise the end and failures, if agents may change files.
    pub on: BTreeSet<Trigger>,
    pub every: Option<Duration>,
    /// Which files every checkpoint contains, also one that a user requests.
    pub rules: Rules,
}

/// The triggers of a workflow whose agents may change files, if its spec names none.
const DEFAULT_TRIGGERS: [Trigger; 2] = [Trigger::Complete, Trigger::Error];

impl Checkpoints {
    /// Reads the block; and whether it names the triggers.
    fn read(cursor: &Cursor<'_>) -> (Self, bool) {
        let fields = cursor.fields(&CHECKPOINT_KEYS);
        let on = fields.get("on");
        let names_triggers = on.is_some();
        let on = on.map(|cursor| cursor.list(0)).unwrap_or_default();
        let trigger = |cursor: &Cursor<'_>| {
            cursor.choice(&[
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
        let checkpoints = Self {
            on: on.iter().map(trigger).collect(),
            every: fields
                .get("every_s")
                .map(|cursor| Duration::from_secs(cursor.integer(1..=WEEK_S).into())),
            rules: Rules {
                include: fields.read("include", |cursor| patterns(&cursor)),
                exclude: fields.read("exclude", |cursor| patterns(&cursor)),
            },
        };
        (checkpoints, names_triggers)
    }
}

/// File patterns, each of which names something.
fn patterns(cursor: &Cursor<'_>) -> Vec<String> {
    let pattern = |cursor: &Cursor<'_>| {
        let text = cursor.text();
        if !Rules::is_meaningful(&text) {
            cursor.invalid("a pattern must not be empty");
        }
        text
    };
    cursor.list(0).iter().map(pattern).collect()
}

/// The default of `max_wait_s`.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The default of `max_total_wait_s`.
const LONGEST_TOTAL_WAIT: Duration = Duration::from_hours(7 * 24);

const WEEK_S: u32 = 7 * 24 * 3600;
const YEAR_S: u32 = 365 * 24 * 3600;

/// The default step budget of a graph, because a graph can loop forever.
const GRAPH_STEPS: u64 = 100;

impl Workflow {
    /// The budgets of the spec; a graph without `max_steps` gets a default.
    pub fn budgets(&self) -> Budgets {
        let mut budgets = self.runtime.budgets.clone();
        if let Pattern::Graph(_) = self.pattern {
            budgets.max_steps.get_or_insert(GRAPH_STEPS);
        }
        budgets
    }
}

/// Parses a self-contained spec, YAML or JSON. Reports all problems at once.
pub fn parse(text: &str) -> Result<Workflow, Problems> {
    let none = |_: &str| Err("a stored spec has no references".to_owned());
    load(text, &none).map(|(_, workflow)| workflow)
}

/// The values of a spec, without validation.
pub fn as_json(text: &str) -> Result<serde_json::Value, Problems> {
    Ok(node::read(text)?.to_json())
}

/// Parses a spec and the files that it refers to. Returns one self-contained text, and the
/// workflow.
pub fn load(text: &str, files: FileReader<'_>) -> Result<(String, Workflow), Problems> {
    let state = ParseState::default();
    let mut root = node::read(text)?;
    let self_contained = match references::resolve(&mut root, files) {
        Ok(false) => text.to_owned(),
        Ok(true) => root.to_text(),
        Err(problems) => {
            state.problems.borrow_mut().extend(problems);
            String::new()
        }
    };
    let (mut workflow, names_triggers) = read(&state, &Cursor::root(&state, &root));
    match Problems::of(state.problems.take()) {
        None => {
            if !names_triggers && may_change_files(&workflow) {
                workflow.checkpoints.on = BTreeSet::from(DEFAULT_TRIGGERS);
            }
            Ok((self_contained, workflow))
        }
        Some(problems) => Err(problems),
    }
}

/// The workflow, and whether its spec names triggers of checkpoints.
fn read<'a>(state: &'a ParseState, cursor: &Cursor<'a>) -> (Workflow, bool) {
    let fields = cursor.fields(&KEYS);
    // The blocks below are checked against `tools` and `security`, so these are read first.
    let tools = fields.read("tools", |cursor| tools::read(&cursor));
    let tools = state.declared.get_or_init(|| tools).clone();
    let guardrails = fields.read("security", |cursor| security::read(&cursor));
    let guardrails = state.guardrails.get_or_init(|| guardrails).clone();
    let context = fields.read("context_policy", |cursor| context::read(&cursor));
    if let Some(version) = fields.get("version") {
        // The version is the author's own count; the format has only one version.
        let given = version.json();
        if !given.is_u64() && !given.is_string() {
            version.invalid(format!("must be a whole number or a text, not {given}"));
        }
    }
    if let Some(metadata) = fields.get("metadata") {
        check_metadata(&metadata);
    }
    let (mut runtime, mut agents) = (Runtime::default(), BTreeMap::new());
    if let Some(cursor) = fields.get("runtime") {
        let defaults;
        (runtime, defaults) = runtime::read(&cursor);
        if let Some(cursor) = fields.get("agents") {
            agents = agents::read(&cursor, &defaults, &context.jit_tools);
        }
        // A program does not report its usage. A provider that was rejected has an empty `argv`.
        let reports_usage = |agent: &Agent| !matches!(&agent.provider, Provider::Command { argv } if !argv.is_empty());
        let acp = |agent: &Agent| matches!(agent.provider, Provider::Acp { .. });
        let Budgets {
            max_cost,
            max_tokens,
            ..
        } = runtime.budgets;
        if max_cost.is_some() && !agents.values().all(reports_usage) {
            cursor.unsupported(
                "`max_cost_usd` cannot be enforced with provider `command`: it reports no costs",
            );
        }
        if max_cost.is_some() && agents.values().any(acp) {
            cursor.unsupported("`max_cost_usd` cannot be enforced with provider `acp`: not every agent reports its costs");
        }
        if max_tokens.is_some() && !agents.is_empty() && !agents.values().any(reports_usage) {
            cursor.unsupported(
                "`max_tokens` cannot be enforced with provider `command`: it reports no usage",
            );
        }
    }
    let names = fields.read("agents", |cursor| cursor.keys());
    let continuity = fields.get("continuity");
    let continuity = continuity.map(|cursor| cursor.fields(&CONTINUITY_KEYS));
    let continuity = |key: &str| continuity.as_ref().and_then(|fields| fields.get(key));
    let context_limits = read_context_limits(
        continuity("context_warning_percent").as_ref(),
        continuity("context_full_percent").as_ref(),
    );
    let handoff = continuity("handoff").map(|cursor| Handoff::read(&cursor, &agents));
    let (checkpoints, names_triggers) = continuity("checkpoint")
        .map(|cursor| Checkpoints::read(&cursor))
        .unwrap_or_default();
    let workflow = Workflow {
        name: fields.read("name", |cursor| name(&cursor)),
        description: fields.get("description").map(|cursor| cursor.text()),
        tags: fields.read("tags", |cursor| tags(&cursor)),
        runtime,
        inputs: fields.read("inputs", |cursor| inputs::read(&cursor)),
        agents,
        pattern: fields.read("pattern", |cursor| pattern::read(&cursor, &names)),
        tools,
        environment: fields.read("env", |cursor| environment::read(&cursor)),
        guardrails,
        context,
        telemetry: fields.read("telemetry", |cursor| telemetry::read(&cursor)),
        skills: fields.read("skills", |cursor| skills::read(&cursor)),
        artifacts: fields.read("outputs", |cursor| outputs::read(&cursor)),
        in_flight: continuity("in_flight").map_or(InFlight::Repeat, |cursor| {
            cursor.choice(&[("repeat", InFlight::Repeat), ("stop", InFlight::Stop)])
        }),
        has_memory: continuity("memory")
            .is_none_or(|cursor| cursor.choice(&[("steps", true), ("none", false)])),
        pauses: continuity("pause")
            .map(|cursor| PausePolicy::read(&cursor))
            .unwrap_or_default(),
        auto_resume: continuity("resume")
            .map(|cursor| AutoResume::read(&cursor))
            .unwrap_or_default(),
        handoff: handoff.unwrap_or_default(),
        context_limits,
        checkpoints,
        context_full: continuity("context_full").map_or(ContextFull::Handoff, |cursor| {
            cursor.choice(&[
                ("handoff", ContextFull::Handoff),
                ("pause", ContextFull::Pause),
                ("agent", ContextFull::Agent),
            ])
        }),
        rate_limits: RateLimitPolicy {
            on_limit: continuity("on_limit").map_or(OnLimit::Wait, |cursor| {
                cursor.choice(&[("wait", OnLimit::Wait), ("pause", OnLimit::Pause)])
            }),
            max_wait: continuity("max_wait_s").map_or(LONGEST_WAIT, |cursor| {
                Duration::from_secs(cursor.integer(0..=WEEK_S).into())
            }),
            max_total_wait: continuity("max_total_wait_s").map_or(LONGEST_TOTAL_WAIT, |cursor| {
                Duration::from_secs(cursor.integer(0..=YEAR_S).into())
            }),
        },
    };
    (workflow, names_triggers)
}

/// Reads the percentages of a context window from which Segno warns and acts.
fn read_context_limits(warning: Option<&Cursor<'_>>, full: Option<&Cursor<'_>>) -> ContextLimits {
    let percent = |cursor: &Cursor<'_>| u64::from(cursor.integer(1..=100));
    let default = ContextLimits::default();
    let limit = full.map_or(default.full, percent);
    let limits = ContextLimits {
        // A lower limit alone also lowers the warning.
        warning: warning.map_or(default.warning.min(limit), percent),
        full: limit,
    };
    if let Some(cursor) = warning.filter(|_| limits.warning > limits.full) {
        cursor.invalid("must not be above `context_full_percent`");
    }
    limits
}

fn name(cursor: &Cursor<'_>) -> String {
    let name = cursor.single_line();
    if name.chars().count() > 200 {
        cursor.invalid("must not be longer than 200 characters");
    }
    name
}

/// Metadata is for humans and other programs; only its shape is checked.
fn check_metadata(cursor: &Cursor<'_>) {
    let fields = cursor.fields(&METADATA_KEYS);
    for key in ["name", "description"] {
        fields.read(key, |cursor| cursor.text());
    }
    for (_, label) in fields.read("labels", |cursor| cursor.entries()) {
        label.scalar();
    }
}

fn tags(cursor: &Cursor<'_>) -> Vec<String> {
    let mut tags = Vec::new();
    for cursor in cursor.list(0) {
        let tag = cursor.text();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !tag.starts_with(plain) || !tag.chars().all(|c| plain(c) || "._-".contains(c)) {
            cursor.invalid(
                "a tag consists of lower-case letters, digits and `. _ -`, and starts with a letter or digit",
            );
        } else if tags.contains(&tag) {
            cursor.invalid(format!("duplicate tag `{tag}`"));
        }
        tags.push(tag);
    }
    tags
}
