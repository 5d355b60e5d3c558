//! One module per command: its arguments, whose doc comments are the help text, and a `run`
//! function.

mod answer;
mod cancel;
mod chat;
mod checkpoint;
mod completion;
mod context;
mod demo;
mod doctor;
mod explain;
mod gc;
mod handoff;
mod hooks;
mod import;
mod key;
mod logs;
mod mcp;
mod note;
mod pause;
mod plan;
mod recover;
mod resume;
mod run;
mod sessions;
mod status;
mod validate;
mod watch;
mod work;

use std::mem::ManuallyDrop;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// Durable runs for AI agents: kill one anywhere, resume it where it stopped.
#[derive(Debug, Parser)]
#[command(
    name = "segno",
    version,
    max_term_width = 100,
    after_help = "Sessions are kept in $SEGNO_HOME, or in ~/.local/state/segno. Exit codes: 0 ok, 2 usage, 3 spec invalid, 10 run failed, 12 file, 17 session, 18 not supported, 19 waiting for a person, 20 budget reached, 21 held by another run, 22 changed and refused, 23 verification failed, 70 internal, 130 paused, 143 ended by SIGTERM or SIGHUP."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Work(work::Args),
    Resume(resume::Args),
    Chat(chat::Args),
    Handoff(handoff::Args),
    Validate(validate::Args),
    Plan(plan::Args),
    Explain(explain::Args),
    #[command(subcommand)]
    Sessions(sessions::Command),
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    Import(import::Args),
    Gc(gc::Args),
    #[command(subcommand)]
    Key(key::Command),
    Status(status::Args),
    Logs(logs::Args),
    Answer(answer::Args),
    #[command(subcommand)]
    Note(note::Command),
    Context(context::Args),
    Pause(pause::Args),
    Cancel(cancel::Args),
    Recover(recover::Args),
    Watch(watch::Args),
    #[command(subcommand)]
    Hooks(hooks::Command),
    Mcp(mcp::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Completion(completion::Args),
}

impl Cli {
    /// Parses the command line of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        // The command tree with its help has thousands of allocations, and freeing them takes
        // longer than some commands run. This is called once, so the tree is leaked.
        let mut known = ManuallyDrop::new(Self::command());
        let mut matches = known.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut known))
    }

    /// Whether stdout is JSON for a program.
    pub(crate) fn is_json(&self) -> bool {
        match &self.command {
            Command::Run(args) => args.json,
            Command::Work(args) => args.json,
            Command::Resume(args) => args.json,
            Command::Chat(args) => args.json,
            Command::Handoff(args) => args.json,
            Command::Validate(args) => args.json,
            Command::Plan(args) => args.json,
            Command::Explain(args) => args.json,
            Command::Sessions(command) => command.is_json(),
            Command::Checkpoint(command) => command.is_json(),
            Command::Import(args) => args.json,
            Command::Gc(args) => args.json,
            Command::Key(command) => command.is_json(),
            Command::Status(args) => args.json,
            Command::Logs(args) => args.json,
            Command::Answer(args) => args.json,
            Command::Note(command) => command.is_json(),
            Command::Context(args) => args.json,
            Command::Pause(args) => args.json,
            Command::Cancel(args) => args.json,
            Command::Recover(args) => args.json,
            Command::Watch(args) => args.json,
            Command::Hooks(command) => command.is_json(),
            Command::Doctor(args) => args.json,
            Command::Mcp(_) | Command::Demo(_) | Command::Completion(_) => false,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Run(args) => Box::pin(run::run(args, context)).await,
            Command::Work(args) => Box::pin(work::run(args, context)).await,
            Command::Resume(args) => Box::pin(resume::run(args, context)).await,
            Command::Chat(args) => Box::pin(chat::run(args, context)).await,
            Command::Handoff(args) => Box::pin(handoff::run(args, context)).await,
            Command::Validate(args) => validate::run(&args, context),
            Command::Plan(args) => plan::run(&args, context),
            Command::Explain(args) => explain::run(&args, context),
            Command::Sessions(command) => Box::pin(command.run(context)).await,
            Command::Checkpoint(command) => command.run(context).await,
            Command::Import(args) => import::run(args, context).await,
            Command::Gc(args) => gc::run(&args, context).await,
            Command::Key(command) => command.run(context),
            Command::Status(args) => status::run(&args, context).await,
            Command::Logs(args) => logs::run(&args, context).await,
            Command::Answer(args) => Box::pin(answer::run(args, context)).await,
            Command::Note(command) => command.run(context).await,
            Command::Context(args) => context::run(&args, context).await,
            Command::Pause(args) => pause::run(args, context).await,
            Command::Cancel(args) => cancel::run(&args, context).await,
            Command::Recover(args) => recover::run(&args, context).await,
            Command::Watch(args) => watch::run(&args, context).await,
            Command::Hooks(command) => command.run(context),
            Command::Mcp(args) => mcp::run(args, context).await,
            Command::Doctor(args) => doctor::run(&args, context).await,
            Command::Demo(args) => demo::run(&args),
            Command::Completion(args) => {
                completion::run(&args);
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
