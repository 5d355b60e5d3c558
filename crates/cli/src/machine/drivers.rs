//! Which driver speaks to which provider.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use segno_agents::program::{Permissions, Setup};
use segno_agents::transcript::{Library, Native};
use segno_agents::{
    Acp, Anthropic, Bedrock, ClaudeCode, Client, Codex, Command, Endpoint, Executor, Executors,
    Gear, Inference, KeyHeader, Launch, Ledger, Mcp, McpServer, NativeTools, OpenAi, Reach, Script,
    Scripted, Search, Service, Skills, Web, bedrock, mcp,
};
use segno_core::companion::{Companion, Program};
use segno_core::ports::{Boxed, Clock, Disk};
use segno_core::tool::Tools;
use segno_core::transcript::Transcripts;
use segno_core::usage::Price;
use segno_engine::spec::{Api, Provider, Server, Skill, Transport, Vendor};
use segno_engine::{Drivers, Error, Order, Speaker};
use segno_store::LocalDisk;

use super::spec_verify::SpecVerify;
use crate::config::Started;

/// The hidden word that turns this program into the warden of an agent's processes.
pub(crate) const WARDEN: &str = "__warden";

/// How long an MCP server may take to start: `npx` may have to fetch it first.
const STARTING: Duration = Duration::from_mins(2);

/// The longest file of answers that is read.
const LONGEST_SCRIPT: u64 = 64 * 1024 * 1024;

pub(crate) struct MachineDrivers {
    pub(crate) clock: Arc<dyn Clock>,
    /// Private addresses that tools may call.
    pub(crate) reach: Reach,
    /// What models cost, by name.
    pub(crate) prices: BTreeMap<String, Price>,
    /// How agents' programs are started.
    pub(crate) programs: BTreeMap<&'static str, Started>,
    /// What they may do, if it was said for this run.
    pub(crate) permissions: Option<Permissions>,
    /// The MCP server for agents, where sessions are kept.
    pub(crate) service: Option<Service>,
    /// What calls the web, once it was needed.
    pub(crate) web: OnceLock<Web>,
}

impl Drivers for MachineDrivers {
    fn driver(&self, provider: &Provider, folder: &Path) -> Result<Speaker, Error> {
        match provider {
            Provider::Scripted { script } => self.scripted(&folder.join(script)),
            Provider::Command { argv } => Ok(Speaker::Agent(Arc::new(command(argv, folder)))),
            Provider::Api(api) => self.model(api),
            Provider::Acp { argv } => Ok(Speaker::Companion(self.acp(argv, folder))),
            Provider::Program { program, model } => {
                Ok(Speaker::Companion(self.program(*program, model.as_ref())?))
            }
        }
    }

    fn companion(&self, program: Program) -> Option<Arc<dyn Companion>> {
        self.program(program, None).ok()
    }

    fn transcripts(&self, program: Program) -> Option<Arc<dyn Transcripts>> {
        let (native, home) = (Native::of(program)?, home_of(program).ok()?);
        Some(Arc::new(Library::new(native, home)))
    }

    fn tools(&self, order: Order<'_>) -> Result<Vec<Arc<dyn Tools>>, Error> {
        let disk = Arc::new(LocalDisk);
        let web = self.web()?;
        let gear = Gear {
            disk: disk.clone(),
            clock: Arc::clone(&self.clock),
            web: web.clone(),
            search: Search::new(self.variable("TAVILY_API_KEY")),
            warden: warden(),
            mounts: mounts(&order)?,
        };
        let mut tools: Vec<Arc<dyn Tools>> = vec![Arc::new(NativeTools::new(order.native, gear))];
        if order.native.iter().any(|name| name == SpecVerify::NAME) {
            tools.push(Arc::new(SpecVerify::new()));
        }
        let service = |executor: &segno_engine::spec::Executor| Executor {
            id: executor.id.clone(),
            base_url: executor.base_url.clone(),
            headers: executor.headers.clone(),
            timeout: executor.timeout,
            description: executor.description.clone(),
        };
        for executor in order.executors {
            if let Some(reason) = self.reach.refusal(&executor.base_url) {
                return Err(Error::OutOfReach {
                    id: executor.id.clone(),
                    reason,
                });
            }
        }
        let services = order.executors.iter().map(service).collect();
        tools.push(Arc::new(Executors::new(services, web)));
        if !order.skills.is_empty() {
            let place = |skill: &Skill| (skill.id.clone(), order.folder.join(&skill.path));
            let skills = order.skills.iter().map(place).collect();
            tools.push(Arc::new(Skills::new(skills, disk)));
        }
        Ok(tools)
    }

