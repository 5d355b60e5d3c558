use std::process::ExitCode;

use clap::ValueEnum;
use segno_agents::program::Permissions;
use segno_core::ladder::Rung;
use segno_core::session::Summary;
use segno_engine::drift::OnDrift;
use segno_engine::resume::Options;
use segno_engine::{World, plan, resume, sessions};

use super::run::{Policy, conduct, tidied, watch_signals};
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::machine::people;
use crate::output::{data, json, json_line, plans};

/// Go on where a session stopped.
///
/// Finished steps are not run again. A step that was in flight when the run was lost goes on: a model
/// from what the journal has, an agent's program from its own conversation by the best way that there
/// is, anything else by asking again, unless the spec says that a person decides.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either [default: the newest of this folder]
    session: Option<String>,
    /// Show what would be done, what would be lost and what it may cost, and do nothing
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    policy: Policy,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How an agent's work is to go on, if not as usual.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Wishes {
    /// Let another agent go on: `claude`, `codex`, or an agent of the spec
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// The best way that may be taken [default: native]
    #[arg(long, value_enum, value_name = "RUNG")]
    rung: Option<RungArg>,
    /// Tell the agent this, too
    #[arg(long, value_name = "TEXT")]
    say: Option<String>,
    /// What to do if others changed the workspace since [default: warn]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_drift: Option<OnDriftArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RungArg {
    /// The agent's own conversation, as it is
    Native,
    /// The same, after its record was put in order
    Repaired,
    /// The same, from a kept copy of its record
    Rehomed,
    /// A fresh conversation that is told what was done
    Compiled,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnDriftArg {
    /// Say so, and go on
    Warn,
    /// Refuse to go on
    Refuse,
    /// Go on
    Accept,
}

/// What agents' programs may do in this run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PermissionsArg {
    /// Look, and change nothing
    Read,
    /// Change files in the workspace
    Edit,
    /// Everything, unasked
    All,
}

impl From<PermissionsArg> for Permissions {
    fn from(given: PermissionsArg) -> Self {
        match given {
            PermissionsArg::Read => Self::Read,
            PermissionsArg::Edit => Self::Edit,
            PermissionsArg::All => Self::All,
        }
    }
}

impl Wishes {
    /// Together with what is to be done if the world changed.
    fn options(self, policy: Policy) -> Options {
        Options {
            with: self.with,
            say: self.say,
            rung: self.rung.map(|rung| match rung {
                RungArg::Native => Rung::Native,
                RungArg::Repaired => Rung::Repaired,
                RungArg::Rehomed => Rung::Rehomed,
                RungArg::Compiled => Rung::Compiled,
            }),
            on_drift: match self.on_drift {
                None | Some(OnDriftArg::Warn) => OnDrift::Warn,
                Some(OnDriftArg::Refuse) => OnDrift::Refuse,
                Some(OnDriftArg::Accept) => OnDrift::Accept,
            },
            ..policy.options()
        }
    }

    /// Another agent goes on.
    pub(crate) fn handing(to: String, say: Option<String>) -> Self {
        Self {
            with: Some(to),
            say,
            ..Self::default()
        }
    }
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.plan {
        return show(args, context).await;
    }
    go_on(args.session, args.wishes, args.policy, args.json, context).await
}

async fn show(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = find(&world, args.session).await?;
    let options = args.wishes.options(args.policy);
    let plan = plan::plan(&world, &summary, &options).await?;
    if args.json {
        json_line(&json::plan(&summary, &plan));
    } else {
        data(&plans::shown(&summary, &plan));
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes on with a session, and shows it meanwhile.
pub(crate) async fn go_on(
    session: Option<String>,
    wishes: Wishes,
    policy: Policy,
    json: bool,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let permissions = policy.permissions.map(Permissions::from);
    let (mut world, config) = context.world_with(Keep::Home, permissions)?;
    world.people = people::here(json);
    let summary = find(&world, session).await?;
    let (options, brake) = (wishes.options(policy), watch_signals());
    let ran = conduct(&world, json, async |progress| {
        resume::resume(&world, summary, options, progress, brake).await
    })
    .await;
    tidied(ran, &world, &config).await
}

async fn find(world: &World, session: Option<String>) -> Result<Summary, Failure> {
    Ok(match session {
        Some(reference) => sessions::find(world, &reference).await?,
        None => resume::newest(world, &workspace()?).await?,
    })
}
