//! `segno service install`: writes the unit and starts the service.

use std::process::ExitCode;

use serde_json::json;

use super::unit::{self, Installed};
use super::{Error, manager};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Install the service for this executable and this home, and start it.
///
/// Repeat it after moving the executable or changing PATH. API keys and other secrets of the
/// service belong into the file that the unit names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the unit, and change nothing
    #[arg(long)]
    print: bool,
    /// Print the result as JSON
    #[arg(long, conflicts_with = "print")]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let new = unit::text()?;
    if args.print {
        stdout_line(new.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let path = unit::path()?;
    let before = unit::installed()?;
    if before == Installed::Foreign {
        return Err(Error::ForeignUnit(path).into());
    }
    if let Err(error) = manager::check(context).await {
        if !args.json {
            stdout_line(new.trim_end());
        }
        return Err(error.into());
    }
    let is_changed = before != Installed::Ours(new.clone());
    if is_changed {
        unit::write(&new)?;
    }
    manager::call(context, &["daemon-reload"]).await?;
    manager::call(context, &["enable", "--now", unit::NAME]).await?;
    if is_changed && before != Installed::Missing {
        // A running service continues with the old unit until it is restarted.
        manager::call(context, &["restart", unit::NAME]).await?;
    }
    let path = path.display().to_string();
    if args.json {
        json_line(
            &json!({"v": 1, "kind": "service_installed", "unit": path, "changed": is_changed}),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if is_changed { "wrote" } else { "unchanged:" };
    stdout_line(&format!("{verb} {}", text::sanitize(&path)));
    stdout_line("the service is started, and starts with your login");
    stderr_line("`loginctl enable-linger` keeps it running without a login");
    Ok(ExitCode::SUCCESS)
}
