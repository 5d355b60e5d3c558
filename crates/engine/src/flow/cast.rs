//! The agents of a workflow, ready to be asked.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use segno_core::tool::Tools;

use crate::error::Error;
use crate::spec::{Provider, Schema, Skill, Workflow, outline};
use crate::world::{Speaker, World};

/// Everyone, by name, and what models may ask for.
pub(crate) struct Cast {
    performers: BTreeMap<String, Performer>,
    toolboxes: BTreeMap<Vec<String>, Arc<dyn Tools>>,
}

pub(crate) struct Performer {
    /// Who it is: a template.
    pub(super) prompt: String,
    /// The skills that it is told of, below its prompt.
    pub(super) skills: String,
    /// Everything about its provider that an answer depends on.
    pub(super) identity: String,
    /// How it is spoken to.
    pub(super) speaker: Speaker,
    /// What it may ask for.
    pub(super) tools: Vec<String>,
    pub(super) input_schema: Option<Schema>,
    pub(super) output_schema: Option<Schema>,
}

impl Cast {
    /// Gets everyone ready, before anything is asked. `spec_path` is where the spec stands.
    pub(crate) fn gather(
        world: &World,
        workflow: &Workflow,
        spec_path: &Path,
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
                prompt: agent.prompt.clone(),
                skills: told(&workflow.skills),
                identity: agent.provider.identity(),
                speaker,
                tools: agent.tools.clone(),
                input_schema: agent.input_schema.clone(),
                output_schema: agent.output_schema.clone(),
            };
            cast.insert(name.clone(), performer);
        }
        let mut toolboxes = BTreeMap::new();
        let own = workflow.agents.values().map(|agent| &agent.tools);
        let chosen = outline(workflow).into_iter().filter_map(|part| part.tools);
        let skills = &workflow.skills;
        let needed = |names: &Vec<String>| !names.is_empty() || !skills.is_empty();
        for names in own.cloned().chain(chosen).filter(needed) {
            let tools = world.drivers.tools(&names, skills, folder);
            toolboxes.entry(names).or_insert(tools);
        }
        Ok(Self {
            performers: cast,
            toolboxes,
        })
    }

    /// The tools with these names; `None` if there are none.
    pub(super) fn tools(&self, names: &[String]) -> Option<&dyn Tools> {
        self.toolboxes.get(names).map(|tools| &**tools)
    }

    /// One of them. A spec that was read names nobody else.
    pub(super) fn get(&self, name: &str) -> &Performer {
        &self.performers[name]
    }
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
