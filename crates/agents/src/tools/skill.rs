//! Skills: folders with a `SKILL.md`, named by the spec, which an agent loads when it needs them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::ports::{Boxed, Clock, Disk};
use segno_core::tool::{EffectClass, OfferedTool, Tools};
use segno_core::tool::{Tool, ToolCall};
use serde_json::json;

use super::FILES_TIMEOUT;
use super::cancellation::run_blocking;

/// The longest file of a skill, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// Skills by name, with their folders or files.
pub struct Skills {
    locations: Locations,
    clock: Arc<dyn Clock>,
    offers: Vec<OfferedTool>,
}

#[derive(Clone)]
struct Locations {
    disk: Arc<dyn Disk>,
    skills: Vec<(String, PathBuf)>,
}

impl Skills {
    pub fn new(skills: Vec<(String, PathBuf)>, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Self {
        let tool = Tool {
            name: "Skill".to_owned(),
            description:
                "Loads a skill: instructions for a task. `id/module` loads a module of it."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"skill_id": {"type": "string", "description": "the id of the skill"}},
                "required": ["skill_id"],
            }),
        };
        let class = EffectClass::ReadOnly;
        Self {
            locations: Locations { disk, skills },
            clock,
            offers: vec![OfferedTool { tool, class }],
        }
    }
}

impl Locations {
    fn load(&self, wanted: &str) -> Result<String, String> {
        let (id, module) = wanted.split_once('/').unwrap_or((wanted, ""));
        let known = self.skills.iter().find(|(known, _)| known == id);
        let (_, location) = known.ok_or_else(|| {
            let ids: Vec<&str> = self.skills.iter().map(|(id, _)| id.as_str()).collect();
            format!("there is no skill `{id}`; available: {}", ids.join(", "))
        })?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if !module.chars().all(is_name) {
            return Err(format!("`{module}` is not a module name"));
        }
        let files = match module {
            "" if location.is_file() => vec![location.clone()],
            "" => vec![location.join("SKILL.md"), location.join("README.md")],
            module => vec![location.join(format!("{module}.md"))],
        };
        let mut problem = String::new();
        for file in files {
            match self.disk.read(&file, MAX_FILE) {
                Ok(bytes) => {
                    return String::from_utf8(bytes)
                        .map_err(|_| format!("skill `{wanted}` is not text"));
                }
                Err(error) => problem = error.to_string(),
            }
        }
        Err(format!("skill `{wanted}` cannot be read: {problem}"))
    }
}

impl Tools for Skills {
    fn offered_tools(&self) -> &[OfferedTool] {
        &self.offers
    }

    fn run<'a>(&'a self, call: &'a ToolCall, _: &'a Path) -> Boxed<'a, Result<String, String>> {
        Box::pin(async move {
            let wanted = call.input["skill_id"].as_str();
            let wanted = wanted.ok_or("`skill_id` is missing")?.to_owned();
            let locations = self.locations.clone();
            run_blocking(&*self.clock, FILES_TIMEOUT, move |_| {
                locations.load(&wanted)
            })
            .await
        })
    }
}
