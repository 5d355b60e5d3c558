//! `segno config …`: the subcommands.

mod key;
mod path;
mod show;

use std::process::ExitCode;

use crate::context::Context;
use crate::failure::Failure;

/// Show the settings and their source, or create encryption keys.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Show(show::Args),
    Path(path::Args),
    #[command(subcommand)]
    Key(key::Command),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Show(args) => args.json,
            Self::Path(args) => args.json,
            Self::Key(command) => command.is_json(),
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Self::Show(args) => show::run(args, context),
            Self::Path(args) => path::run(args),
            Self::Key(command) => command.run(),
        }
    }
}
