//! The parts, joined: what every command works with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_agents::Service;
use segno_agents::program::Permissions;
use segno_core::ports::{Clock, Disk};
use segno_core::redact::Redactor;
use segno_core::snapshot::{Nowhere, Snapshots};
use segno_core::store::Store;
use segno_engine::remote::Storage;
use segno_engine::spec::Workflow;
use segno_engine::start::read_spec;
use segno_engine::{Nobody, World};
use segno_store::{Home, LocalDisk, Memory, Sealed, Sqlite, Warehouse};

use crate::config::{self, Config};
use crate::failure::Failure;
use crate::machine::{
    Keyring, MachineClock, MachineDrivers, MachineExporter, MachineProcesses, MachineRandom,
    MachineSnapshots, MachineWorktrees, PASSPHRASE, Place,
};
use crate::mcp;
use crate::mcp::snippets::Started;
use crate::output::say;

/// Where a run's session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// In the person's home.
    Home,
    /// Nowhere.
    Memory,
}

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Context {
    /// Reads a spec, to look at it. Nothing is kept, so no home is needed.
    pub(crate) fn read(&self, spec: &Path) -> Result<Workflow, Failure> {
        let (world, _) = self.world(Keep::Memory)?;
        let (_, workflow) = read_spec(&world, &workspace()?.join(spec))?;
        Ok(workflow)
    }

    pub(crate) fn new() -> Self {
        Self {
            redactor: Arc::new(Redactor::new(own_environment())),
            clock: Arc::new(MachineClock::new()),
        }
    }

    /// The depot at a URL, with what the person's environment says about how to get there.
    fn depot(&self, url: &str, keyring: Arc<Keyring>) -> Result<Sealed, Failure> {
        let variables = own_environment();
        let clock = Arc::clone(&self.clock);
        let opened = Warehouse::new(url, variables, clock, Arc::new(MachineRandom));
        let depot = Arc::new(opened.map_err(segno_engine::Error::Depot)?);
        let key = move || keyring.cipher().map_err(|error| error.to_string());
        Ok(Sealed::new(depot, Box::new(key), Arc::new(MachineRandom)))
    }

    /// The world of a command that works with sessions, and the person's settings.
    pub(crate) fn world(&self, keep: Keep) -> Result<(World, Config), Failure> {
        self.join(keep, Place::Beside, None)
    }

    /// The same, where it was said what agents' programs may do.
    pub(crate) fn world_with(
        &self,
        keep: Keep,
        permissions: Option<Permissions>,
    ) -> Result<(World, Config), Failure> {
        self.join(keep, Place::Beside, permissions)
    }

    /// The world of a command that does one thing after the other, so that nothing has to go on
    /// while it works with files.
    pub(crate) fn still_world(&self) -> Result<World, Failure> {
        self.join(Keep::Home, Place::Here, None)
            .map(|(world, _)| world)
    }

    fn join(
        &self,
        keep: Keep,
        place: Place,
        permissions: Option<Permissions>,
    ) -> Result<(World, Config), Failure> {
        let mut config = Config::default();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let mut keyring = Arc::<Keyring>::default();
        let mut snapshots: Arc<dyn Snapshots> = Arc::new(Nowhere);
        let store: Arc<dyn Store> = match keep {
            Keep::Memory => Arc::new(Memory::new(Arc::clone(&self.clock))),
            Keep::Home => {
                let (root, file) = config::locations()?;
                config = config::read(&file)?;
                for notice in &config.notices {
                    say(&format!("note: {notice}"));
                }
                let home = Home::open(root, Arc::clone(&disk))?;
                if let Some(kind) = home.network_file_system() {
                    say(&format!(
                        "note: {} is on {kind}, where SQLite's locks do not hold; point SEGNO_HOME at a local disk",
                        home.root().display()
                    ));
                }
                keyring = Arc::new(Keyring::new(config.key_file.clone()));
                snapshots = Arc::new(MachineSnapshots {
                    root: home.snapshots(),
                    person: std::env::var_os("HOME").map(PathBuf::from),
                    rules: config.rules.clone(),
                    keyring: Arc::clone(&keyring),
                    clock: Arc::clone(&self.clock),
                    place,
                });
                Arc::new(Sqlite::open(home, Arc::clone(&self.clock))?)
            }
        };
        let storage = match &config.storage {
            Some(url) => Some(Storage {
                depot: Arc::new(self.depot(url, keyring)?),
                above: config.storage_above,
            }),
            None => None,
        };
        let world = World {
            store,
            clock: Arc::clone(&self.clock),
            random: Arc::new(MachineRandom),
            disk,
            processes: Arc::new(MachineProcesses::default()),
            drivers: Arc::new(MachineDrivers {
                clock: Arc::clone(&self.clock),
                reach: config.reach.clone(),
                prices: config.prices.clone(),
                programs: config.programs.clone(),
                permissions,
                service: match keep {
                    Keep::Home => service(),
                    Keep::Memory => None,
                },
                web: std::sync::OnceLock::new(),
            }),
            people: Arc::new(Nobody),
            exporter: Arc::<MachineExporter>::default(),
            snapshots,
            worktrees: Arc::new(MachineWorktrees),
            storage,
            retention: config.retention,
            redactor: Arc::clone(&self.redactor),
            ttl: config.lease_ttl,
            version: env!("CARGO_PKG_VERSION"),
        };
        Ok((world, config))
    }
}

/// The environment of this process. A variable that is not UTF-8 cannot turn up in text that is.
pub(crate) fn own_environment() -> impl Iterator<Item = (String, String)> {
    let pairs = std::env::vars_os();
    pairs.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The MCP server, as agents are told of it. One whose program cannot be named is done without: what
/// agents do for a session does not depend on it.
fn service() -> Option<Service> {
    let Started { program, args, env } = Started::here([]).ok()?;
    let is_set = |name: &&str| std::env::var_os(name).is_some();
    let inherit = [PASSPHRASE].into_iter().filter(is_set);
    Some(Service {
        name: mcp::NAME,
        program,
        args,
        env,
        inherit: inherit.map(str::to_owned).collect(),
    })
}

/// The folder that the person is in.
pub(crate) fn workspace() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        Failure::usage(format!("the current folder cannot be used: {error}"), None)
    })
}
