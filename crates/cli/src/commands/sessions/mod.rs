//! `segno sessions …`: the subcommands, and what they share.

mod bundle;
pub(crate) mod cleanup;
mod delete;
mod export;
pub(crate) mod fork;
mod import;
mod import_folder;
mod list;
mod relocate;
mod restore;
mod search;
mod show;
mod trash;

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::stderr_line;

/// List, show, search, delete, restore, clean up, export, import, move and fork sessions.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Args),
    Show(show::Args),
    Search(search::Args),
    Delete(delete::Args),
    Trash(trash::Args),
    Restore(restore::Args),
    Cleanup(cleanup::Args),
    Export(export::Args),
    Import(import::Args),
    Move(relocate::Args),
    Fork(fork::Args),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::Search(args) => args.json,
            Command::Delete(args) => args.json,
            Command::Trash(args) => args.json,
            Command::Restore(args) => args.json,
            Command::Cleanup(args) => args.json,
            Command::Export(args) => args.json,
            Command::Import(args) => args.json,
            Command::Move(args) => args.json,
            Command::Fork(args) => args.json,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Command::List(args) => list::run(&args, context).await,
            Command::Show(args) => show::run(&args, context).await,
            Command::Search(args) => search::run(args, context).await,
            Command::Delete(args) => delete::run(&args, context).await,
            Command::Trash(args) => trash::run(&args, context).await,
            Command::Restore(args) => restore::run(args, context).await,
            Command::Cleanup(args) => cleanup::run(&args, context).await,
            Command::Export(args) => export::run(&args, context).await,
            Command::Import(args) => import::run(args, context).await,
            Command::Move(args) => relocate::run(&args, context).await,
            Command::Fork(args) => Box::pin(fork::run(args, context)).await,
        }
    }
}

/// Asks the user before `what` is deleted. Without a terminal, `--yes` is required.
fn confirm(what: &str, yes: bool) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !stdin().is_terminal() {
        let message = format!("{what} would be deleted for good, and nobody is here to be asked");
        let hint = "add `--yes`, or `--dry-run` to only look";
        return Err(Failure::usage(message, Some(hint.into())));
    }
    stderr_line(&format!("Delete {what}? This cannot be undone. [y/N]"));
    let mut answer = String::new();
    let _ = stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
