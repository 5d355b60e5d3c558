//! `segno service uninstall`: stops the service and removes its unit.

use std::process::ExitCode;

use serde_json::json;

use super::unit::{self, Installed};
use super::{Error, manager};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Stop the service and remove its unit. Sessions stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let path = unit::path()?;
    let is_installed = match unit::installed()? {
        Installed::Foreign => return Err(Error::ForeignUnit(path).into()),
        Installed::Missing => false,
        Installed::Ours(_) => true,
    };
    if is_installed {
        let has_manager = manager::check(context).await.is_ok();
        if has_manager {
            manager::call(context, &["disable", "--now", unit::NAME]).await?;
        }
        unit::remove()?;
        if has_manager {
            manager::call(context, &["daemon-reload"]).await?;
        }
    }
    let path = path.display().to_string();
    if args.json {
        json_line(
            &json!({"v": 1, "kind": "service_uninstalled", "unit": path, "changed": is_installed}),
        );
    } else if is_installed {
        stdout_line(&format!("removed {}", text::sanitize(&path)));
    } else {
        stdout_line("the service is not installed");
    }
    Ok(ExitCode::SUCCESS)
}
