//! Creates the driver for each provider: models, CLI agents, ACP agents, programs, tools and MCP
//! servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use segno_agents::claude_code::default_for_family;
use segno_agents::program::{Permissions, Setup, home_folder};
use segno_agents::transcript::opencode::OpenCodeTranscripts;
use segno_agents::transcript::{TranscriptFolder, TranscriptFormat};
use segno_agents::{
    Acp, AgentEnvironment, Anthropic, Bedrock, BuiltinTools, ClaudeCode, Client, Codex, Command,
    Endpoint, Executor, Executors, Inference, KeyHeader, Launch, Mcp, McpServer, NetworkPolicy,
    OpenAi, Scripted, Search, SegnoMcpServer, Skills, ToolDeps, Web, WritePolicy, bedrock, mcp,
};
use segno_core::cli_agent::{CliAgent, CliAgentKind};
use segno_core::ports::{Boxed, Clock, Disk};
use segno_core::tool::Tools;
use segno_core::transcript::{TranscriptSource, Transcripts};
use segno_core::usage::Price;
use segno_engine::env::Error;
use segno_engine::{AgentDriver, Drivers, ToolsetRequest};
use segno_integrations::transcripts::programs;
use segno_spec::{Api, Provider, Server, Skill, Transport, Vendor};
use segno_store::LocalDisk;

use super::spec_verify::SpecVerify;
use crate::config::ProgramSettings;

/// The hidden subcommand that runs the process guard of an agent.
pub(crate) const PROCESS_GUARD: &str = "__process-guard";

/// Startup timeout of an MCP server: `npx` may have to download it first.
const SERVER_START_TIMEOUT: Duration = Duration::from_mins(2);

/// How many bytes of Codex's settings are read.
const MAX_CODEX_CONFIG: u64 = 1024 * 1024;

pub(crate) struct MachineDrivers {
    pub(crate) clock: Arc<dyn Clock>,
    /// Private network addresses that tools may call.
    pub(crate) reach: NetworkPolicy,
    /// What tools may not write, in any session.
    pub(crate) writes: WritePolicy,
    /// Whether code of a model may write only to the workspace.
    pub(crate) confine_programs: bool,
    /// Prices of models, by model name.
    pub(crate) prices: BTreeMap<String, Price>,
    /// The sizes of context windows in tokens, by model name.
    pub(crate) context_windows: BTreeMap<String, u64>,
    /// How CLI agents are started, by provider name.
    pub(crate) programs: BTreeMap<&'static str, ProgramSettings>,
    /// Environment variables that agents' programs get, although they look like secrets.
    pub(crate) pass_env: Vec<String>,
    /// Permissions for this run, which override the settings.
    pub(crate) permissions: Option<Permissions>,
    /// Segno's MCP server for agents; absent if sessions are not stored.
    pub(crate) service: Option<SegnoMcpServer>,
    /// The HTTP client of tools, created on first use.
    pub(crate) web: OnceLock<Web>,
}

impl Drivers for MachineDrivers {
    fn driver(&self, provider: &Provider, folder: &Path) -> Result<AgentDriver, Error> {
        match provider {
            Provider::Scripted { script } => self.scripted(&folder.join(script)),
            Provider::Command { argv } => {
                let command = command(argv, folder);
                let command = command.with_environment(agent_environment(&self.pass_env));
                Ok(AgentDriver::Stateless(Arc::new(command)))
            }
            Provider::Api(api) => self.model(api),
            Provider::Acp { argv } => Ok(AgentDriver::CliAgent(self.acp(argv, folder))),
            Provider::Program { program, model } => Ok(AgentDriver::CliAgent(
                self.program(*program, model.as_ref())?,
            )),
        }
    }

    fn cli_agent(&self, program: CliAgentKind) -> Option<Arc<dyn CliAgent>> {
        self.program(program, None).ok()
    }