    fn server<'a>(
        &'a self,
        server: &'a Server,
        folder: &'a Path,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<Arc<dyn Tools>, Error>> {
        Box::pin(async move {
            let unusable = |reason: String| Error::NoServer {
                id: server.id.clone(),
                reason,
            };
            let transport = match &server.transport {
                Transport::Program { argv, env } => mcp::Transport::Program {
                    argv: beside(argv, folder),
                    env: env.clone(),
                    folder: workspace.to_owned(),
                },
                Transport::Address { url, headers } => mcp::Transport::Address {
                    url: url.clone(),
                    headers: headers.clone(),
                },
            };
            let means = mcp::Means {
                warden: warden(),
                client: Client::new().map_err(|error| unusable(error.message))?,
                clock: Arc::clone(&self.clock),
                limits: mcp::Limits {
                    connect: STARTING,
                    ..mcp::Limits::default()
                },
            };
            let server = McpServer {
                id: server.id.clone(),
                transport,
            };
            let connected = Mcp::connect(server, means).await;
            let mcp = connected
                .map_err(|error| unusable(format!("{}: {}", error.tried, error.reason)))?;
            Ok(Arc::new(mcp) as Arc<dyn Tools>)
        })
    }

    fn price(&self, model: &str) -> Option<Price> {
        self.prices.get(model).copied()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// The folders that a spec mounts. A spec may come from anyone, so it mounts only what lies beside it
/// or in the workspace.
fn mounts(order: &Order<'_>) -> Result<Vec<(String, PathBuf)>, Error> {
    let mount = |(name, given): &(String, String)| {
        let path = order.folder.join(given);
        let refuse = |reason: &str| Error::Unreadable {
            path: path.clone(),
            reason: format!("mount `{name}` {reason}"),
        };
        let real = path
            .canonicalize()
            .map_err(|error| refuse(&error.to_string()))?;
        let roots = [order.folder, order.workspace].map(Path::canonicalize);
        let inside = roots.iter().flatten().any(|root| real.starts_with(root));
        if !real.is_dir() || !inside {
            return Err(refuse(
                "must be a folder below the spec's own or the workspace",
            ));
        }
        Ok((name.clone(), real))
    };
    order.mounts.iter().map(mount).collect()
}

/// A variable of the environment that says something.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn client(vendor: Vendor) -> Result<Client, Error> {
    Client::new().map_err(|error| Error::NoClient {
        provider: vendor.name(),
        reason: error.message,
    })
}

fn inference(api: &Api) -> Inference {
    Inference {
        temperature: api.inference.temperature,
        top_p: api.inference.top_p,
        max_tokens: api.inference.max_tokens,
    }
}

/// A model that wants a key of its vendor.
fn keyed(api: &Api) -> Result<(Endpoint, Client), Error> {
    let (variable, base) = match api.vendor {
        Vendor::Anthropic => (Some("ANTHROPIC_API_KEY"), Anthropic::BASE),
        Vendor::OpenAi => (Some("OPENAI_API_KEY"), OpenAi::BASE),
        Vendor::Azure => (Some("AZURE_OPENAI_API_KEY"), ""),
        Vendor::Gemini => (Some("GEMINI_API_KEY"), OpenAi::GEMINI),
        Vendor::Ollama | Vendor::Bedrock => (None, ""),
    };
    let key = variable.and_then(set);
    // A place of one's own may want no key; Azure's always does.
    let free = api.base.is_some() && api.vendor != Vendor::Azure;
    if let (Some(variable), None, false) = (variable, &key, free) {
        return Err(Error::NoKey {
            provider: api.vendor.name(),
            variable,
        });
    }
    let endpoint = Endpoint {
        base: api.base.clone().unwrap_or_else(|| base.to_owned()),
        model: api.model.clone(),
        key,
    };
    Ok((endpoint, client(api.vendor)?))
}

/// Where Bedrock is, and what it is shown. Its own key counts before the others, as in AWS's programs.
fn amazon(api: &Api) -> Result<(String, bedrock::Access), Error> {
    let base = api
        .base
        .clone()
        .or_else(|| set("AWS_ENDPOINT_URL_BEDROCK_RUNTIME"));
    let base = base.map(|base| base.trim_end_matches('/').to_owned());
    let region = || {
        let said = api.region.clone().or_else(|| set("AWS_REGION"));
        let said = said.or_else(|| set("AWS_DEFAULT_REGION"));
        let region = said.as_deref().and_then(bedrock::Region::new);
        region.ok_or_else(|| Error::NoClient {
            provider: Vendor::Bedrock.name(),
            reason: "it needs a region like `eu-west-1`, as `runtime.region` or in `AWS_REGION`"
                .into(),
        })
    };
    let missing = |variable| Error::NoKey {
        provider: Vendor::Bedrock.name(),
        variable,
    };
    let access = if let Some(key) = set("AWS_BEARER_TOKEN_BEDROCK") {
        bedrock::Access::Bearer(key)
    } else {
        match (set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => bedrock::Access::Keys {
                id,
                secret,
                session: set("AWS_SESSION_TOKEN"),
                region: region()?,
            },
            (Some(_), None) => return Err(missing("AWS_SECRET_ACCESS_KEY")),
            (None, _) if base.is_some() => bedrock::Access::Open,
            (None, _) => return Err(missing("AWS_ACCESS_KEY_ID")),
        }
    };
    let base = match base {
        Some(base) => base,
        None => region()?.base(),
    };
    Ok((base, access))
}

