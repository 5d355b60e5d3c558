//! Resolves the roles of a plan (worker, planner, reviewer) to agents of a spec, or to known CLI
//! agents.

use std::path::Path;

use segno_core::cli_agent::CliAgentKind;
use segno_engine::Env;
use segno_spec as spec;
use serde_json::{Map, Value, json};

use super::Error;
use crate::next_run::NoSuchAgent;
use crate::start::{SpecError, read_spec};

/// The agents that the user names. The others are the spec's agents `worker`, `planner` and
/// `reviewer`, or the agent that does the tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// Does the tasks.
    pub agent: Option<String>,
    /// Makes the plan.
    pub planner: Option<String>,
    pub reviewer: Reviewer,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reviewer {
    /// The spec's agent `reviewer`, or the agent that does the tasks, in another conversation.
    #[default]
    Default,
    Named(String),
    None,
}

/// Blocks of a spec that describe one workflow, and not its agents.
const WORKFLOW_BLOCKS: [&str; 6] = [
    "name",
    "description",
    "metadata",
    "tags",
    "outputs",
    "pattern",
];

/// The prompts of CLI agents in each role.
const WORKER: &str = "You are a careful software engineer. You do one task at a time, completely, and test your work.";
const PLANNER: &str = "You are a software architect. You read the code before you plan, and plan no more than what is asked.";
const REVIEWER: &str = "You are a strict and fair code reviewer. You look for what is wrong, missing or untested, and approve what is good enough to merge.";

/// A spec without a pattern, and the names of its agents per role.
pub(super) struct ResolvedRoles {
    pub(super) spec: Map<String, Value>,
    pub(super) agent: String,
    pub(super) planner: String,
    pub(super) reviewer: Option<String>,
}

/// Resolves the roles, with the agents of the spec at `path` if there is one.
pub(super) fn resolve(
    env: &Env,
    roles: &Roles,
    path: Option<&Path>,
) -> Result<ResolvedRoles, Error> {
    let mut spec = match path {
        Some(path) => agent_blocks(env, path)?,
        None => Map::new(),
    };
    let mut agents = match spec.remove("agents") {
        Some(Value::Object(agents)) => agents,
        _ => Map::new(),
    };
    let called = |agents: &Map<String, Value>, role: &str| {
        agents.contains_key(role).then(|| role.to_owned())
    };
    let only = (agents.len() == 1)
        .then(|| agents.keys().next().cloned())
        .flatten();
    let named = roles.agent.clone();
    let wanted = named.or_else(|| called(&agents, "worker")).or(only);
    let wanted = wanted.ok_or_else(|| NoSuchAgent {
        agent: "worker".to_owned(),
        reason: "the spec has several agents and none of that name; choose one with `--agent`"
            .to_owned(),
    })?;
    let agent = resolve_agent(&mut agents, "worker", &wanted, WORKER)?;
    let planner = match roles.planner.clone().or_else(|| called(&agents, "planner")) {
        Some(name) => resolve_agent(&mut agents, "planner", &name, PLANNER)?,
        None => copy_for_role(&mut agents, &agent, "planner", PLANNER),
    };
    let reviewer = match &roles.reviewer {
        Reviewer::None => None,
        Reviewer::Named(name) => Some(resolve_agent(&mut agents, "reviewer", name, REVIEWER)?),
        Reviewer::Default => Some(match called(&agents, "reviewer") {
            Some(name) => name,
            None => copy_for_role(&mut agents, &agent, "reviewer", REVIEWER),
        }),
    };
    if !spec.contains_key("runtime") {
        let provider = agents[&agent]["provider"].clone();
        spec.insert("runtime".to_owned(), json!({"provider": provider}));
    }
    spec.insert("version".to_owned(), json!(0));
    spec.insert("agents".to_owned(), Value::Object(agents));
    Ok(ResolvedRoles {
        spec,
        agent,
        planner,
        reviewer,
    })
}

/// The agent with this name, or a CLI agent, which is added under the name of its role.
fn resolve_agent(
    agents: &mut Map<String, Value>,
    role: &str,
    name: &str,
    prompt: &str,
) -> Result<String, NoSuchAgent> {
    if agents.contains_key(name) {
        return Ok(name.to_owned());
    }
    let known = if name == "claude" {
        "claude-code"
    } else {
        name
    };
    let program = known
        .parse()
        .ok()
        .filter(|program| *program != CliAgentKind::Acp);
    let program: CliAgentKind = program.ok_or_else(|| NoSuchAgent {
        agent: name.to_owned(),
        reason: "it is neither an agent of the spec nor a CLI agent".to_owned(),
    })?;
    let agent = json!({"prompt": prompt, "provider": program.as_str()});
    agents.insert(role.to_owned(), agent);
    Ok(role.to_owned())
}

/// The worker's agent in another role: under its own name if the spec has a prompt for it,
/// otherwise a copy with the prompt of the role.
fn copy_for_role(agents: &mut Map<String, Value>, agent: &str, role: &str, prompt: &str) -> String {
    let worker = &agents[agent];
    if worker["prompt"] != WORKER {
        return agent.to_owned();
    }
    let mut other = worker.clone();
    other["prompt"] = prompt.into();
    agents.insert(role.to_owned(), other);
    role.to_owned()
}

/// The blocks of a spec that describe its agents, with absolute paths.
fn agent_blocks(env: &Env, path: &Path) -> Result<Map<String, Value>, SpecError> {
    let (text, _) = read_spec(env, path)?;
    let mut spec = match spec::as_json(&text) {
        Ok(Value::Object(spec)) => spec,
        Ok(_) => Map::new(),
        Err(problems) => {
            let path = path.to_owned();
            return Err(SpecError::Invalid { path, problems });
        }
    };
    for block in WORKFLOW_BLOCKS {
        spec.remove(block);
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    for block in spec.values_mut() {
        make_paths_absolute(folder, block);
    }
    Ok(spec)
}

/// Makes paths relative to the spec absolute, because the new spec has no folder.
fn make_paths_absolute(folder: &Path, value: &mut Value) {
    let absolute = |name: &mut Value| {
        if let Some(text) = name.as_str().filter(|text| Path::new(text).is_relative()) {
            *name = folder.join(text).to_string_lossy().into_owned().into();
        }
    };
    // A bare word is searched in PATH.
    let program = |name: &mut Value| {
        if name.as_str().is_some_and(|name| name.contains('/')) {
            absolute(name);
        }
    };
    match value {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| make_paths_absolute(folder, item)),
        Value::Object(fields) => {
            for (key, field) in fields {
                match (key.as_str(), field) {
                    ("script" | "path", name @ Value::String(_)) => absolute(name),
                    ("command", Value::Array(words)) => words.first_mut().map_or((), program),
                    ("command", name) => program(name),
                    (_, field) => make_paths_absolute(folder, field),
                }
            }
        }
        _ => {}
    }
}
