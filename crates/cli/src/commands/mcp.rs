use std::process::ExitCode;

use segno_core::step::Path;
use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::mcp::snippets::Started;
use crate::mcp::{Desk, serve};
use crate::output::{data, say};

/// Serve an agent over the Model Context Protocol, on stdin and stdout.
///
/// The agent can record decisions, errors, feedback and things to do, read and search the history of its
/// session, ask for a checkpoint, and pause. Agents that Segno starts have it already; others are told of
/// it with `segno mcp config`. It is about one session, which the agent cannot choose.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
    /// The step that the agent is at work on
    #[arg(long, value_name = "PATH")]
    step: Option<String>,
    /// What the agent is called
    #[arg(long, value_name = "NAME", default_value = "agent")]
    agent: String,
}

/// What the server is about.
#[derive(Debug, clap::Args)]
struct Place {
    /// The session: its id, its name, or the beginning of either [default: the newest one of this
    /// folder]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Config(Config),
}

/// Print how an agent is told of the server.
///
/// The settings go to stdout, and the command that adds them, where there is one, to stderr. Nothing is
/// changed.
#[derive(Debug, clap::Args)]
struct Config {
    /// For which agent
    #[arg(value_enum)]
    agent: Agent,
    #[command(flatten)]
    place: Place,
}

/// Whose settings.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Agents that speak the Agent Client Protocol
    Acp,
    /// Any other program
    Json,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if let Some(Command::Config(config)) = args.command {
        return show(config);
    }
    let path = args.step.as_deref().map(Path::new).transpose();
    let path = path.map_err(|error| Failure::usage(error.to_string(), None))?;
    let desk = Desk::new(context.clone(), args.place.session, path, args.agent);
    serve(desk).await?;
    Ok(ExitCode::SUCCESS)
}

fn show(config: Config) -> Result<ExitCode, Failure> {
    let session = config
        .place
        .session
        .map(|session| format!("--session={session}"));
    let started = Started::here(session)?;
    let print = |value: &Value| data(&format!("{value:#}"));
    match config.agent {
        Agent::Claude => {
            print(&started.claude());
            let command = started.command("claude", &["--scope", "local"]);
            say(&format!(
                "hint: for one project, as `.mcp.json`, or with `{command}`"
            ));
        }
        Agent::Codex => {
            data(&started.codex());
            let command = started.command("codex", &[]);
            say(&format!(
                "hint: in ~/.codex/config.toml, or with `{command}`"
            ));
        }
        Agent::Acp => {
            print(&started.acp());
            say("hint: a client sends it with `session/new` and `session/load`");
        }
        Agent::Json => print(&started.json()),
    }
    Ok(ExitCode::SUCCESS)
}
