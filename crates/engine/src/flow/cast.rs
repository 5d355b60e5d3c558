//! The agents of a workflow, ready to be asked.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use segno_core::model::Model;
use segno_core::tool::Tools;
use segno_core::usage::Price;

use super::kit::Kit;
use crate::error::Error;
use crate::observe::Observer;
use crate::secrets::Secrets;
use crate::spec::{Api, Declared, Permissions, Provider, Schema, Skill, Workflow, outline};
use crate::world::{Order, Speaker, World};

/// Everyone, by name, and what models may ask for.
pub(crate) struct Cast {
    performers: BTreeMap<String, Performer>,
    kits: BTreeMap<Vec<String>, Kit>,
}

pub(crate) struct Performer {
    /// Who it is: a template.
    pub(super) prompt: String,
    /// The skills that it is told of, below its prompt.
    pub(super) skills: String,
    /// Everything about its provider that an answer depends on.
    pub(super) identity: String,
    /// What the format calls its provider.
    pub(super) provider: &'static str,
    /// How it is spoken to.
    pub(super) speaker: Speaker,
    /// What it costs, if that is known.
    pub(super) price: Option<Price>,
    /// What sums up for it what was said, if it does not do so itself, and what that costs.
    pub(super) summarizer: Option<Summarizer>,
    /// What it may ask for.
    pub(super) tools: Vec<String>,
    /// What it may do with that.
    pub(super) permissions: Permissions,
    pub(super) input_schema: Option<Schema>,
    pub(super) output_schema: Option<Schema>,
}

/// A model that sums up, and what it costs.
type Summarizer = (Arc<dyn Model>, Option<Price>);

impl Cast {
    /// Gets everyone ready, before anything is asked. `spec_path` is where the spec stands.
    pub(crate) async fn gather(
        world: &World,
        workflow: &Workflow,
        secrets: &Secrets,
        spec_path: &Path,
        workspace: &Path,
        observer: &dyn Observer,
    ) -> Result<Self, Error> {
        let folder = spec_path.parent().unwrap_or(Path::new("."));
        let mut made: Vec<(&Provider, Speaker)> = Vec::new();
        let mut cast = BTreeMap::new();
        for (name, agent) in &workflow.agents {
            let known = made
                .iter()
                .find(|(provider, _)| **provider == agent.provider);
            let speaker = match known {
                Some((_, speaker)) => speaker.clone(),
                None => world.drivers.driver(&agent.provider, folder)?,
            };
            made.push((&agent.provider, speaker.clone()));
            let performer = Performer {
                price: price(world, workflow, agent.provider.model())?,
                summarizer: summarizer(world, workflow, &agent.provider, folder)?,
                prompt: agent.prompt.clone(),
                skills: told(&workflow.skills),
                identity: agent.provider.identity(),
                provider: agent.provider.name(),
                speaker,
                tools: agent.tools.clone(),
                permissions: agent.permissions.clone(),
                input_schema: agent.input_schema.clone(),
                output_schema: agent.output_schema.clone(),
            };
            cast.insert(name.clone(), performer);
        }
        // Only models ask for tools.
        let models = cast
            .values()
            .any(|performer| matches!(performer.speaker, Speaker::Model(_)));
        let kits = if models {
            kits(world, workflow, secrets, folder, workspace, observer).await?
        } else {
            BTreeMap::new()
        };
        Ok(Self {
            performers: cast,
            kits,
        })
    }

    /// The tools with these names; `None` if there are none.
    pub(super) fn kit(&self, names: &[String]) -> Option<&Kit> {
        self.kits.get(names)
    }

    /// Whether this one is a program that keeps its conversation.
    pub(crate) fn is_companion(&self, name: &str) -> bool {
        let found = self.performers.get(name);
        found.is_some_and(|found| matches!(found.speaker, Speaker::Companion(_)))
    }

    /// Whether any of them is a program that keeps its conversation.
    pub(crate) fn has_companions(&self) -> bool {
        let mut all = self.performers.values();
        all.any(|performer| matches!(performer.speaker, Speaker::Companion(_)))
    }

    /// How this one is spoken to, and what it costs, if that is known.
    pub(crate) fn voice(&self, name: &str) -> Option<(Speaker, Option<Price>)> {
        let found = self.performers.get(name)?;
        Some((found.speaker.clone(), found.price))
    }

