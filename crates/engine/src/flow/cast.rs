//! The agents of a workflow, ready to be asked.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Error;
use crate::spec::{Provider, Workflow};
use crate::world::{Speaker, World};

/// Everyone, by name.
pub(crate) struct Cast(BTreeMap<String, Performer>);

pub(crate) struct Performer {
    /// Who it is: a template.
    pub(super) prompt: String,
    /// Everything about its provider that an answer depends on.
    pub(super) identity: String,
    /// How it is spoken to.
    pub(super) speaker: Speaker,
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
                identity: agent.provider.identity(),
                speaker,
            };
            cast.insert(name.clone(), performer);
        }
        Ok(Self(cast))
    }

    /// One of them. A spec that was read names nobody else.
    pub(super) fn get(&self, name: &str) -> &Performer {
        &self.0[name]
    }
}
