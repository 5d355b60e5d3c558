use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use segno_agents::program::Permissions;
use segno_core::ladder::Rung;
use segno_core::session::Summary;
use segno_engine::drift::OnDrift;
use segno_engine::fork::{self, Place};
use segno_engine::resume::{OnLimit, Options};
use segno_engine::{World, checkpoint, plan, resume, sessions};

use super::chat;
use super::run::{Policy, conduct, tidied, watch_signals};
use super::sessions::fork as copies;
use crate::config::Config;
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
    copying: Copying,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    policy: Policy,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whether a copy of the session goes on instead of the session itself.
#[derive(Debug, Clone, Default, clap::Args)]
struct Copying {
    /// Leave the session as it is, and go on with a copy of it
    #[arg(long)]
    fork: bool,
    /// Go back to a checkpoint: a copy of the session as it was then goes on, with the files of that
    /// moment, and what they replace is kept in a checkpoint first
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<String>,
    /// Let the copy work in this folder, with its own files [default: the session's folder]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

impl Copying {
    fn is_wanted(&self) -> bool {
        self.fork || self.from.is_some() || self.into.is_some()
    }

    /// Which session is meant. A checkpoint knows its own.
    async fn session(&self, world: &World, given: Option<String>) -> Result<Summary, Failure> {
        match (&self.from, given) {
            (Some(reference), None) => {
                let manifest = checkpoint::find(world, reference).await?;
                Ok(sessions::find(world, &manifest.session.to_string()).await?)
            }
            (_, given) => find(world, given).await,
        }
    }

    async fn request(self, world: &World) -> Result<fork::Request, Failure> {
        let from = self.from.as_deref();
        Ok(fork::Request {
            part: copies::part(world, from, self.into, Place::Back).await?,
            ..fork::Request::default()
        })
    }
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
    /// What to do if a provider says that its limit is reached [default: as the spec says]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_limit: Option<OnLimitArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnLimitArg {
    /// Wait until it is lifted
    Wait,
    /// Pause the session
    Pause,
    /// Ask at once, whatever an earlier run was told; then as the spec says
    Ask,
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
            on_limit: self.on_limit.map(|policy| match policy {
                OnLimitArg::Wait => OnLimit::Wait,
                OnLimitArg::Pause => OnLimit::Pause,
                OnLimitArg::Ask => OnLimit::Ask,
            }),
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
    if !args.copying.is_wanted() {
        return go_on(args.session, args.wishes, args.policy, args.json, context).await;
    }
    let permissions = args.policy.permissions.map(Permissions::from);
    let (mut world, config) = context.world_with(Keep::Home, permissions)?;
    world.people = people::here(args.json);
    let summary = args.copying.session(&world, args.session).await?;
    let request = args.copying.request(&world).await?;
    let copy = copies::make(&world, &summary, request, args.json).await?;
    let options = args.wishes.options(args.policy);
    carry_on(&world, &config, copy, options, args.json).await
}

async fn show(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let options = args.wishes.options(args.policy);
    if args.copying.is_wanted() {
        let summary = args.copying.session(&world, args.session).await?;
        let request = args.copying.request(&world).await?;
        let plan = fork::plan(&world, &summary, request, &options).await?;
        if args.json {
            json_line(&json::fork_plan(&summary, &plan));
        } else {
            data(&plans::fork_shown(&summary, &plan));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let summary = find(&world, args.session).await?;
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
    let options = wishes.options(policy);
    if !json && let Some(talked) = chat::reopened(&world, &config, &summary, &options).await {
        return tidied(talked, &world, &config).await;
    }
    Box::pin(carry_on(&world, &config, summary, options, json)).await
}

async fn carry_on(
    world: &World,
    config: &Config,
    summary: Summary,
    options: Options,
    json: bool,
) -> Result<ExitCode, Failure> {
    let brake = watch_signals();
    let ran = conduct(world, json, async |progress| {
        resume::resume(world, summary, options, progress, brake).await
    })
    .await;
    tidied(ran, world, config).await
}

async fn find(world: &World, session: Option<String>) -> Result<Summary, Failure> {
    Ok(match session {
        Some(reference) => sessions::find(world, &reference).await?,
        None => resume::newest(world, &workspace()?).await?,
    })
}
