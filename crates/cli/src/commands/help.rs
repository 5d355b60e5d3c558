//! `segno help`: the first screen, the help of a command, and the exit codes.

use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Cli;
use crate::failure::Failure;
use crate::output::stdout_line;

/// The first screen: what `segno`, `segno --help` and `segno help` print. Fewer than 24 lines of at
/// most 80 columns.
pub(crate) const SCREEN: &str = "\
Durable runs for AI agents: kill one anywhere, resume it where it stopped.

Usage: segno COMMAND [OPTIONS]

  segno run SPEC            run a workflow
  segno resume [SESSION]    resume a session where it stopped

start        run, work, chat, demo           start a session
observe      status (ls, ps), show, logs     see what sessions do and did
control      pause, resume, cancel, answer   stop, continue, answer questions
checkpoints  checkpoint, fork                save, restore, transfer, branch off
knowledge    note, state, context, search    what the next run should know
specs        validate, plan                  check a workflow, show its steps
integrate    agents, mcp                     Claude Code, Codex, other agents
operate      sessions, notice, doctor, config, completion, help
server       serve, worker, service, open    background runs and the HTTP API
             token, login, logout, audit     who may use it, and who did what

segno COMMAND --help     options of a command
segno help --all         all commands
segno help exit-codes    exit codes
segno --server URL …     work with the sessions of a server
segno --version          version";

const EXIT_CODES: &str = "\
  0  ok
  2  usage: wrong arguments or settings
  3  the spec is invalid
 10  the run failed or was cancelled
 12  a file cannot be read or written
 17  no such session, or not in the right state
 18  not supported
 19  waiting for you
 20  a budget or limit is reached
 21  held by another run
 22  changed, and refused
 23  verification failed
 70  internal error
130  paused
143  ended by SIGTERM or SIGHUP";

/// Show the help of a command, all commands, or the exit codes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command to describe, or `exit-codes` [default: an overview]
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// List all commands
    #[arg(long, conflicts_with = "words")]
    all: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    if words.is_empty() && !args.all {
        stdout_line(SCREEN);
        return Ok(ExitCode::SUCCESS);
    }
    if words == ["exit-codes"] {
        stdout_line(EXIT_CODES);
        return Ok(ExitCode::SUCCESS);
    }
    // Parsed like `segno COMMAND --help`, so that both print the same.
    let parsed = ["segno"].into_iter().chain(words.clone()).chain(["--help"]);
    match Cli::command().try_get_matches_from(parsed) {
        Err(help) if help.kind() == ErrorKind::DisplayHelp => {
            stdout_line(help.render().to_string().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            let message = format!("there is no command `{}`", words.join(" "));
            let hint = "`segno help --all` lists all commands".to_owned();
            Err(Failure::usage(message, Some(hint)))
        }
    }
}