    fn transcripts(&self, source: TranscriptSource) -> Option<Arc<dyn Transcripts>> {
        let root = match TranscriptFormat::for_program(source.program()) {
            Some(_) => data_folder(source.program()).ok()?,
            None => programs::root(source)?,
        };
        let native = |native| TranscriptFolder::new(native, root.clone());
        Some(match source {
            TranscriptSource::ClaudeCode => Arc::new(native(TranscriptFormat::ClaudeCode)),
            TranscriptSource::Codex => Arc::new(native(TranscriptFormat::Codex)),
            TranscriptSource::Gemini => Arc::new(TranscriptFolder::gemini(root)),
            TranscriptSource::OpenCode => Arc::new(OpenCodeTranscripts::new(&root)),
        })
    }

    fn tools(&self, order: ToolsetRequest<'_>) -> Result<Vec<Arc<dyn Tools>>, Error> {
        let web = self.web()?;
        let gear = ToolDeps {
            clock: Arc::clone(&self.clock),
            web: web.clone(),
            search: Search::new(self.variable("TAVILY_API_KEY")),
            guard: process_guard(),
            mounts: mounts(&order)?,
            writes: own_writes(&self.writes, &order),
            confine_programs: self.confine_programs,
        };
        let mut tools: Vec<Arc<dyn Tools>> = vec![Arc::new(BuiltinTools::new(order.native, gear))];
        if order.native.iter().any(|name| name == SpecVerify::NAME) {
            tools.push(Arc::new(SpecVerify::new(Arc::clone(&self.clock))));
        }
        let service = |executor: &segno_spec::Executor| Executor {
            id: executor.id.clone(),
            base_url: executor.base_url.clone(),
            headers: executor.headers.clone(),
            timeout: executor.timeout,
            description: executor.description.clone(),
        };
        for executor in order.executors {
            if let Some(reason) = self.reach.refusal(&executor.base_url) {
                return Err(Error::ServiceBlocked {
                    id: executor.id.clone(),
                    reason,
                });
            }
        }
        let services = order.executors.iter().map(service).collect();
        tools.push(Arc::new(Executors::new(services, web)));
        if !order.skills.is_empty() {
            let place = |skill: &Skill| (skill.id.clone(), order.spec_folder().join(&skill.path));
            let skills = order.skills.iter().map(place).collect();
            let clock = Arc::clone(&self.clock);
            tools.push(Arc::new(Skills::new(skills, Arc::new(LocalDisk), clock)));
        }
        Ok(tools)
    }

