//! The environment of a run: every port to the outside, in one value.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::Driver;
use segno_core::cli_agent::{CliAgent, CliAgentKind};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::journal::{Event, RunPurpose, RunStarted};
use segno_core::lease::Processes;
use segno_core::model::Model;
use segno_core::ports::{Boxed, Clock, Disk, Random};
use segno_core::remote::Remote;
use segno_core::snapshot::{self, Snapshots};
use segno_core::store::Store;
use segno_core::tool::Tools;
use segno_core::transcript::{TranscriptSource, Transcripts};
use segno_core::usage::Price;
use segno_core::worktree::Worktrees;
use segno_secrets::redact::Redactor;
use segno_spec::{Executor, Provider, Server, Skill};

/// The adapters that the command line (or a test) provides.
#[derive(Clone)]
pub struct Env {
    /// Sessions, journals and blobs.
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Files for users: specs and artifacts.
    pub disk: Arc<dyn Disk>,
    /// The processes that own leases.
    pub processes: Arc<dyn Processes>,
    /// The adapters for agents.
    pub drivers: Arc<dyn Drivers>,
    /// The human who can be asked, if one is present.
    pub human: Option<Arc<dyn Human>>,
    /// Captures and restores workspace files; absent if nothing is stored.
    pub snapshots: Option<Arc<dyn Snapshots>>,
    /// The git repositories that sessions work in.
    pub worktrees: Arc<dyn Worktrees>,
    /// The remote for checkpoints, if one is set.
    pub remote: Option<RemoteConfig>,
    /// How many checkpoints to keep.
    pub retention: Retention,
    /// Where telemetry goes; without it, none is sent.
    pub exporter: Option<Arc<dyn Exporter>>,
    /// Removes secrets from everything that is written.
    pub redactor: Arc<Redactor>,
    /// How long a lease lasts without renewal.
    pub ttl: Duration,
    /// Whether a process that holds a session and is stopped (SIGSTOP) is ended, so that another one
    /// can resume the session. Without it, the session is refused.
    pub end_stopped_owners: bool,
    /// This program's version.
    pub version: &'static str,
}

impl Env {
    /// The snapshot store; an error if nothing is stored.
    pub fn snapshots(&self) -> Result<&dyn Snapshots, snapshot::Error> {
        self.snapshots
            .as_deref()
            .ok_or_else(snapshot::Error::no_store)
    }

    /// The event with which a run of this process starts.
    pub fn run_started(&self, purpose: RunPurpose) -> Event {
        let owner = self.processes.current();
        let version = self.version.to_owned();
        RunStarted {
            host: owner.host,
            pid: owner.pid,
            version,
            purpose,
        }
        .into()
    }
}

/// Asks the human who watches a run.
pub trait Human: Send + Sync {
    /// Shows a question and returns the answer; `None` if the human leaves. Dropping the future
    /// withdraws the question.
    fn ask<'a>(&'a self, prompt: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>>;
}

/// Exports telemetry to a collector.
pub trait Exporter: Send + Sync {
    /// Sends spans as OTLP/JSON to `endpoint`, or to the machine's default collector. Gives up
    /// after a short time.
    fn export<'a>(
        &'a self,
        endpoint: Option<&'a str>,
        spans: &'a serde_json::Value,
    ) -> Boxed<'a, Result<(), String>>;
}

/// The adapter that executes an agent's steps.
#[derive(Clone)]
pub enum AgentDriver {
    /// An agent that keeps no conversation: each call is independent.
    Stateless(Arc<dyn Driver>),
    /// A CLI agent: its program keeps the conversation and can resume it.
    CliAgent(Arc<dyn CliAgent>),
    /// An API model; Segno runs its tools.
    Model(Arc<dyn Model>),
}

