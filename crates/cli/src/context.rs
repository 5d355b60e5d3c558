//! Wiring: builds the environment (`Env`) that every command works with, from the settings, the
//! store, the clock, the drivers and the other adapters.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_agents::program::Permissions;
use segno_agents::{SegnoMcpServer, WritePolicy};
use segno_client::{Remote, RemoteControl};
use segno_core::lease::Processes;
use segno_core::ports::{Clock, Disk};
use segno_core::snapshot::{self, Snapshots};
use segno_core::store::Store;
use segno_engine::Env;
use segno_engine::env::RemoteConfig;
use segno_integrations::mcp;
use segno_secrets::redact::Redactor;
use segno_sessions::control::{Control, Local};
use segno_sessions::start::read_spec;
use segno_snapshot::{FileWork, LocalSnapshots, LocalWorktrees};
use segno_spec::Workflow;
use segno_store::{
    CheckpointFiles, EncryptedRemote, Home, LocalDisk, Memory, ObjectRemote, Sqlite,
};
use segno_supervisor::notices::{Notices, Settings};

use crate::clock::MachineClock;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::machine::{
    Keyring, MachineDrivers, MachineExporter, MachineProcesses, MachinePrograms, MachineRandom,
    PASSPHRASE,
};
use crate::output::stderr_line;
use crate::server_command::ServerCommand;

/// Where the sessions of this process are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// In Segno's home folder, durably.
    Home,
    /// In memory only; they are lost when the process ends.
    Memory,
}

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The server whose sessions the command works with; those of this home if there is none.
    pub(crate) remote: Option<Arc<Remote>>,
}

impl Context {
    /// Reads a spec without running it. Stores nothing, so it needs no home folder.
    pub(crate) fn read(&self, spec: &Path) -> Result<Workflow, Failure> {
        let (env, _) = self.env(Persistence::Memory)?;
        let (_, workflow) = read_spec(&env, &workspace()?.join(spec))?;
        Ok(workflow)
    }

    pub(crate) fn new() -> Self {
        Self {
            redactor: Arc::new(Redactor::new(own_environment())),
            clock: Arc::new(MachineClock::new()),
            remote: None,
        }
    }

    /// The same, with the sessions of a server.
    pub(crate) fn with_server(self, remote: Option<Arc<Remote>>) -> Self {
        Self { remote, ..self }
    }

    /// What changes the sessions of `env`, for a user whom the journal names as `by`.
    pub(crate) fn control(&self, env: &Env, by: String) -> Arc<dyn Control> {
        match &self.remote {
            Some(remote) => {
                let connection = Arc::clone(&remote.connection);
                Arc::new(RemoteControl::new(connection, env.clone()))
            }
            None => Arc::new(Local::new(env.clone(), by)),
        }
    }

    /// Opens the remote at a URL, with the credentials and options from the environment of this
    /// process.
    fn remote(&self, url: &str, keyring: Arc<Keyring>) -> Result<EncryptedRemote, Failure> {
        let variables = own_environment();
        let clock = Arc::clone(&self.clock);
        let opened = ObjectRemote::new(url, variables, clock, Arc::new(MachineRandom));
        let remote = Arc::new(opened?);
        let key = move || keyring.cipher().map_err(|error| error.to_string());
        Ok(EncryptedRemote::new(
            remote,
            Box::new(key),
            Arc::new(MachineRandom),
        ))
    }

    /// The checkpoints of the home as files, to repair them.
    pub(crate) fn checkpoint_files() -> Result<CheckpointFiles, Failure> {
        let (root, _) = config::locations()?;
        let home = Home::open(root, Arc::new(LocalDisk))?;
        Ok(CheckpointFiles::new(&home))
    }

    /// Builds the environment for a command that works with sessions. Also returns the settings.
    pub(crate) fn env(&self, persistence: Persistence) -> Result<(Env, Config), Failure> {
        self.build(persistence, FileWork::Background, None)
    }

    /// Like [`Context::env`], with permissions for CLI agents that override the settings.
    pub(crate) fn env_with_permissions(
        &self,
        persistence: Persistence,
        permissions: Option<Permissions>,
    ) -> Result<(Env, Config), Failure> {
        self.build(persistence, FileWork::Background, permissions)
    }

    /// Builds the environment for a command that does one thing at a time. File work runs on the
    /// calling thread, because nothing else has to make progress meanwhile.
    pub(crate) fn env_inline(&self) -> Result<Env, Failure> {
        self.build(Persistence::Home, FileWork::Inline, None)
            .map(|(env, _)| env)
    }

