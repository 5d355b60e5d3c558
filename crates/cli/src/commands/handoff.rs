use std::process::ExitCode;

use super::resume::{Wishes, go_on};
use super::run::Policy;
use crate::context::Context;
use crate::failure::Failure;

/// Hand a session that stopped in the middle of a step to another agent.
///
/// The other agent is given what was said and done, as a conversation of its own where its program
/// takes one, and goes on with the step. `segno resume --with AGENT --plan` shows what that would lose.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either [default: the newest of this folder]
    session: Option<String>,
    /// Who goes on: `claude`, `codex`, or an agent of the spec
    #[arg(long, value_name = "AGENT")]
    to: String,
    /// Tell the agent this, too
    #[arg(long, value_name = "TEXT")]
    say: Option<String>,
    #[command(flatten)]
    policy: Policy,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let wishes = Wishes::handing(args.to, args.say);
    go_on(args.session, wishes, args.policy, args.json, context).await
}
