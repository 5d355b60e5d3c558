//! `segno sessions …`: the subcommands, and what they share.

mod bundle;
pub(crate) mod cleanup;
mod delete;
mod export;
mod import;
mod import_folder;
mod list;
mod relocate;
mod restore;
mod trash;

use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

use super::{pause, show};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::stderr_line;
use crate::remote::Reach;

/// List, delete, restore, clean up, export, import and move sessions.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Args),
    Show(show::Args),
    Delete(delete::Args),
    Trash(trash::Args),
    Restore(restore::Args),
    Cleanup(cleanup::Args),
    Export(export::Args),
    Import(import::Args),
    Move(relocate::Args),
    Pause(pause::Args),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::Delete(args) => args.json,
            Command::Trash(args) => args.json,
            Command::Restore(args) => args.json,
            Command::Cleanup(args) => args.json,
            Command::Export(args) => args.json,
            Command::Import(args) => args.json,
            Command::Move(args) => args.json,
            Command::Pause(args) => args.json,
        }
    }

    /// Where the command can work, and its name.
    pub(crate) fn reach(&self) -> (Reach, &'static str) {
        match self {
            Command::List(_) => (Reach::Anywhere, "sessions list"),
            Command::Show(_) => (Reach::Anywhere, "sessions show"),
            Command::Pause(_) => (Reach::Anywhere, "sessions pause"),
            Command::Trash(_) => (Reach::Home, "sessions trash"),
            Command::Delete(_) => (Reach::Home, "sessions delete"),
            Command::Restore(_) => (Reach::Home, "sessions restore"),
            Command::Cleanup(_) => (Reach::Home, "sessions cleanup"),
            Command::Export(_) => (Reach::Home, "sessions export"),
            Command::Import(_) => (Reach::Home, "sessions import"),
            Command::Move(_) => (Reach::Home, "sessions move"),
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Command::List(args) => list::run(&args, context).await,
            Command::Show(args) => show::run(&args, context).await,
            Command::Delete(args) => delete::run(&args, context).await,
            Command::Trash(args) => trash::run(&args, context).await,
            Command::Restore(args) => restore::run(args, context).await,
            Command::Cleanup(args) => cleanup::run(&args, context).await,
            Command::Export(args) => export::run(&args, context).await,
            Command::Import(args) => Box::pin(import::run(args, context)).await,
            Command::Move(args) => relocate::run(&args, context).await,
            Command::Pause(args) => pause::run(args, context).await,
        }
    }
}

/// Asks the user before `what` is deleted. Without a terminal, `--yes` is required.
fn confirm(what: &str, yes: bool) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !stdin().is_terminal() {
        let message = format!(
            "{what} would be deleted permanently, and stdin is not a terminal to confirm it"
        );
        let hint = "add `--yes`, or `--dry-run` for a preview";
        return Err(Failure::usage(message, Some(hint.into())));
    }
    stderr_line(&format!("Delete {what}? This cannot be undone. [y/N]"));
    let mut answer = String::new();
    let _ = stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