    fn build(
        &self,
        persistence: Persistence,
        file_work: FileWork,
        permissions: Option<Permissions>,
    ) -> Result<(Env, Config), Failure> {
        let mut config = Config::default();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let mut keyring = Arc::<Keyring>::default();
        let mut snapshots: Option<Arc<dyn Snapshots>> = None;
        let mut processes: Arc<dyn Processes> = Arc::new(MachineProcesses::default());
        let store: Arc<dyn Store> = match (persistence, &self.remote) {
            (Persistence::Home, Some(server)) => {
                let (_, file) = config::locations()?;
                // The remote for checkpoints and the notices are those of the server.
                config = Config {
                    remote: None,
                    notice_targets: Vec::new(),
                    ..config::read(&file)?
                };
                processes = Arc::clone(&server.owners) as _;
                Arc::clone(&server.store) as _
            }
            (Persistence::Memory, _) => Arc::new(Memory::new(Arc::clone(&self.clock))),
            (Persistence::Home, None) => {
                let (root, file) = config::locations()?;
                config = config::read(&file)?;
                for notice in &config.notices {
                    stderr_line(&format!("note: {notice}"));
                }
                let home = Home::open(root, Arc::clone(&disk))?;
                if let Some(kind) = home.network_file_system() {
                    stderr_line(&format!(
                        "note: {} is on {kind}, where SQLite's locks do not hold; point SEGNO_HOME at a local disk",
                        home.root().display()
                    ));
                }
                if home.has_shared_database() {
                    stderr_line(&format!(
                        "note: moving the sessions of {} to the format of this version; the old database stays in {}",
                        home.root().display(),
                        home.backups().display()
                    ));
                }
                keyring = Arc::new(Keyring::new(config.key_file.clone()));
                let key = Arc::clone(&keyring);
                let find_key = move || key.cipher().map_err(|error| snapshot::Error::of(&error));
                snapshots = Some(Arc::new(LocalSnapshots {
                    root: home.snapshots(),
                    home: home.root().to_owned(),
                    quarantine: CheckpointFiles::quarantine(&home),
                    user_home: std::env::var_os("HOME").map(PathBuf::from),
                    rules: config.rules.clone(),
                    find_key: Arc::new(find_key),
                    clock: Arc::clone(&self.clock),
                    file_work,
                }));
                Arc::new(Sqlite::open(home, Arc::clone(&self.clock))?)
            }
        };
        let remote = match &config.remote {
            Some(url) => Some(RemoteConfig {
                remote: Arc::new(self.remote(url, keyring)?),
                auto_push_above: config.remote_above,
            }),
            None => None,
        };
        let env = Env {
            store,
            clock: Arc::clone(&self.clock),
            random: Arc::new(MachineRandom),
            disk,
            processes,
            drivers: Arc::new(MachineDrivers {
                pass_env: config.pass_env.clone(),
                clock: Arc::clone(&self.clock),
                reach: config.reach.clone(),
                writes: without_own_files(&config.writes),
                confine_programs: config.confine_programs,
                prices: config.prices.clone(),
                context_windows: config.context_windows.clone(),
                programs: config.programs.clone(),
                permissions,
                service: match persistence {
                    Persistence::Home => mcp_service(),
                    Persistence::Memory => None,
                },
                web: std::sync::OnceLock::new(),
            }),
            human: None,
            exporter: Some(Arc::<MachineExporter>::default()),
            snapshots,
            worktrees: Arc::new(LocalWorktrees),
            remote,
            retention: config.retention,
            redactor: Arc::clone(&self.redactor),
            ttl: config.lease_ttl,
            end_stopped_owners: config.end_stopped_owners,
            version: env!("CARGO_PKG_VERSION"),
        };
        Ok((env, config))
    }
}

/// Where notices about the sessions of `env` go.
pub(crate) fn notices(env: &Env, config: &Config) -> Notices {
    // Without a home there are no settings, and so no targets.
    let home = config::locations().map_or(PathBuf::new(), |(home, _)| home);
    Notices::new(
        env,
        Settings {
            folder: home.join("notices"),
            targets: config.notice_targets.clone(),
            programs: Arc::new(MachinePrograms {
                clock: Arc::clone(&env.clock),
                pass_env: config.pass_env.clone(),
            }),
            variable: |name| std::env::var(name).ok(),
        },
    )
}

/// What tools may not write: also the home and the settings.
fn without_own_files(writes: &WritePolicy) -> WritePolicy {
    let writes = writes.clone();
    match config::locations() {
        Ok((home, settings)) => writes
            .protect(&home, "Segno keeps its sessions there")
            .protect(&settings, "Segno reads its settings there"),
        // Without a home there is nothing to protect.
        Err(_) => writes,
    }
}

/// The environment variables of this process. Variables that are not UTF-8 are skipped: they cannot
/// appear in UTF-8 text, so nothing has to redact them.
pub(crate) fn own_environment() -> impl Iterator<Item = (String, String)> {
    let pairs = std::env::vars_os();
    pairs.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Describes Segno's MCP server for CLI agents. Returns `None` if the path of this executable is
/// unknown: agents work without the server, too.
fn mcp_service() -> Option<SegnoMcpServer> {
    let ServerCommand { program, args, env } = ServerCommand::from_this_process([]).ok()?;
    let is_set = |name: &&str| std::env::var_os(name).is_some();
    let inherit = [PASSPHRASE].into_iter().filter(is_set);
    Some(SegnoMcpServer {
        name: mcp::NAME,
        program,
        args,
        env,
        inherited_variables: inherit.map(str::to_owned).collect(),
    })
}

/// Returns the current folder.
pub(crate) fn workspace() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        Failure::usage(format!("the current folder cannot be used: {error}"), None)
    })
}
