//! The unit file: its path, its content, and whether Segno wrote it.

use std::env;
use std::io;
use std::path::PathBuf;

use segno_core::ports::{Access, Disk, folder_of, replace_file};
use segno_store::LocalDisk;

use super::Error;
use crate::failure::Failure;
use crate::server_command::ServerCommand;

/// The first line of a unit that Segno wrote.
const MARKER: &str = "# Written by `segno service install`; `segno service uninstall` removes it.";

/// The name of the unit.
pub(super) const NAME: &str = "segno.service";

/// A unit file is much smaller.
const MAX_BYTES: u64 = 64 << 10;

/// Who wrote the unit file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Installed {
    Missing,
    /// Segno; with the content.
    Ours(String),
    Foreign,
}

impl Installed {
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Ours(_) => "installed",
            Self::Foreign => "foreign",
        }
    }
}

/// The folder of the user's settings.
fn config_folder() -> Result<PathBuf, Failure> {
    let folder = |name: &str| {
        let value = env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    config.ok_or_else(|| Failure::usage("HOME is not set", Some("set HOME".to_owned())))
}

/// The path of the unit file.
pub(super) fn path() -> Result<PathBuf, Failure> {
    Ok(config_folder()?.join("systemd/user").join(NAME))
}

pub(super) fn installed() -> Result<Installed, Failure> {
    let path = path()?;
    match LocalDisk.read(&path, MAX_BYTES) {
        Ok(bytes) => Ok(match String::from_utf8(bytes) {
            Ok(text) if text.lines().next() == Some(MARKER) => Installed::Ours(text),
            _ => Installed::Foreign,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Installed::Missing),
        Err(reason) => Err(Error::Unusable { path, reason }.into()),
    }
}

/// Replaces the unit file, which must be missing or Segno's.
pub(super) fn write(text: &str) -> Result<(), Failure> {
    let path = path()?;
    let folder = folder_of(&path);
    let draft = folder.join(format!(".{NAME}.{}.draft", std::process::id()));
    let written = LocalDisk
        .create_folder(folder, Access::Shared)
        .and_then(|()| {
            let bytes = text.as_bytes();
            replace_file(&LocalDisk, &draft, &path, bytes, Access::Shared, |_| {})
        });
    written.map_err(|reason| Error::Unusable { path, reason }.into())
}

pub(super) fn remove() -> Result<(), Failure> {
    let path = path()?;
    let removed = LocalDisk.remove(&path);
    removed.map_err(|reason| Error::Unusable { path, reason }.into())
}

/// The unit for this executable and this environment. It has locations and PATH, and no secrets.
pub(super) fn text() -> Result<String, Failure> {
    let ServerCommand {
        program, mut env, ..
    } = ServerCommand::from_this_process([])?;
    if program.starts_with("/proc/") {
        let hint = "call the new executable".to_owned();
        let message = "this executable was replaced, so its path is not known";
        return Err(Failure::usage(message, Some(hint)));
    }
    let search = env::var("PATH").ok().filter(|path| !path.is_empty());
    env.extend(search.map(|path| ("PATH".to_owned(), path)));
    let secrets = config_folder()?.join("segno/service.env");
    let mut values = vec![program.as_str()];
    values.extend(env.iter().map(|(_, value)| value.as_str()));
    if values.iter().any(|value| value.contains(char::is_control)) {
        let message = "the path of this program or a variable has control characters";
        return Err(Failure::usage(message, None));
    }
    let variables = env.iter().map(|(name, value)| {
        let assignment = format!("{name}={value}");
        format!("Environment={}\n", quoted(&assignment))
    });
    let variables: String = variables.collect();
    // A `$` starts a variable only in a command.
    let program = quoted(&program).replace('$', "$$");
    // Nothing restricts files, network or privileges: agents are started below the service, and
    // build and test projects. When an agent is killed for its memory, the service continues.
    Ok(format!(
        "{MARKER}\n[Unit]\nDescription=Segno: sessions of AI agents\n\n[Service]\nType=exec\nExecStart={program} serve\n{variables}# API keys and secrets of notices, as NAME=VALUE lines; keep it private (chmod 600).\nEnvironmentFile=-{}\nKillMode=mixed\nTimeoutStopSec=60\nRestart=on-failure\nRestartSec=5\nOOMPolicy=continue\nLimitCORE=0\n\n[Install]\nWantedBy=default.target\n",
        secrets.display().to_string().replace('%', "%%"),
    ))
}

/// A word of a unit file: quoted, without specifiers.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_unit_are_quoted() {
        assert_eq!(quoted("/a b/50%\"\\"), "\"/a b/50%%\\\"\\\\\"");
    }
}
