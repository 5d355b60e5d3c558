//! One module per command: its arguments, whose doc comments are the help text, and a `run`
//! function.

mod agents;
mod answer;
mod audit;
mod cancel;
mod chat;
mod checkpoint;
mod completion;
mod config;
mod context;
mod demo;
mod doctor;
mod follow;
mod fork;
mod help;
mod login;
mod logs;
mod mcp;
mod note;
mod notice;
mod open;
mod pause;
mod plan;
mod resume;
mod run;
mod run_pending;
mod search;
mod serve;
mod service;
mod sessions;
mod show;
mod state;
mod status;
mod token;
mod unknown_outcome;
mod validate;
mod work;
mod worker;

use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use segno_client::Remote;

use crate::context::Context;
use crate::failure::Failure;
use crate::machine::RUN_PENDING;
use crate::remote::{self, Reach};

/// Durable runs for AI agents: kill one anywhere, resume it where it stopped.
#[derive(Debug, Parser)]
#[command(
    name = "segno",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Sessions are stored in $SEGNO_HOME, or in ~/.local/state/segno."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Work with the sessions of this server, not with those of this machine
    #[arg(long, value_name = "URL", global = true, hide = true)]
    server: Option<String>,
}

/// The commands, in the order of the groups in [`help::SCREEN`].
#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Work(work::Args),
    Chat(chat::Args),
    Demo(demo::Args),
    #[command(visible_aliases = ["ls", "ps"])]
    Status(status::Args),
    Show(show::Args),
    Logs(logs::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Cancel(cancel::Args),
    Answer(answer::Args),
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    Fork(fork::Args),
    #[command(subcommand)]
    Note(note::Command),
    #[command(subcommand)]
    State(state::Command),
    Context(context::Args),
    Search(search::Args),
    Validate(validate::Args),
    Plan(plan::Args),
    #[command(subcommand)]
    Agents(agents::Command),
    Mcp(mcp::Args),
    #[command(subcommand)]
    Sessions(sessions::Command),
    Serve(serve::Args),
    Worker(worker::Args),
    #[command(subcommand)]
    Notice(notice::Command),
    #[command(subcommand)]
    Service(service::Command),
    Open(open::Args),
    Login(login::Args),
    Logout(login::LogoutArgs),
    #[command(subcommand)]
    Token(token::Command),
    Audit(audit::Args),
    Doctor(doctor::Args),
    #[command(subcommand)]
    Config(config::Command),
    Completion(completion::Args),
    Help(help::Args),
    #[command(name = RUN_PENDING, hide = true)]
    RunPending(run_pending::Args),
}