/// Where a program keeps its conversations: where a variable says, or else in a folder of the person's
/// home.
fn home_of(program: Program) -> Result<PathBuf, Error> {
    let (variable, below) = match program {
        Program::ClaudeCode => ("CLAUDE_CONFIG_DIR", ".claude"),
        Program::Codex => ("CODEX_HOME", ".codex"),
        Program::Acp => {
            return Err(Error::NoClient {
                provider: program.as_str(),
                reason: "where it keeps its conversations is its own affair".into(),
            });
        }
    };
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = set(variable).map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(set("HOME")?).join(below)));
    home.ok_or_else(|| Error::NoClient {
        provider: program.as_str(),
        reason: format!("neither {variable} nor HOME is set"),
    })
}

impl MachineDrivers {
    /// A program that keeps its conversation itself, and is known by name.
    fn program(
        &self,
        program: Program,
        model: Option<&String>,
    ) -> Result<Arc<dyn Companion>, Error> {
        let setup = |usual| self.setup(program, model, usual);
        Ok(match program {
            Program::ClaudeCode => {
                Arc::new(ClaudeCode::new(setup("claude")?, Arc::clone(&self.clock)))
            }
            Program::Codex => Arc::new(Codex::new(setup("codex")?, Arc::clone(&self.clock))),
            Program::Acp => {
                return Err(Error::NoClient {
                    provider: program.as_str(),
                    reason: "only a spec says how it is started".into(),
                });
            }
        })
    }

    /// How a program is started that is found by its own name.
    fn setup(&self, program: Program, model: Option<&String>, usual: &str) -> Result<Setup, Error> {
        let started = self.programs.get(program.as_str());
        let started = started.cloned().unwrap_or_default();
        Ok(Setup {
            program: started.program.unwrap_or_else(|| usual.to_owned()),
            home: home_of(program)?,
            permissions: self.permissions.unwrap_or(started.permissions),
            allow: started.allow,
            window: started.window,
            model: model.cloned(),
            service: self.service(started.mcp),
            warden: warden(),
        })
    }

    /// The MCP server for an agent, unless the person wants none.
    fn service(&self, wanted: bool) -> Option<Service> {
        self.service.clone().filter(|_| wanted)
    }

    /// An agent that speaks the Agent Client Protocol.
    fn acp(&self, argv: &[String], folder: &Path) -> Arc<dyn Companion> {
        let started = self.programs.get(Program::Acp.as_str());
        let usual = started.map(|started| started.permissions);
        let permissions = self.permissions.or(usual).unwrap_or_default();
        let service = self.service(started.is_none_or(|started| started.mcp));
        let (argv, clock) = (beside(argv, folder), Arc::clone(&self.clock));
        Arc::new(Acp::new(argv, permissions, warden(), service, clock))
    }

    /// A model behind an API. Its key comes from the environment, and from nowhere else.
    fn model(&self, api: &Api) -> Result<Speaker, Error> {
        Ok(Speaker::Model(match api.vendor {
            Vendor::Anthropic => {
                let (endpoint, client) = keyed(api)?;
                Arc::new(Anthropic::new(client, endpoint, inference(api)))
            }
            Vendor::Bedrock => {
                let (base, access) = amazon(api)?;
                let (client, model) = (client(api.vendor)?, api.model.clone());
                let clock = Arc::clone(&self.clock);
                Arc::new(Bedrock::new(
                    client,
                    base,
                    model,
                    access,
                    inference(api),
                    clock,
                ))
            }
            Vendor::OpenAi | Vendor::Azure | Vendor::Gemini | Vendor::Ollama => {
                let (endpoint, client) = keyed(api)?;
                let header = match api.vendor {
                    Vendor::Azure => KeyHeader::ApiKey,
                    _ => KeyHeader::Bearer,
                };
                Arc::new(OpenAi::new(client, endpoint, inference(api), header))
            }
        }))
    }

    /// What calls the web, made once: reading this machine's certificates takes a while.
    fn web(&self) -> Result<Web, Error> {
        if let Some(web) = self.web.get() {
            return Ok(web.clone());
        }
        let web = Web::new(self.reach.clone(), Arc::clone(&self.clock));
        let web = web.map_err(|error| Error::NoClient {
            provider: "tools",
            reason: error.message,
        })?;
        Ok(self.web.get_or_init(|| web).clone())
    }

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
    Command::new(beside(argv, folder), warden())
}

/// A program named by a relative path stands beside the spec that names it.
fn beside(argv: &[String], folder: &Path) -> Vec<String> {
    let mut argv = argv.to_vec();
    if let Some(program) = argv.first_mut()
        && program.contains('/')
    {
        let beside: std::path::PathBuf = folder.join(&*program).components().collect();
        *program = beside.display().to_string();
    }
    argv
}

fn warden() -> Launch {
    Launch {
        program: "/proc/self/exe".into(),
        args: vec![WARDEN.into()],
    }
}
