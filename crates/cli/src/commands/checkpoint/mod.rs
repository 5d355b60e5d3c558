//! `segno checkpoint …`: the subcommands, and what they share.

mod create;
mod delete;
mod diff;
mod export;
mod import;
mod list;
mod list_remote;
mod prune;
mod pull;
mod push;
mod restore;
mod show;
mod verify;

use std::process::ExitCode;
use std::sync::Mutex;

use segno_core::store::Summary;
use segno_engine::Env;
use segno_sessions as sessions;
use segno_sessions::json::checkpoint as shape;

use crate::context::{Context, workspace};
use crate::failure::Failure;
use crate::output::progress_line::ProgressLine;
use crate::output::text;
use crate::remote::Reach;

/// Create, compare, restore, export and transfer checkpoints.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Create(create::Args),
    List(list::Args),
    Show(show::Args),
    Diff(diff::Args),
    Verify(verify::Args),
    Restore(restore::Args),
    Prune(prune::Args),
    Delete(delete::Args),
    Export(export::Args),
    Import(import::Args),
    Push(push::Args),
    Pull(pull::Args),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Command::Create(args) => args.json,
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::Diff(args) => args.json,
            Command::Verify(args) => args.json,
            Command::Restore(args) => args.json,
            Command::Prune(args) => args.json,
            Command::Delete(args) => args.json,
            Command::Export(args) => args.json,
            Command::Import(args) => args.json,
            Command::Push(args) => args.json,
            Command::Pull(args) => args.json,
        }
    }

    /// Where the command can work, and its name.
    pub(crate) fn reach(&self) -> (Reach, &'static str) {
        match self {
            Command::Create(_) => (Reach::Anywhere, "checkpoint create"),
            Command::List(args) => args.reach(),
            Command::Show(_) => (Reach::Anywhere, "checkpoint show"),
            Command::Diff(_) => (Reach::Home, "checkpoint diff"),
            Command::Verify(_) => (Reach::Anywhere, "checkpoint verify"),
            Command::Restore(_) => (Reach::Anywhere, "checkpoint restore"),
            Command::Prune(_) => (Reach::Home, "checkpoint prune"),
            Command::Delete(_) => (Reach::Home, "checkpoint delete"),
            Command::Export(_) => (Reach::Home, "checkpoint export"),
            Command::Import(_) => (Reach::Home, "checkpoint import"),
            Command::Push(_) => (Reach::Home, "checkpoint push"),
            Command::Pull(_) => (Reach::Home, "checkpoint pull"),
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self {
            Command::Create(args) => create::run(args, context).await,
            Command::List(args) => list::run(&args, context).await,
            Command::Show(args) => show::run(&args, context).await,
            Command::Diff(args) => diff::run(&args, context).await,
            Command::Verify(args) => verify::run(&args, context).await,
            Command::Restore(args) => restore::run(args, context).await,
            Command::Prune(args) => prune::run(&args, context).await,
            Command::Delete(args) => delete::run(&args, context).await,
            Command::Export(args) => export::run(args, context).await,
            Command::Import(args) => import::run(args, context).await,
            Command::Push(args) => push::run(&args, context).await,
            Command::Pull(args) => pull::run(&args, context).await,
        }
    }
}

/// Finds the session by reference, or the newest one in the current folder.
async fn find_session(env: &Env, reference: Option<&str>) -> Result<Summary, Failure> {
    if let Some(reference) = reference {
        return Ok(sessions::find(env, reference).await?);
    }
    let here = workspace()?;
    Ok(sessions::find_newest_in(env, &here).await?)
}

/// Returns a progress callback that prints to the terminal if the work takes longer than a moment.
pub(crate) fn progress(env: &Env, what: &'static str) -> impl Fn(u64, u64) + Send + Sync + use<> {
    let progress_line = Mutex::new(ProgressLine::new(env.clock.clone()));
    move |done, of| {
        let (done, of) = (text::number(done), text::number(of));
        if let Ok(mut progress_line) = progress_line.lock() {
            progress_line.update(&format!("{what}: {done} of {of}"));
        }
    }
}

/// Formats a number of bytes for users.
pub(crate) fn bytes(n: u64) -> String {
    let units = ["bytes", "KB", "MB", "GB", "TB"];
    let mut size = n as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit < units.len() - 1 {
        size /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => text::count(n, "byte"),
        _ => format!("{size:.1} {}", units[unit]),
    }
}