    /// The one of that name, if there is one.
    pub(super) fn find(&self, name: &str) -> Option<&Performer> {
        self.performers.get(name)
    }

    /// One of them. A spec that was read names nobody else.
    pub(super) fn get(&self, name: &str) -> &Performer {
        &self.performers[name]
    }
}

/// The model that sums up what an agent said, where the spec names one.
fn summarizer(
    world: &World,
    workflow: &Workflow,
    provider: &Provider,
    folder: &Path,
) -> Result<Option<Summarizer>, Error> {
    let compaction = workflow.context.compaction.as_ref();
    let (Some(model), Provider::Api(api)) = (compaction.and_then(|c| c.model.clone()), provider)
    else {
        return Ok(None);
    };
    let price = price(world, workflow, Some(&model))?;
    let provider = Provider::Api(Api {
        model,
        ..api.clone()
    });
    Ok(match world.drivers.driver(&provider, folder)? {
        Speaker::Model(model) => Some((model, price)),
        Speaker::Agent(_) | Speaker::Companion(_) => None,
    })
}

/// What a model costs. A limit on money cannot be kept without knowing that.
fn price(world: &World, workflow: &Workflow, model: Option<&str>) -> Result<Option<Price>, Error> {
    let Some(model) = model else {
        return Ok(None);
    };
    let price = world.drivers.price(model);
    if price.is_none() && workflow.runtime.budgets.max_cost.is_some() {
        return Err(Error::NoPrice {
            model: model.to_owned(),
        });
    }
    Ok(price)
}

/// A kit for each set of tools that some agent or step has.
async fn kits(
    world: &World,
    workflow: &Workflow,
    secrets: &Secrets,
    folder: &Path,
    workspace: &Path,
    observer: &dyn Observer,
) -> Result<BTreeMap<Vec<String>, Kit>, Error> {
    let own = workflow.agents.values().map(|agent| agent.tools.clone());
    let chosen = outline(workflow).into_iter().filter_map(|part| part.tools);
    let skills = &workflow.skills;
    let needed = |names: &Vec<String>| !names.is_empty() || !skills.is_empty();
    let sets: Vec<Vec<String>> = own.chain(chosen).filter(needed).collect();
    let mut wanted = workflow.tools.clone();
    let used = |id: &String| sets.iter().any(|names| names.contains(id));
    wanted.executors.retain(|executor| used(&executor.id));
    wanted.servers.retain(|server| used(&server.id));
    let Declared {
        executors, servers, ..
    } = secrets.fill(&wanted)?;
    for server in &servers {
        observer.notice(&format!("starting MCP server `{}`", server.id));
    }
    let started = servers.iter().map(|server| async {
        let tools = world.drivers.server(server, folder, workspace).await?;
        Ok::<_, Error>((server.id.as_str(), tools))
    });
    let started: Vec<(&str, Arc<dyn Tools>)> = futures_util::future::try_join_all(started).await?;
    let guardrails = &workflow.guardrails;
    let mut kits = BTreeMap::new();
    for names in sets {
        let mut executors = executors.clone();
        executors.retain(|executor| names.contains(&executor.id));
        let order = Order {
            native: &names,
            executors: &executors,
            skills,
            mounts: &workflow.environment.mounts,
            folder,
            workspace,
        };
        let mut kit = Kit::default();
        for tools in world.drivers.tools(order)? {
            kit.add(None, &tools, |_| true);
        }
        for (id, tools) in started
            .iter()
            .filter(|(id, _)| names.iter().any(|n| n == id))
        {
            let allows = |name: &str| guardrails.allows(name) || guardrails.allows(id);
            kit.add(Some(id), tools, allows);
        }
        kits.insert(names, kit);
    }
    Ok(kits)
}

/// What agents are told of skills.
fn told(skills: &[Skill]) -> String {
    let mut text = String::new();
    for skill in skills.iter().filter(|skill| skill.is_told) {
        if text.is_empty() {
            text.push_str("\n\nSkills, which the tool `Skill` loads when they are needed:");
        }
        let what = skill.description.as_deref();
        let what = what.map_or(String::new(), |what| format!(": {what}"));
        let _ = write!(text, "\n- {}{what}", skill.id);
    }
    text
}
