//! `segno service status`: shows whether the service is installed and runs.

use std::process::ExitCode;

use serde_json::json;

use super::manager;
use super::unit::{self, Installed};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Show whether the service is installed and active.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let path = unit::path()?.display().to_string();
    let installed = unit::installed()?;
    let enabled = manager::query(context, "is-enabled").await;
    let active = manager::query(context, "is-active").await;
    let is_current = match &installed {
        Installed::Ours(content) => Some(*content == unit::text()?),
        _ => None,
    };
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "service",
            "unit": path,
            "state": installed.as_str(),
            "current": is_current,
            "enabled": enabled,
            "active": active,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let state = match (&installed, is_current) {
        (Installed::Missing, _) => "not installed",
        (Installed::Foreign, _) => "not written by Segno",
        (_, Some(false)) => {
            "installed for another executable or environment; `segno service install` updates it"
        }
        _ => "installed",
    };
    let shown = |word: Option<String>| word.unwrap_or_else(|| "unknown: no systemd".to_owned());
    stdout_line(&format!("unit     {}", text::sanitize(&path)));
    stdout_line(&format!("state    {state}"));
    stdout_line(&format!("enabled  {}", text::sanitize(&shown(enabled))));
    stdout_line(&format!("active   {}", text::sanitize(&shown(active))));
    Ok(ExitCode::SUCCESS)
}
