//! `segno handoff`: resumes a session with another agent.

use std::process::ExitCode;

use super::resume::{Overrides, find_and_resume};
use super::run::Policy;
use crate::context::Context;
use crate::failure::Failure;

/// Hand an interrupted step over to another agent.
///
/// The other agent receives the conversation and the work so far, as a conversation of its own if
/// its CLI supports that, and continues the step. `segno resume --with AGENT --plan` shows what
/// would be lost.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// Agent that takes over: `claude`, `codex`, or an agent of the spec
    #[arg(long, value_name = "AGENT")]
    to: String,
    /// Additional message to the agent
    #[arg(long, value_name = "TEXT")]
    say: Option<String>,
    #[command(flatten)]
    policy: Policy,
    /// Print JSON, one event per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let overrides = Overrides::hand_off(args.to, args.say);
    find_and_resume(args.session, overrides, args.policy, args.json, context).await
}
