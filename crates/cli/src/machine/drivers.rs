//! Which driver speaks to which provider.

use std::path::Path;
use std::sync::Arc;

use segno_agents::{
    Anthropic, Client, Command, Endpoint, Inference, Launch, Ledger, NativeTools, OpenAi, Script,
    Scripted, Skills, Toolbox,
};
use segno_core::ports::{Clock, Disk};
use segno_core::tool::Tools;
use segno_engine::spec::{Api, Provider, Skill, Vendor};
use segno_engine::{Drivers, Error, Speaker};
use segno_store::LocalDisk;

/// The hidden word that turns this program into the warden of an agent's processes.
pub(crate) const WARDEN: &str = "__warden";

/// The longest file of answers that is read.
const LONGEST_SCRIPT: u64 = 64 * 1024 * 1024;

pub(crate) struct MachineDrivers {
    pub(crate) clock: Arc<dyn Clock>,
}

impl Drivers for MachineDrivers {
    fn driver(&self, provider: &Provider, folder: &Path) -> Result<Speaker, Error> {
        match provider {
            Provider::Scripted { script } => self.scripted(&folder.join(script)),
            Provider::Command { argv } => Ok(Speaker::Agent(Arc::new(command(argv, folder)))),
            Provider::Api(api) => model(api),
        }
    }

    fn tools(&self, names: &[String], skills: &[Skill], folder: &Path) -> Arc<dyn Tools> {
        let disk = Arc::new(LocalDisk);
        let native = NativeTools::new(names, disk.clone(), Arc::clone(&self.clock));
        let mut sorts: Vec<Box<dyn Tools>> = vec![Box::new(native)];
        if !skills.is_empty() {
            let place = |skill: &Skill| (skill.id.clone(), folder.join(&skill.path));
            sorts.push(Box::new(Skills::new(
                skills.iter().map(place).collect(),
                disk,
            )));
        }
        Arc::new(Toolbox::new(sorts))
    }
}

/// A model behind an API. Its key comes from the environment, and from nowhere else.
fn model(api: &Api) -> Result<Speaker, Error> {
    let (variable, host) = match api.vendor {
        Vendor::Anthropic => (Some("ANTHROPIC_API_KEY"), Anthropic::HOST),
        Vendor::OpenAi => (Some("OPENAI_API_KEY"), OpenAi::HOST),
        Vendor::Ollama => (None, ""),
    };
    let key = variable.and_then(|name| std::env::var(name).ok().filter(|key| !key.is_empty()));
    if let (Some(variable), None, None) = (variable, &key, &api.base) {
        return Err(Error::NoKey {
            provider: api.vendor.name(),
            variable,
        });
    }
    let client = Client::new().map_err(|error| Error::NoClient {
        provider: api.vendor.name(),
        reason: error.message,
    })?;
    let endpoint = Endpoint {
        base: api.base.clone().unwrap_or_else(|| format!("{host}/v1")),
        model: api.model.clone(),
        key,
    };
    let inference = Inference {
        temperature: api.inference.temperature,
        top_p: api.inference.top_p,
        max_tokens: api.inference.max_tokens,
    };
    Ok(Speaker::Model(match api.vendor {
        Vendor::Anthropic => Arc::new(Anthropic::new(client, endpoint, inference)),
        Vendor::OpenAi | Vendor::Ollama => Arc::new(OpenAi::new(client, endpoint, inference)),
    }))
}

impl MachineDrivers {
    fn scripted(&self, path: &Path) -> Result<Speaker, Error> {
        let unreadable = |reason: String| Error::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let bytes = LocalDisk
            .read(path, LONGEST_SCRIPT)
            .map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        let script = Script::parse(&text).map_err(|error| unreadable(error.to_string()))?;
        let ledger = match script.ledger() {
            Some(name) => {
                let place = path.parent().unwrap_or(Path::new(".")).join(name);
                let opened = Ledger::open(&place);
                Some(opened.map_err(|error| Error::Unreadable {
                    path: place,
                    reason: error.to_string(),
                })?)
            }
            None => None,
        };
        let scripted = Scripted::new(script, Arc::clone(&self.clock), ledger);
        Ok(Speaker::Agent(Arc::new(scripted)))
    }
}

fn command(argv: &[String], folder: &Path) -> Command {
    let mut argv = argv.to_vec();
    // A program named by a relative path stands beside the spec that names it.
    if let Some(program) = argv.first_mut()
        && program.contains('/')
    {
        let beside: std::path::PathBuf = folder.join(&*program).components().collect();
        *program = beside.display().to_string();
    }
    let warden = Launch {
        program: "/proc/self/exe".into(),
        args: vec![WARDEN.into()],
    };
    Command::new(argv, warden)
}
