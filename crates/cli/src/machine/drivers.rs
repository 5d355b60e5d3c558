//! Which driver speaks to which provider.

use std::path::Path;
use std::sync::Arc;

use segno_agents::{Command, Launch, Ledger, Script, Scripted};
use segno_core::agent::Driver;
use segno_core::ports::{Clock, Disk};
use segno_engine::spec::Provider;
use segno_engine::{Drivers, Error};
use segno_store::LocalDisk;

/// The hidden word that turns this program into the warden of an agent's processes.
pub(crate) const WARDEN: &str = "__warden";

/// The longest file of answers that is read.
const LONGEST_SCRIPT: u64 = 64 * 1024 * 1024;

pub(crate) struct MachineDrivers {
    pub(crate) clock: Arc<dyn Clock>,
}

impl Drivers for MachineDrivers {
    fn driver(&self, provider: &Provider, folder: &Path) -> Result<Arc<dyn Driver>, Error> {
        match provider {
            Provider::Scripted { script } => self.scripted(&folder.join(script)),
            Provider::Command { argv } => Ok(Arc::new(command(argv, folder))),
        }
    }
}

impl MachineDrivers {
    fn scripted(&self, path: &Path) -> Result<Arc<dyn Driver>, Error> {
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
        Ok(Arc::new(Scripted::new(
            script,
            Arc::clone(&self.clock),
            ledger,
        )))
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
