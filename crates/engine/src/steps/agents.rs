//! Prepares the agents of a workflow: drivers, prices, prompts and toolsets.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::model::Model;
use segno_core::tool::Tools;
use segno_core::usage::Price;
use segno_spec::{
    Api, DeclaredTools, Permissions, Provider, Schema, Skill, Transport, Workflow, outline,
};

use super::toolset::Toolset;
use crate::env::{self, AgentDriver, Env, ToolsetRequest};
use crate::observe::Observer;
use crate::secrets::{NoSecret, Secrets};

/// The provider of agents that answer from a file.
pub(super) const SCRIPTED: &str = "scripted";

/// All agents by name, and the toolsets of the models.
pub struct Agents {
    agents: BTreeMap<String, Agent>,
    toolsets: BTreeMap<Vec<String>, Toolset>,
}

/// An agent of the spec, ready to be called.
pub(crate) struct Agent {
    /// The system prompt: a template.
    pub(super) prompt: String,
    /// The list of skills that follows the prompt.
    pub(super) skills: String,
    /// Everything about its provider that an answer depends on.
    pub(super) identity: String,
    /// The provider's name in the spec format.
    pub(super) provider: &'static str,
    /// The adapter that calls it.
    pub(super) driver: AgentDriver,
    /// The price, if it is known.
    pub(super) price: Option<Price>,
    /// The size of its model's context window in tokens, if it is known.
    pub(super) window: Option<u64>,
    /// The model that summarizes its conversation, if it is not the agent's own, and its price.
    pub(super) summarizer: Option<Summarizer>,
    pub(super) tools: Vec<String>,
    pub(super) permissions: Permissions,
    pub(super) input_schema: Option<Schema>,
    pub(super) output_schema: Option<Schema>,
}

/// Why an agent cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Driver(#[from] env::Error),
    #[error(transparent)]
    NoSecret(#[from] NoSecret),
    /// A cost budget is set, but the price of a model is unknown.
    #[error("`max_cost_usd` cannot be enforced: the price of model `{model}` is unknown")]
    NoPrice { model: String },
}

impl Diagnose for PrepareError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Driver(error) => error.diagnosis(),
            Self::NoSecret(error) => error.diagnosis(),
            Self::NoPrice { model } => Diagnosis::new(Kind::Unsupported, "A0105").hint(format!(
                "set it in config.toml, in dollars per million tokens: `[prices.\"{model}\"]`, `input = 3`, `output = 15`; or limit `max_tokens` instead"
            )),
        }
    }
}

/// A model that summarizes, and its price.
type Summarizer = (Arc<dyn Model>, Option<Price>);

impl Agents {
    /// Prepares all agents before the first step runs. `spec_path` is the file of the spec.
    pub async fn prepare(
        env: &Env,
        workflow: &Workflow,
        secrets: &Secrets,
        spec_path: &Path,
        workspace: &Path,
        observer: &dyn Observer,
    ) -> Result<Self, PrepareError> {
        let folder = spec_path.parent().unwrap_or(Path::new("."));
        let mut created: Vec<(&Provider, AgentDriver)> = Vec::new();
        let mut agents = BTreeMap::new();
        for (name, agent) in &workflow.agents {
            let known = created
                .iter()
                .find(|(provider, _)| **provider == agent.provider);
            let driver = match known {
                Some((_, driver)) => driver.clone(),
                None => env.drivers.driver(&agent.provider, folder)?,
            };
            created.push((&agent.provider, driver.clone()));
            let prepared = Agent {
                price: price(env, workflow, agent.provider.model())?,
                window: agent
                    .provider
                    .model()
                    .and_then(|model| env.drivers.context_window(model)),
                summarizer: summarizer(env, workflow, &agent.provider, folder)?,
                prompt: agent.prompt.clone(),
                skills: skills_prompt(&workflow.skills),
                identity: agent.provider.identity(),
                provider: agent.provider.name(),
                driver,
                tools: agent.tools.clone(),
                permissions: agent.permissions.clone(),
                input_schema: agent.input_schema.clone(),
                output_schema: agent.output_schema.clone(),
            };
            agents.insert(name.clone(), prepared);
        }
        // Only models call Segno's tools.
        let models = agents
            .values()
            .any(|agent| matches!(agent.driver, AgentDriver::Model(_)));
        let toolsets = if models {
            toolsets(env, workflow, secrets, spec_path, workspace, observer).await?
        } else {
            BTreeMap::new()
        };
        Ok(Self { agents, toolsets })
    }

    /// The toolset with these tools; `None` if there is none.
    pub(super) fn toolset(&self, names: &[String]) -> Option<&Toolset> {
        self.toolsets.get(names)
    }

    /// Whether this agent is a CLI agent, which keeps its own conversation.
    pub fn is_cli_agent(&self, name: &str) -> bool {
        let found = self.agents.get(name);
        found.is_some_and(|found| matches!(found.driver, AgentDriver::CliAgent(_)))
    }

    /// Whether any agent works in the workspace: all but scripted ones may.
    pub fn work_in_workspace(&self) -> bool {
        let mut all = self.agents.values();
        all.any(|agent| agent.provider != SCRIPTED)
    }

    /// The adapter of an agent, and its price if known.
    pub(crate) fn driver_and_price(&self, name: &str) -> Option<(AgentDriver, Option<Price>)> {
        let found = self.agents.get(name)?;
        Some((found.driver.clone(), found.price))
    }

