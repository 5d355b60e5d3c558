//! Loads the encryption key, if the settings name one.

use std::io::{self, BufRead, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::Disk;
use segno_secrets::Zeroizing;
use segno_secrets::cipher::Cipher;
use segno_secrets::key::{KeyFile, Passphrase};
use segno_store::LocalDisk;

use crate::output::{prompt, stderr_line};

/// The environment variable with the passphrase.
pub(crate) const PASSPHRASE: &str = "SEGNO_PASSPHRASE";

/// Why the configured key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key {} cannot be used: {reason}", .path.display())]
pub(crate) struct Error {
    path: PathBuf,
    reason: String,
    hint: Option<String>,
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis {
            hint: self.hint.clone(),
            ..Diagnosis::new(Kind::Unusable, "C0106")
        }
    }
}

/// Loads the key on first use: deriving it from a passphrase takes a moment, and not every command
/// needs it.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    path: Option<PathBuf>,
    found: OnceLock<Result<Option<Cipher>, Error>>,
}

impl Keyring {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            found: OnceLock::new(),
        }
    }

    /// The cipher; `None` if no key is configured.
    pub(crate) fn cipher(&self) -> Result<Option<Cipher>, Error> {
        let find = || self.path.as_deref().map(read).transpose();
        self.found.get_or_init(find).clone()
    }
}

fn read(path: &Path) -> Result<Cipher, Error> {
    let unusable = |reason: String| Error {
        path: path.to_owned(),
        reason,
        hint: None,
    };
    let bytes = LocalDisk.read(path, 4096);
    let bytes = Zeroizing::new(bytes.map_err(|error| unusable(error.to_string()))?);
    let others = path
        .metadata()
        .map(|file| file.permissions().mode() & 0o077);
    if others.is_ok_and(|others| others != 0) {
        return Err(unusable("others may read it; `chmod 600` it".into()));
    }
    let text = String::from_utf8_lossy(&bytes);
    match KeyFile::parse(&text).map_err(|error| unusable(error.to_string()))? {
        KeyFile::Open(cipher) => Ok(cipher),
        KeyFile::Locked(locked) => {
            let passphrase = passphrase("passphrase of the key: ").ok_or_else(|| Error {
                hint: Some(format!("set {PASSPHRASE}, or run it in a terminal")),
                ..unusable("it is locked, and there is no passphrase".into())
            })?;
            let unlocked = locked.unlock(&passphrase);
            unlocked.map_err(|error| unusable(error.to_string()))
        }
    }
}

/// Reads a passphrase from the environment, or from the terminal without echo.
pub(crate) fn passphrase(question: &str) -> Option<Passphrase> {
    if let Ok(passphrase) = std::env::var(PASSPHRASE) {
        return Passphrase::new(passphrase);
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let before = tcgetattr(&stdin).ok()?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden).ok()?;
    prompt(question);
    // Long enough that no shorter copy is left behind.
    let mut line = String::with_capacity(4096);
    let read = stdin.lock().read_line(&mut line);
    let _ = tcsetattr(&stdin, OptionalActions::Flush, &before);
    stderr_line("");
    read.ok()?;
    Passphrase::from_line(line)
}
