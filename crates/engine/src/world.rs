//! Everything a run needs from outside, in one value.

use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::Driver;
use segno_core::journal::{Event, RunStarted};
use segno_core::lease::Processes;
use segno_core::model::Model;
use segno_core::ports::{Boxed, Clock, Disk, Random};
use segno_core::redact::Redactor;
use segno_core::store::Store;
use segno_core::tool::Tools;

use crate::error::Error;
use crate::spec::{Provider, Skill};

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

/// Who answers for an agent.
#[derive(Clone)]
pub enum Speaker {
    /// An agent that does its work by itself.
    Agent(Arc<dyn Driver>),
    /// A model, whose tools are run here.
    Model(Arc<dyn Model>),
}

/// Finds who answers for a provider.
pub trait Drivers: Send + Sync {
    /// The one who answers, ready to be asked. `folder` is where the spec stands: relative files are
    /// found from there.
    fn driver(&self, provider: &Provider, folder: &std::path::Path) -> Result<Speaker, Error>;

    /// The tools with these names, which a spec that was read knows, and the one that loads these
    /// skills if there are any.
    fn tools(&self, names: &[String], skills: &[Skill], folder: &std::path::Path)
    -> Arc<dyn Tools>;
}