/// Why an adapter cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("provider `{provider}` needs an API key, but `{variable}` is not set")]
    NoKey {
        provider: &'static str,
        /// The environment variable that should have the key.
        variable: &'static str,
    },
    /// The HTTP client for a provider cannot be built.
    #[error("provider `{provider}` cannot be used on this machine: {reason}")]
    ClientUnavailable {
        provider: &'static str,
        reason: String,
    },
    #[error("MCP server `{id}` cannot be used: {reason}")]
    McpServerFailed { id: String, reason: String },
    /// The network policy forbids the address of the service.
    #[error("service `{id}` cannot be used: {reason}")]
    ServiceBlocked { id: String, reason: String },
    /// A file or folder that the spec names cannot be read.
    #[error("{} cannot be read: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoKey { variable, .. } => Diagnosis::new(Kind::Invalid, "A0101").hint(format!(
                "set `{variable}`; Segno never reads keys from a spec, so that they are not stored"
            )),
            Self::ClientUnavailable { .. } => Diagnosis::new(Kind::Invalid, "A0102"),
            Self::McpServerFailed { .. } => Diagnosis::new(Kind::Invalid, "A0104").hint(
                "start the server by hand to see its output; nothing was started and nothing was charged",
            ),
            Self::ServiceBlocked { .. } => Diagnosis::new(Kind::Invalid, "A0106"),
            Self::Unreadable { .. } => Diagnosis::new(Kind::Unavailable, "F0201"),
        }
    }
}

/// Creates adapters for providers and tools.
pub trait Drivers: Send + Sync {
    /// Creates the adapter of a provider. Relative paths are resolved against `folder`, which holds
    /// the spec.
    fn driver(&self, provider: &Provider, folder: &Path) -> Result<AgentDriver, Error>;

    /// A CLI agent, to inspect or continue its existing conversations; `None` if it is not
    /// installed.
    fn cli_agent(&self, program: CliAgentKind) -> Option<Arc<dyn CliAgent>> {
        let _ = program;
        None
    }

    /// The transcripts of a program; `None` if their location is unknown.
    fn transcripts(&self, source: TranscriptSource) -> Option<Arc<dyn Transcripts>> {
        let _ = source;
        None
    }

    /// The tools of a toolset.
    fn tools(&self, order: ToolsetRequest<'_>) -> Result<Vec<Arc<dyn Tools>>, Error> {
        let _ = order;
        Ok(Vec::new())
    }

    /// The tools of an MCP server. The server is started or connected, and lives as long as the
    /// tools. A relative program path is resolved against `folder`, which holds the spec; the
    /// program starts in `workspace`.
    fn mcp_server<'a>(
        &'a self,
        server: &'a Server,
        folder: &'a Path,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<Arc<dyn Tools>, Error>> {
        let _ = (folder, workspace);
        let id = server.id.clone();
        Box::pin(std::future::ready(Err(Error::McpServerFailed {
            id,
            reason: "MCP servers are not available here".to_owned(),
        })))
    }

    /// The price of a model, if the user has configured it.
    fn price(&self, model: &str) -> Option<Price> {
        let _ = model;
        None
    }

    /// The size of a model's context window in tokens, if it is known.
    fn context_window(&self, model: &str) -> Option<u64> {
        let _ = model;
        None
    }

    /// A variable of this process's environment.
    fn variable(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// The tools that one toolset needs.
#[derive(Clone, Copy)]
pub struct ToolsetRequest<'a> {
    /// Native tools, by name.
    pub native: &'a [String],
    /// Executors, with their secrets filled in.
    pub executors: &'a [Executor],
    /// Skills; if there are any, the tool that loads them.
    pub skills: &'a [Skill],
    /// Folders outside the workspace that tools may access: names and paths.
    pub mounts: &'a [(String, String)],
    /// The file of the spec, which no tool may write.
    pub spec_path: &'a Path,
    /// The commands of programs that the spec names: agents and MCP servers.
    pub commands: &'a [&'a [String]],
    pub workspace: &'a Path,
}

impl<'a> ToolsetRequest<'a> {
    /// The folder of the spec, against which relative paths are resolved.
    pub fn spec_folder(&self) -> &'a Path {
        self.spec_path.parent().unwrap_or(Path::new("."))
    }
}

/// Where checkpoints are pushed to, and which ones.
#[derive(Clone)]
pub struct RemoteConfig {
    pub remote: Arc<dyn Remote>,
    /// Only checkpoints with more bytes than this are pushed automatically.
    pub auto_push_above: u64,
}

/// How many checkpoints are kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The limit per session.
    pub count: usize,
    pub age: Duration,
    /// How long a pruned checkpoint can be restored.
    pub restore_within: Duration,
    /// The disk space of all checkpoints above which the user is warned, in bytes.
    pub max_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        let week = Duration::from_hours(7 * 24);
        Self {
            count: 10,
            age: week,
            restore_within: week,
            max_bytes: 10_000_000_000,
        }
    }
}