impl Cli {
    /// Parses the command line of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        // The command tree with its help has thousands of allocations, and freeing them takes
        // longer than some commands run. This is called once, so the tree is leaked.
        let mut known = ManuallyDrop::new(Self::command().override_help(help::SCREEN));
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
            Command::Validate(args) => args.json,
            Command::Plan(args) => args.json,
            Command::Sessions(command) => command.is_json(),
            Command::Show(args) => args.json,
            Command::Fork(args) => args.json,
            Command::Search(args) => args.json,
            Command::Checkpoint(command) => command.is_json(),
            Command::Status(args) => args.json,
            Command::Logs(args) => args.json,
            Command::Answer(args) => args.json,
            Command::Note(command) => command.is_json(),
            Command::State(command) => command.is_json(),
            Command::Context(args) => args.json,
            Command::Pause(args) => args.json,
            Command::Cancel(args) => args.json,
            Command::Agents(command) => command.is_json(),
            Command::Doctor(args) => args.json,
            Command::Serve(args) => args.json,
            Command::Worker(args) => args.json,
            Command::Notice(command) => command.is_json(),
            Command::Service(command) => command.is_json(),
            Command::Open(args) => args.json,
            Command::Login(args) => args.json,
            Command::Logout(args) => args.json,
            Command::Token(command) => command.is_json(),
            Command::Audit(args) => args.json,
            Command::Config(command) => command.is_json(),
            Command::Mcp(_)
            | Command::Demo(_)
            | Command::Completion(_)
            | Command::Help(_)
            | Command::RunPending(_) => false,
        }
    }

    /// The server whose sessions the command works with, if any.
    pub(crate) fn server(&self) -> Result<Option<Arc<Remote>>, Failure> {
        let (reach, name) = self.command.reach();
        remote::choose(self.server.as_deref(), reach, name)
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Run(args) => Box::pin(run::run(args, context)).await,
            Command::Work(args) => Box::pin(work::run(args, context)).await,
            Command::Resume(args) => Box::pin(resume::run(args, context)).await,
            Command::Chat(args) => Box::pin(chat::run(args, context)).await,
            Command::Validate(args) => validate::run(&args, context),
            Command::Plan(args) => plan::run(&args, context),
            Command::Sessions(command) => Box::pin(command.run(context)).await,
            Command::Show(args) => show::run(&args, context).await,
            Command::Fork(args) => Box::pin(fork::run(args, context)).await,
            Command::Search(args) => search::run(args, context).await,
            Command::Checkpoint(command) => command.run(context).await,
            Command::Status(args) => status::run(&args, context).await,
            Command::Logs(args) => logs::run(&args, context).await,
            Command::Answer(args) => Box::pin(answer::run(args, context)).await,
            Command::Note(command) => command.run(context).await,
            Command::State(command) => Box::pin(command.run(context)).await,
            Command::Context(args) => context::run(&args, context).await,
            Command::Pause(args) => pause::run(args, context).await,
            Command::Cancel(args) => cancel::run(&args, context).await,
            Command::Agents(command) => command.run(context).await,
            Command::Mcp(args) => mcp::run(args, context).await,
            Command::Doctor(args) => doctor::run(&args, context).await,
            Command::Serve(args) => Box::pin(serve::run(args, context)).await,
            Command::Worker(args) => Box::pin(worker::run(args, context)).await,
            Command::RunPending(args) => Box::pin(run_pending::run(&args, context)).await,
            Command::Notice(command) => Box::pin(command.run(context)).await,
            Command::Service(command) => Box::pin(command.run(context)).await,
            Command::Open(args) => open::run(&args, context),
            Command::Login(args) => login::run(args).await,
            Command::Logout(args) => login::log_out(&args),
            Command::Token(command) => command.run(context),
            Command::Audit(args) => audit::run(&args, context),
            Command::Config(command) => command.run(context),
            Command::Demo(args) => demo::run(&args),
            Command::Help(args) => help::run(&args),
            Command::Completion(args) => {
                completion::run(&args);
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Command {
    /// Where the command can work, and its name.
    fn reach(&self) -> (Reach, &'static str) {
        use Reach::{Anywhere, Home, Machine};
        match self {
            Command::Run(args) => {
                if args.is_stored() {
                    (Anywhere, "run")
                } else {
                    (Machine, "run --no-save-session")
                }
            }
            Command::Work(_) => (Home, "work"),
            Command::Chat(_) => (Home, "chat"),
            Command::Demo(_) => (Machine, "demo"),
            Command::Status(_) => (Anywhere, "status"),
            Command::Show(_) => (Anywhere, "show"),
            Command::Logs(_) => (Anywhere, "logs"),
            Command::Pause(_) => (Anywhere, "pause"),
            Command::Resume(args) => args.reach(),
            Command::Cancel(_) => (Anywhere, "cancel"),
            Command::Answer(_) => (Anywhere, "answer"),
            Command::Checkpoint(command) => command.reach(),
            Command::Fork(_) => (Anywhere, "fork"),
            Command::Note(_) => (Anywhere, "note"),
            Command::State(command) => command.reach(),
            Command::Context(args) => args.reach(),
            Command::Search(_) => (Anywhere, "search"),
            Command::Validate(_) => (Machine, "validate"),
            Command::Plan(_) => (Machine, "plan"),
            Command::Agents(_) => (Machine, "agents"),
            Command::Mcp(_) => (Machine, "mcp"),
            Command::Sessions(command) => command.reach(),
            Command::Serve(_) => (Machine, "serve"),
            Command::Worker(_) => (Machine, "worker"),
            Command::Notice(_) => (Machine, "notice"),
            Command::Service(_) => (Machine, "service"),
            Command::Open(_) => (Machine, "open"),
            Command::Login(_) => (Machine, "login"),
            Command::Logout(_) => (Machine, "logout"),
            Command::Token(_) => (Machine, "token"),
            Command::Audit(_) => (Machine, "audit"),
            Command::Doctor(_) => (Home, "doctor"),
            Command::Config(_) => (Machine, "config"),
            Command::Completion(_) => (Machine, "completion"),
            Command::Help(_) => (Machine, "help"),
            Command::RunPending(_) => (Machine, RUN_PENDING),
        }
    }
}