    fn mcp_server<'a>(
        &'a self,
        server: &'a Server,
        folder: &'a Path,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<Arc<dyn Tools>, Error>> {
        Box::pin(async move {
            let unusable = |reason: String| Error::McpServerFailed {
                id: server.id.clone(),
                reason,
            };
            let transport = match &server.transport {
                Transport::Program { argv, env } => mcp::Transport::Stdio {
                    argv: resolve_program(argv, folder),
                    env: env.clone(),
                    folder: workspace.to_owned(),
                },
                Transport::Address { url, headers } => mcp::Transport::Http {
                    url: url.clone(),
                    headers: headers.clone(),
                },
            };
            let means = mcp::ConnectionConfig {
                guard: process_guard(),
                client: Client::new().map_err(|error| unusable(error.message))?,
                clock: Arc::clone(&self.clock),
                limits: mcp::Limits {
                    connect: SERVER_START_TIMEOUT,
                    ..mcp::Limits::default()
                },
            };
            let server = McpServer {
                id: server.id.clone(),
                transport,
            };
            let connected = Mcp::connect(server, means).await;
            let mcp = connected
                .map_err(|error| unusable(format!("{}: {}", error.operation, error.reason)))?;
            Ok(Arc::new(mcp) as Arc<dyn Tools>)
        })
    }

    fn price(&self, model: &str) -> Option<Price> {
        self.prices.get(model).copied()
    }

    fn context_window(&self, model: &str) -> Option<u64> {
        let configured = self.context_windows.get(model).copied();
        // Other providers put region and vendor in front of the name of a Claude model.
        let family = || default_for_family(&model[model.find("claude-")?..]);
        configured.or_else(family)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Resolves the folders that a spec mounts. A spec may come from anyone, so mounts are limited to
/// its own folder and the workspace.
fn mounts(order: &ToolsetRequest<'_>) -> Result<Vec<(String, PathBuf)>, Error> {
    let mount = |(name, given): &(String, String)| {
        let path = order.spec_folder().join(given);
        let refuse = |reason: &str| Error::Unreadable {
            path: path.clone(),
            reason: format!("mount `{name}` {reason}"),
        };
        let real = path
            .canonicalize()
            .map_err(|error| refuse(&error.to_string()))?;
        let roots = [order.spec_folder(), order.workspace].map(Path::canonicalize);
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

/// What the tools of one session may not write: also its spec, and the files in the commands that it
/// runs: they decide what the session starts next.
fn own_writes(all: &WritePolicy, order: &ToolsetRequest<'_>) -> WritePolicy {
    let writes = all.clone();
    let writes = writes.protect(order.spec_path, "it is the spec of this session");
    let words = order.commands.iter().copied().flatten();
    let files =
        words.flat_map(|word| [order.spec_folder(), order.workspace].map(|it| it.join(word)));
    files
        .filter(|file| file.is_file())
        .fold(writes, |writes, file| {
            writes.protect(&file, "this session runs it")
        })
}

/// Returns an environment variable that is set and not empty.
fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn client(vendor: Vendor) -> Result<Client, Error> {
    Client::new().map_err(|error| Error::ClientUnavailable {
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

/// Returns endpoint and client of a model that is authenticated with the vendor's API key.
fn endpoint_with_key(api: &Api) -> Result<(Endpoint, Client), Error> {
    let (variable, base) = match api.vendor {
        Vendor::Anthropic => (Some("ANTHROPIC_API_KEY"), Anthropic::BASE),
        Vendor::OpenAi => (Some("OPENAI_API_KEY"), OpenAi::BASE),
        Vendor::Azure => (Some("AZURE_OPENAI_API_KEY"), ""),
        Vendor::Gemini => (Some("GEMINI_API_KEY"), OpenAi::GEMINI_BASE),
        Vendor::Ollama | Vendor::Bedrock => (None, ""),
    };
    let key = variable.and_then(env_var);
    // A custom endpoint may need no key; Azure always needs one.
    let needs_no_key = api.base.is_some() && api.vendor != Vendor::Azure;
    if let (Some(variable), None, false) = (variable, &key, needs_no_key) {
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

/// Returns endpoint and credentials for Bedrock. Its own API key takes precedence over AWS keys, as
/// in the AWS CLI.
fn bedrock_access(api: &Api) -> Result<(String, bedrock::Credentials), Error> {
    let base = api
        .base
        .clone()
        .or_else(|| env_var("AWS_ENDPOINT_URL_BEDROCK_RUNTIME"));
    let base = base.map(|base| base.trim_end_matches('/').to_owned());
    let region = || {
        let name = api.region.clone().or_else(|| env_var("AWS_REGION"));
        let name = name.or_else(|| env_var("AWS_DEFAULT_REGION"));
        let region = name.as_deref().and_then(bedrock::Region::new);
        region.ok_or_else(|| Error::ClientUnavailable {
            provider: Vendor::Bedrock.name(),
            reason: "it needs a region like `eu-west-1`, as `runtime.region` or in `AWS_REGION`"
                .into(),
        })
    };
    let missing = |variable| Error::NoKey {
        provider: Vendor::Bedrock.name(),
        variable,
    };
    let access = if let Some(key) = env_var("AWS_BEARER_TOKEN_BEDROCK") {
        bedrock::Credentials::Bearer(key)
    } else {
        match (
            env_var("AWS_ACCESS_KEY_ID"),
            env_var("AWS_SECRET_ACCESS_KEY"),
        ) {
            (Some(id), Some(secret)) => bedrock::Credentials::AccessKey {
                id,
                secret,
                session: env_var("AWS_SESSION_TOKEN"),
                region: region()?,
            },
            (Some(_), None) => return Err(missing("AWS_SECRET_ACCESS_KEY")),
            (None, _) if base.is_some() => bedrock::Credentials::Anonymous,
            (None, _) => return Err(missing("AWS_ACCESS_KEY_ID")),
        }
    };
    let base = match base {
        Some(base) => base,
        None => region()?.base(),
    };
    Ok((base, access))
}

/// Which environment variables agents get, if the settings pass these in addition.
pub(crate) fn agent_environment(pass: &[String]) -> AgentEnvironment {
    AgentEnvironment {
        looks_secret: segno_secrets::redact::is_secret_variable,
        pass: pass.to_vec(),
    }
}

/// The environment variables that Codex's own settings name: the keys of model providers and of MCP
/// servers. Codex reports settings that cannot be read.
fn codex_variables(home: &Path) -> Vec<String> {
    let read = LocalDisk.read(&home.join("config.toml"), MAX_CODEX_CONFIG);
    let text = read.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let table = text.and_then(|text| text.parse::<toml::Table>().ok());
    let mut names = Vec::new();
    for (_, value) in table.into_iter().flatten() {
        named_variables(&value, &mut names);
    }
    names
}

/// Adds the environment variables that a part of Codex's settings names.
fn named_variables(value: &toml::Value, names: &mut Vec<String>) {
    let toml::Value::Table(table) = value else {
        return;
    };
    let text = |value: &toml::Value| value.as_str().map(str::to_owned);
    for (key, value) in table {
        match (key.as_str(), value) {
            ("env_key" | "bearer_token_env_var", name) => names.extend(text(name)),
            ("env_vars", toml::Value::Array(listed)) => {
                names.extend(listed.iter().filter_map(text));
            }
            ("env_http_headers", toml::Value::Table(headers)) => {
                names.extend(headers.values().filter_map(text));
            }
            (_, value) => named_variables(value, names),
        }
    }
}

/// The folder in which a CLI agent stores its conversations.
fn data_folder(program: CliAgentKind) -> Result<PathBuf, Error> {
    let found = home_folder(program, |name| std::env::var_os(name));
    found.map_err(|reason| Error::ClientUnavailable {
        provider: program.as_str(),
        reason,
    })
}

impl MachineDrivers {
    /// Creates the driver of a CLI agent that is known by name.
    fn program(
        &self,
        program: CliAgentKind,
        model: Option<&String>,
    ) -> Result<Arc<dyn CliAgent>, Error> {
        let setup = |default| self.setup(program, model, default);
        Ok(match program {
            CliAgentKind::ClaudeCode => {
                Arc::new(ClaudeCode::new(setup("claude")?, Arc::clone(&self.clock)))
            }
            CliAgentKind::Codex => Arc::new(Codex::new(setup("codex")?, Arc::clone(&self.clock))),
            CliAgentKind::Acp => {
                return Err(Error::ClientUnavailable {
                    provider: program.as_str(),
                    reason: "only a spec says how it is started".into(),
                });
            }
        })
    }

    /// How to start a CLI agent that is found by its default name.
    fn setup(
        &self,
        program: CliAgentKind,
        model: Option<&String>,
        default: &str,
    ) -> Result<Setup, Error> {
        let settings = self.programs.get(program.as_str());
        let settings = settings.cloned().unwrap_or_default();
        Ok(Setup {
            program: settings.program.unwrap_or_else(|| default.to_owned()),
            home: data_folder(program)?,
            user_home: std::env::var_os("HOME").map(PathBuf::from),
            permissions: self.permissions.unwrap_or(settings.permissions),
            allowed_tools: settings.allow,
            window: settings.window,
            model: model.cloned(),
            service: self.service(settings.mcp),
            environment: self.environment(program),
            guard: process_guard(),
        })
    }

    /// Which environment variables a CLI agent gets.
    fn environment(&self, program: CliAgentKind) -> AgentEnvironment {
        let mut environment = agent_environment(&self.pass_env);
        // An ACP agent may be an adapter to Codex.
        let may_be_codex = matches!(program, CliAgentKind::Codex | CliAgentKind::Acp);
        if let (true, Ok(home)) = (may_be_codex, data_folder(CliAgentKind::Codex)) {
            environment.pass.extend(codex_variables(&home));
        }
        // What Segno's own server needs to open the home reaches it through the agent.
        let service = self.service.iter();
        let inherited = service.flat_map(|service| service.inherited_variables.iter().cloned());
        environment.pass.extend(inherited);
        environment
    }

    /// Segno's MCP server for an agent, unless the settings disable it.
    fn service(&self, wanted: bool) -> Option<SegnoMcpServer> {
        self.service.clone().filter(|_| wanted)
    }

    /// Creates the driver of an agent that uses the Agent Client Protocol.
    fn acp(&self, argv: &[String], folder: &Path) -> Arc<dyn CliAgent> {
        let settings = self.programs.get(CliAgentKind::Acp.as_str());
        let default = settings.map(|settings| settings.permissions);
        let permissions = self.permissions.or(default).unwrap_or_default();
        let service = self.service(settings.is_none_or(|settings| settings.mcp));
        let (argv, clock) = (resolve_program(argv, folder), Arc::clone(&self.clock));
        let acp = Acp::new(argv, permissions, process_guard(), service, clock);
        Arc::new(acp.with_environment(self.environment(CliAgentKind::Acp)))
    }

    /// Creates the client of a model API. Its key comes only from the environment.
    fn model(&self, api: &Api) -> Result<AgentDriver, Error> {
        Ok(AgentDriver::Model(match api.vendor {
            Vendor::Anthropic => {
                let (endpoint, client) = endpoint_with_key(api)?;
                Arc::new(Anthropic::new(client, endpoint, inference(api)))
            }
            Vendor::Bedrock => {
                let (base, access) = bedrock_access(api)?;
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
                let (endpoint, client) = endpoint_with_key(api)?;
                let header = match api.vendor {
                    Vendor::Azure => KeyHeader::ApiKey,
                    _ => KeyHeader::Bearer,
                };
                Arc::new(OpenAi::new(client, endpoint, inference(api), header))
            }
        }))
    }

    /// The HTTP client of tools. Created once, because loading the system's certificates takes a
    /// while.
    fn web(&self) -> Result<Web, Error> {
        if let Some(web) = self.web.get() {
            return Ok(web.clone());
        }
        let web = Web::new(self.reach.clone(), Arc::clone(&self.clock));
        let web = web.map_err(|error| Error::ClientUnavailable {
            provider: "tools",
            reason: error.message,
        })?;
        Ok(self.web.get_or_init(|| web).clone())
    }

    fn scripted(&self, path: &Path) -> Result<AgentDriver, Error> {
        let opened = Scripted::open(path, &LocalDisk, Arc::clone(&self.clock));
        let scripted = opened.map_err(|error| Error::Unreadable {
            path: error.path,
            reason: error.reason,
        })?;
        Ok(AgentDriver::Stateless(Arc::new(scripted)))
    }
}

fn command(argv: &[String], folder: &Path) -> Command {
    Command::new(resolve_program(argv, folder), process_guard())
}

/// Resolves a relative program path against the folder of the spec.
fn resolve_program(argv: &[String], folder: &Path) -> Vec<String> {
    let mut argv = argv.to_vec();
    if let Some(program) = argv.first_mut()
        && program.contains('/')
    {
        let resolved: std::path::PathBuf = folder.join(&*program).components().collect();
        *program = resolved.display().to_string();
    }
    argv
}

pub(super) fn process_guard() -> Launch {
    Launch {
        program: "/proc/self/exe".into(),
        args: vec![PROCESS_GUARD.into()],
    }
}
