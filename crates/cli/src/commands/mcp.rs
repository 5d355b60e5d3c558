//! `segno mcp`: serves agents over MCP, and prints the settings that agents need for it.

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use segno_core::step::Path;
use segno_engine::Env;
use segno_integrations::mcp::{BoundSession, OpenError, Opener, serve};
use segno_secrets::redact::Redactor;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::context::{Context, Persistence, own_environment, workspace};
use crate::failure::Failure;
use crate::output::{stderr_line, stdout_line, try_stdout_line};
use crate::server_command::ServerCommand;

/// Serve an agent over the Model Context Protocol, on stdin and stdout.
///
/// The agent can record decisions, errors, feedback and todos, read and search the history of its
/// session, request a checkpoint, and pause. Agents that Segno starts have the server already;
/// `segno mcp config` prints the settings for others. The server is bound to one session, which the
/// agent cannot choose.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    session_arg: SessionArg,
    /// Step that the agent works on
    #[arg(long, value_name = "PATH")]
    step: Option<String>,
    /// Name of the agent
    #[arg(long, value_name = "NAME", default_value = "agent")]
    agent: String,
}

/// The session that the server is bound to.
#[derive(Debug, clap::Args)]
struct SessionArg {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Config(Config),
}

/// Print the settings that add the server to an agent.
///
/// Prints the settings on stdout, and the command that adds them, if there is one, on stderr.
/// Changes nothing.
#[derive(Debug, clap::Args)]
struct Config {
    /// Agent to print the settings for
    #[arg(value_enum)]
    agent: Agent,
    #[command(flatten)]
    session_arg: SessionArg,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Agents that use the Agent Client Protocol
    Acp,
    /// Any other MCP client
    Json,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if let Some(Command::Config(config)) = args.command {
        return print_config(config);
    }
    let path = args.step.as_deref().map(Path::new).transpose();
    let path = path.map_err(|error| Failure::usage(error.to_string(), None))?;
    let opener = Box::new(context.clone());
    let bound = BoundSession::new(opener, args.session_arg.session, path, args.agent);
    let (mut term, mut int) = (
        watch_signal(SignalKind::terminate())?,
        watch_signal(SignalKind::interrupt())?,
    );
    tokio::select! {
        () = serve(bound, BufReader::new(io::stdin()), try_stdout_line) => {}
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn watch_signal(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::internal(format!("cannot listen for signals: {error}")))
}

impl Opener for Context {
    fn open(&self) -> Result<Env, OpenError> {
        let (env, _) = self.env(Persistence::Home)?;
        Ok(env)
    }

    fn folder(&self) -> Result<PathBuf, OpenError> {
        Ok(workspace()?)
    }

    fn variables(&self) -> Vec<(String, String)> {
        own_environment().collect()
    }

    fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        let diagnosis = failure.diagnosis();
        Self {
            message: failure.message,
            diagnosis,
        }
    }
}

fn print_config(config: Config) -> Result<ExitCode, Failure> {
    let session = config
        .session_arg
        .session
        .map(|session| format!("--session={session}"));
    let command = ServerCommand::from_this_process(session)?;
    let print = |value: &Value| stdout_line(&format!("{value:#}"));
    match config.agent {
        Agent::Claude => {
            print(&command.claude());
            let add = command.add_command("claude", &["--scope", "local"]);
            stderr_line(&format!(
                "hint: for one project, as `.mcp.json`, or with `{add}`"
            ));
        }
        Agent::Codex => {
            stdout_line(&command.codex());
            let add = command.add_command("codex", &[]);
            stderr_line(&format!("hint: in ~/.codex/config.toml, or with `{add}`"));
        }
        Agent::Acp => {
            print(&command.acp());
            stderr_line("hint: a client sends it with `session/new` and `session/load`");
        }
        Agent::Json => print(&command.json()),
    }
    Ok(ExitCode::SUCCESS)
}
