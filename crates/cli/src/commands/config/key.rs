//! `segno config key`: creates encryption keys.

use std::path::PathBuf;
use std::process::ExitCode;

use segno_core::ports::{Access, Disk, Random};
use segno_secrets::Zeroizing;
use segno_secrets::cipher::Cipher;
use segno_secrets::key::KeyFile;
use segno_store::LocalDisk;
use serde_json::json;

use crate::context::workspace;
use crate::failure::Failure;
use crate::machine::{MachineRandom, PASSPHRASE, passphrase};
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Create encryption keys for checkpoints.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    New(Args),
}

/// Write a new key to a file.
///
/// The file must not exist yet. Set `encryption.key_file` in config.toml to its path: new
/// checkpoints are then encrypted, and `segno doctor --gc` encrypts the existing ones. Keep a copy of the
/// key elsewhere: without it, encrypted checkpoints cannot be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to create
    path: PathBuf,
    /// Protect the key with a passphrase, typed or from `SEGNO_PASSPHRASE`
    #[arg(long)]
    passphrase: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(super) fn is_json(&self) -> bool {
        match self {
            Command::New(args) => args.json,
        }
    }

    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Command::New(args) => new(args),
        }
    }
}

fn new(args: &Args) -> Result<ExitCode, Failure> {
    let path = workspace()?.join(&args.path);
    let mut key = Zeroizing::new([0; 32]);
    let (mut salt, mut randomness) = ([0; 16], [0; 32]);
    MachineRandom.fill(&mut key[..]);
    let text = if args.passphrase {
        MachineRandom.fill(&mut salt);
        MachineRandom.fill(&mut randomness);
        let passphrase = passphrase("passphrase for the key: ").ok_or_else(|| {
            let hint = format!("set {PASSPHRASE}, or run it in a terminal");
            Failure::usage("no passphrase was given", Some(hint))
        })?;
        KeyFile::locked_text(&key, &passphrase, salt, randomness)
    } else {
        KeyFile::text(&key)
    };
    let folder = path.parent().unwrap_or(&path);
    let written = LocalDisk
        .create(&path, text.as_str().as_bytes(), Access::Private)
        .and_then(|()| LocalDisk.sync_folder(folder));
    written.map_err(|error| {
        let message = format!("{} cannot be written: {error}", path.display());
        Failure::usage(message, None)
    })?;
    let id = Cipher::new(&key).id();
    let id: Vec<String> = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (id, path) = (id.concat(), path.display().to_string());
    if args.json {
        json_line(&json!({"v": 1, "kind": "key", "path": path, "id": id}));
        return Ok(ExitCode::SUCCESS);
    }
    stdout_line(&format!("wrote key {id} to {}", text::sanitize(&path)));
    stderr_line("add this to config.toml:");
    stderr_line("  [encryption]");
    stderr_line(&format!("  key_file = {path:?}"));
    stderr_line(
        "keep a copy of the key elsewhere: without it, encrypted checkpoints cannot be read",
    );
    Ok(ExitCode::SUCCESS)
}
