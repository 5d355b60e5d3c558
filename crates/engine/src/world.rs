//! Everything a run needs from outside, in one value.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::Driver;
use segno_core::companion::{Companion, Program};
use segno_core::journal::{Event, RunStarted};
use segno_core::lease::Processes;
use segno_core::model::Model;
use segno_core::ports::{Boxed, Clock, Disk, Random};
use segno_core::redact::Redactor;
use segno_core::snapshot::Snapshots;
use segno_core::store::Store;
use segno_core::tool::Tools;
use segno_core::transcript::Transcripts;
use segno_core::usage::Price;
use segno_core::worktree::Worktrees;

use crate::error::Error;
use crate::remote::Storage;
use crate::retention::Retention;
use crate::spec::{Executor, Provider, Server, Skill};

/// The parts that the command line (or a test) has joined.
#[derive(Clone)]
pub struct World {
    /// Where sessions are kept.
    pub store: Arc<dyn Store>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub random: Arc<dyn Random>,
    /// Files for people: specs and artifacts.
    pub disk: Arc<dyn Disk>,
    /// Who owns leases.
    pub processes: Arc<dyn Processes>,
    /// How agents are spoken to.
    pub drivers: Arc<dyn Drivers>,
    /// Who can be asked, if anyone is there.
    pub people: Arc<dyn People>,
    /// The files of workspaces.
    pub snapshots: Arc<dyn Snapshots>,
    /// The git repositories that are worked in.
    pub worktrees: Arc<dyn Worktrees>,
    /// Where checkpoints are sent, if anywhere.
    pub storage: Option<Storage>,
    /// How many checkpoints stay.
    pub retention: Retention,
    /// Who is told what runs do.
    pub exporter: Arc<dyn Exporter>,
    /// What is never written down.
    pub redactor: Arc<Redactor>,
    /// How long a lease lasts without a sign of life.
    pub ttl: Duration,
    /// This program's version.
    pub version: &'static str,
}

impl World {
    /// The entry with which a run of this process begins.
    pub(crate) fn run_started(&self) -> Event {
        let owner = self.processes.current();
        let version = self.version.to_owned();
        RunStarted {
            host: owner.host,
            pid: owner.pid,
            version,
        }
        .into()
    }
}

/// Asks the person who watches a run.
pub trait People: Send + Sync {
    /// Whether anyone is there to be asked.
    fn anyone(&self) -> bool;

    /// Shows a question, and returns what is answered; `None` if the person leaves. Dropping the
    /// future takes the question back.
    fn ask<'a>(&'a self, prompt: &'a str, context: Option<&'a str>) -> Boxed<'a, Option<String>>;
}

/// Nobody watches.
pub struct Nobody;

impl People for Nobody {
    fn anyone(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> Boxed<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}

/// Tells a collector of telemetry what runs do.
pub trait Exporter: Send + Sync {
    /// Sends spans, as OTLP writes them in JSON, to `endpoint` or where this machine sends them. It
    /// does not try for long.
    fn export<'a>(
        &'a self,
        endpoint: Option<&'a str>,
        spans: &'a serde_json::Value,
    ) -> Boxed<'a, Result<(), String>>;
}

/// Nobody is told.
pub struct Untold;

impl Exporter for Untold {
    fn export<'a>(
        &'a self,
        _: Option<&'a str>,
        _: &'a serde_json::Value,
    ) -> Boxed<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Who answers for an agent.
#[derive(Clone)]
pub enum Speaker {
    /// An agent that does its work by itself.
    Agent(Arc<dyn Driver>),
    /// An agent whose program keeps its conversation, and can go on with it.
    Companion(Arc<dyn Companion>),
    /// A model, whose tools are run here.
    Model(Arc<dyn Model>),
}

/// Finds who answers for a provider, and what models may ask for.
pub trait Drivers: Send + Sync {
    /// The one who answers, ready to be asked. `folder` is where the spec stands: relative files are
    /// found from there.
    fn driver(&self, provider: &Provider, folder: &Path) -> Result<Speaker, Error>;

    /// A program that keeps conversations, to look after those that it has; `None` if there is none
    /// here.
    fn companion(&self, program: Program) -> Option<Arc<dyn Companion>> {
        let _ = program;
        None
    }

    /// The transcripts of a program; `None` if nobody knows where they are.
    fn transcripts(&self, program: Program) -> Option<Arc<dyn Transcripts>> {
        let _ = program;
        None
    }

    /// What an order asks for.
    fn tools(&self, order: Order<'_>) -> Result<Vec<Arc<dyn Tools>>, Error> {
        let _ = order;
        Ok(Vec::new())
    }

    /// The tools of an MCP server, which is started or called for it and lives as long as they do. A
    /// program with a relative path is found from `folder`, where the spec stands, and begins in
    /// `workspace`.
    fn server<'a>(
        &'a self,
        server: &'a Server,
        folder: &'a Path,
        workspace: &'a Path,
    ) -> Boxed<'a, Result<Arc<dyn Tools>, Error>> {
        let _ = (folder, workspace);
        let id = server.id.clone();
        Box::pin(std::future::ready(Err(Error::NoServer {
            id,
            reason: "there are none here".to_owned(),
        })))
    }

    /// What a model costs, if the person has said so.
    fn price(&self, model: &str) -> Option<Price> {
        let _ = model;
        None
    }

    /// A variable of this process's environment.
    fn variable(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// Tools that are needed together.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// Those that Segno brings along, by name.
    pub native: &'a [String],
    /// Services, with their secrets filled in.
    pub executors: &'a [Executor],
    /// What can be learned: if there is any, the tool that loads it.
    pub skills: &'a [Skill],
    /// Folders that may be reached besides the workspace: their names, and where they are.
    pub mounts: &'a [(String, String)],
    /// Where the spec stands: relative files are found from there.
    pub folder: &'a Path,
    /// The folder that the session works in.
    pub workspace: &'a Path,
}
