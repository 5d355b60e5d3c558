//! `segno service …`: runs `segno serve` as a systemd user service.

mod install;
mod manager;
mod status;
mod uninstall;
mod unit;

use std::path::PathBuf;
use std::process::ExitCode;

use segno_core::error::{Diagnose, Diagnosis, Kind};

use crate::context::Context;
use crate::failure::Failure;

/// Run `segno serve` in the background, from login to logout, as a systemd user service.
///
/// The service serves the sessions of this home over HTTP and delivers notices. It is started
/// again if it fails.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Install(install::Args),
    Status(status::Args),
    Uninstall(uninstall::Args),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Install(args) => args.json,
            Self::Status(args) => args.json,
            Self::Uninstall(args) => args.json,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Self::Install(args) => install::run(&args, context).await,
            Self::Status(args) => status::run(&args, context).await,
            Self::Uninstall(args) => uninstall::run(&args, context).await,
        }
    }
}

/// Why the service cannot be installed or removed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{} was not written by Segno, and is not replaced or removed", .0.display())]
    ForeignUnit(PathBuf),
    #[error("the systemd of this user cannot be used: {0}")]
    NoManager(String),
    #[error("`systemctl --user {command}` failed: {reason}")]
    ManagerFailed { command: String, reason: String },
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable {
        path: PathBuf,
        reason: std::io::Error,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::ForeignUnit(_) => Diagnosis::new(Kind::Conflict, "N0134")
                .hint("move the file away; `segno service install --print` prints Segno's unit"),
            Self::NoManager(_) => Diagnosis::new(Kind::Unavailable, "N0135").hint(
                "start `segno serve` with what starts programs on this machine; `segno service install --print` prints the unit",
            ),
            Self::ManagerFailed { .. } => Diagnosis::new(Kind::Unavailable, "N0135")
                .hint("`journalctl --user -u segno` shows what the service printed"),
            Self::Unusable { .. } => Diagnosis::new(Kind::Unavailable, "F0201"),
        }
    }
}
