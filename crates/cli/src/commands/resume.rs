use std::process::ExitCode;

use segno_engine::{resume, sessions};

use super::run::{Policy, conduct, tidied, watch_signals};
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::machine::people;

/// Go on where a session stopped.
///
/// Finished steps are not run again. A step that was in flight when the run was lost is asked again,
/// unless the spec says that a person decides.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either [default: the newest of this folder]
    session: Option<String>,
    #[command(flatten)]
    policy: Policy,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (mut world, config) = context.world(Keep::Home)?;
    world.people = people::here(args.json);
    let summary = match &args.session {
        Some(reference) => sessions::find(&world, reference).await?,
        None => resume::newest(&world, &workspace()?).await?,
    };
    let (options, brake) = (args.policy.options(), watch_signals());
    let ran = conduct(&world, args.json, async |progress| {
        resume::resume(&world, summary, options, progress, brake).await
    })
    .await;
    tidied(ran, &world, &config).await
}
