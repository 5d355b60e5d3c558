//! Which server a command works with, and the tokens for servers.
//!
//! `segno login` stores a token for a server in `servers.json` beside `config.toml`, which only the
//! user can read. A command works with a server if `--server`, `SEGNO_SERVER` or `server.url` in the
//! settings names one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_client::{Address, Connection, Remote};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::lease::Processes;
use segno_core::ports::{Access, Disk, replace_file};
use segno_store::LocalDisk;
use serde::{Deserialize, Serialize};

use crate::config;
use crate::failure::Failure;
use crate::machine::MachineProcesses;

/// Names the sessions of this machine, where the settings name a server.
const LOCAL: &str = "local";
/// The file is much smaller.
const MAX_BYTES: u64 = 1 << 20;
/// A token that is not stored, such as that of a job in CI.
const TOKEN: &str = "SEGNO_TOKEN";

/// Where a command can work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is about this machine, whatever server is chosen.
    Machine,
    /// It is about sessions, of this home or of a server.
    Anywhere,
    /// It is about sessions, and needs their files.
    Home,
}

/// Why a command cannot work with a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("`{text}` is not the address of a server: {reason}")]
    BadAddress { text: String, reason: String },
    #[error("`segno {command}` does not work with a server")]
    OnlyHere { command: String },
    #[error("there is no token for {address}")]
    NotLoggedIn { address: Address },
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable { path: PathBuf, reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::BadAddress { .. } => Diagnosis::new(Kind::Invalid, "N0145"),
            Self::OnlyHere { .. } => Diagnosis::new(Kind::Invalid, "N0144").hint(
                "run it on the machine of the server, or with `--server local` for the sessions of this one",
            ),
            Self::NotLoggedIn { address } => {
                Diagnosis::new(Kind::Forbidden, "N0146").hint(format!("`segno login {address}`"))
            }
            Self::Unusable { .. } => Diagnosis::new(Kind::Unusable, "N0147"),
        }
    }
}

/// The server that a command with this reach works with, if any. `given` is the value of `--server`.
pub(crate) fn choose(
    given: Option<&str>,
    reach: Reach,
    command: &str,
) -> Result<Option<Arc<Remote>>, Failure> {
    let text = match given {
        Some(text) => Some(text.to_owned()),
        None if reach == Reach::Machine => None,
        None => chosen_elsewhere()?,
    };
    let Some(text) = text.filter(|text| text != LOCAL) else {
        return Ok(None);
    };
    if reach != Reach::Anywhere {
        let command = command.to_owned();
        return Err(Error::OnlyHere { command }.into());
    }
    let address = address(&text)?;
    let stored = Credentials::read()?;
    let credential = stored.servers.get(&address.to_string());
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let Some(token) = token.or_else(|| Some(credential?.token.clone())) else {
        return Err(Error::NotLoggedIn { address }.into());
    };
    let fingerprint = credential.and_then(|known| known.fingerprint.as_deref());
    let connection = Connection::new(address, &token, fingerprint)?;
    let here = MachineProcesses::default().current();
    Ok(Some(Arc::new(Remote::new(connection, here))))
}

pub(crate) fn address(text: &str) -> Result<Address, Error> {
    text.parse().map_err(|reason| Error::BadAddress {
        text: text.to_owned(),
        reason,
    })
}

/// The server that the environment or the settings name.
fn chosen_elsewhere() -> Result<Option<String>, Failure> {
    if let Ok(server) = std::env::var("SEGNO_SERVER")
        && !server.is_empty()
    {
        return Ok(Some(server));
    }
    // Without a home there are no settings.
    let Ok((_, file)) = config::locations() else {
        return Ok(None);
    };
    Ok(config::read(&file)?.server)
}

/// The tokens for servers, by address.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Credentials {
    v: u32,
    pub(crate) servers: BTreeMap<String, Credential>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Credential {
    pub(crate) token: String,
    /// SHA-256 of the only certificate that is trusted for this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<String>,
}

impl Credentials {
    pub(crate) fn read() -> Result<Self, Failure> {
        let path = Self::path()?;
        let unusable = |reason: String| Error::Unusable {
            path: path.clone(),
            reason,
        };
        let bytes = match LocalDisk.read(&path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unusable(error.to_string()).into()),
        };
        let read: Self =
            serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        if read.v > 1 {
            return Err(unusable("a newer version of Segno wrote it".to_owned()).into());
        }
        Ok(read)
    }

    /// Replaces the file.
    pub(crate) fn write(mut self) -> Result<(), Failure> {
        self.v = 1;
        let path = Self::path()?;
        let written = self.store(&path);
        let failed = |error: io::Error| Error::Unusable {
            path,
            reason: error.to_string(),
        };
        Ok(written.map_err(failed)?)
    }

    fn store(&self, path: &Path) -> io::Result<()> {
        let folder = segno_core::ports::folder_of(path);
        LocalDisk.create_folder(folder, Access::Private)?;
        let text = serde_json::to_string_pretty(self)? + "\n";
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        replace_file(
            &LocalDisk,
            &draft,
            path,
            text.as_bytes(),
            Access::Private,
            |_| {},
        )
    }

    fn path() -> Result<PathBuf, Failure> {
        let (_, settings) = config::locations()?;
        Ok(settings.with_file_name("servers.json"))
    }
}