    pub(super) fn find(&self, name: &str) -> Option<&Agent> {
        self.agents.get(name)
    }

    /// The agent of that name. A validated spec names no other.
    pub(super) fn get(&self, name: &str) -> &Agent {
        &self.agents[name]
    }
}

/// The model that summarizes an agent's conversation, where the spec names one.
fn summarizer(
    env: &Env,
    workflow: &Workflow,
    provider: &Provider,
    folder: &Path,
) -> Result<Option<Summarizer>, PrepareError> {
    let compaction = workflow.context.compaction.as_ref();
    let (Some(model), Provider::Api(api)) = (compaction.and_then(|c| c.model.clone()), provider)
    else {
        return Ok(None);
    };
    let price = price(env, workflow, Some(&model))?;
    let provider = Provider::Api(Api {
        model,
        ..api.clone()
    });
    Ok(match env.drivers.driver(&provider, folder)? {
        AgentDriver::Model(model) => Some((model, price)),
        AgentDriver::Stateless(_) | AgentDriver::CliAgent(_) => None,
    })
}

/// The price of a model. A cost budget cannot be enforced without it.
fn price(
    env: &Env,
    workflow: &Workflow,
    model: Option<&str>,
) -> Result<Option<Price>, PrepareError> {
    let Some(model) = model else {
        return Ok(None);
    };
    let price = env.drivers.price(model);
    if price.is_none() && workflow.runtime.budgets.max_cost.is_some() {
        return Err(PrepareError::NoPrice {
            model: model.to_owned(),
        });
    }
    Ok(price)
}

/// A toolset for each set of tools that an agent or a step has.
async fn toolsets(
    env: &Env,
    workflow: &Workflow,
    secrets: &Secrets,
    spec_path: &Path,
    workspace: &Path,
    observer: &dyn Observer,
) -> Result<BTreeMap<Vec<String>, Toolset>, PrepareError> {
    let own = workflow.agents.values().map(|agent| agent.tools.clone());
    let chosen = outline(workflow).into_iter().filter_map(|part| part.tools);
    let skills = &workflow.skills;
    let needed = |names: &Vec<String>| !names.is_empty() || !skills.is_empty();
    let sets: Vec<Vec<String>> = own.chain(chosen).filter(needed).collect();
    let mut wanted = workflow.tools.clone();
    let used = |id: &String| sets.iter().any(|names| names.contains(id));
    wanted.executors.retain(|executor| used(&executor.id));
    wanted.servers.retain(|server| used(&server.id));
    let DeclaredTools {
        executors, servers, ..
    } = secrets.fill(&wanted)?;
    for server in &servers {
        observer.notice(&format!("starting MCP server `{}`", server.id));
    }
    let folder = spec_path.parent().unwrap_or(Path::new("."));
    let started = servers.iter().map(|server| async {
        let tools = env.drivers.mcp_server(server, folder, workspace).await?;
        Ok::<_, PrepareError>((server.id.as_str(), tools))
    });
    let started: Vec<(&str, Arc<dyn Tools>)> = futures_util::future::try_join_all(started).await?;
    let commands = commands(workflow);
    let guardrails = &workflow.guardrails;
    let mut toolsets = BTreeMap::new();
    for names in sets {
        let mut executors = executors.clone();
        executors.retain(|executor| names.contains(&executor.id));
        let order = ToolsetRequest {
            native: &names,
            executors: &executors,
            skills,
            mounts: &workflow.environment.mounts,
            spec_path,
            commands: &commands,
            workspace,
        };
        let mut toolset = Toolset::default();
        toolset.add_state_tools(&names);
        for tools in env.drivers.tools(order)? {
            toolset.add(None, &tools, |_| true);
        }
        for (id, tools) in started
            .iter()
            .filter(|(id, _)| names.iter().any(|n| n == id))
        {
            let allows = |name: &str| guardrails.allows(name) || guardrails.allows(id);
            toolset.add(Some(id), tools, allows);
        }
        toolsets.insert(names, toolset);
    }
    Ok(toolsets)
}

/// The commands of all programs that a spec names.
fn commands(workflow: &Workflow) -> Vec<&[String]> {
    let agents = workflow.agents.values();
    let agents = agents.filter_map(|agent| match &agent.provider {
        Provider::Command { argv } | Provider::Acp { argv } => Some(argv.as_slice()),
        Provider::Api(_) | Provider::Scripted { .. } | Provider::Program { .. } => None,
    });
    let servers = workflow.tools.servers.iter();
    let servers = servers.filter_map(|server| match &server.transport {
        Transport::Program { argv, .. } => Some(argv.as_slice()),
        Transport::Address { .. } => None,
    });
    agents.chain(servers).collect()
}

/// The list of skills for the system prompt.
fn skills_prompt(skills: &[Skill]) -> String {
    let mut text = String::new();
    for skill in skills.iter().filter(|skill| skill.preload) {
        if text.is_empty() {
            text.push_str("\n\nSkills (load one with the tool `Skill` when you need it):");
        }
        let what = skill.description.as_deref();
        let what = what.map_or(String::new(), |what| format!(": {what}"));
        let _ = write!(text, "\n- {}{what}", skill.id);
    }
    text
}
