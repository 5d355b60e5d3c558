//! `segno config path`: prints the path of the settings file.

use std::process::ExitCode;

use serde_json::json;

use crate::config;
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Print the path of config.toml.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the result as JSON, with the folder of the sessions
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (home, file) = config::locations()?;
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "config_path",
            "path": file.display().to_string(),
            "exists": file.exists(),
            "home": home.display().to_string(),
        }));
    } else {
        stdout_line(&text::sanitize(&file.display().to_string()));
    }
    Ok(ExitCode::SUCCESS)
}
