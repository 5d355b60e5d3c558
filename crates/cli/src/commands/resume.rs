//! `segno resume`: resumes a session, a fork of it, or shows the plan for it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use segno_agents::program::Permissions;
use segno_core::journal::{OnDrift, OnLimit, RunOptions};
use segno_core::resume::Strategy;
use segno_core::store::Summary;
use segno_engine::{Env, lease};
use segno_sessions as sessions;
use segno_sessions::checkpoint;
use segno_sessions::fork::{self, TargetFolder};
use segno_sessions::json;
use segno_sessions::resume::{self, Options, plan};

use super::run::{
    Policy, refuse_permissions, request_run, run_with_progress, user, watch_signals,
    with_auto_cleanup,
};
use super::{agents, chat, fork as fork_command};
use crate::config::Config;
use crate::context::{Context, Persistence, notices, workspace};
use crate::failure::Failure;
use crate::machine::human;
use crate::output::{json_line, resume_plan, stdout_line};
use crate::remote::Reach;

/// Resume a session where it stopped.
///
/// Finished steps are not run again. A step that was interrupted is continued: a model continues
/// from the journal, a CLI agent in its own conversation with the best available resume strategy,
/// anything else is run again, unless the spec lets a human decide. With `--agent`, another agent
/// continues the step: it receives the conversation and the work so far, as a conversation of its
/// own if its CLI supports that.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// Same as SESSION
    #[arg(short, long, value_name = "SESSION", conflicts_with = "session")]
    workflow_id: Option<String>,
    /// Show what would be done, lost and paid, without resuming
    #[arg(long)]
    dry_run: bool,
    /// Hand the session to a worker (`segno worker`, `segno serve`) instead of running it here
    #[arg(long, conflicts_with_all = ["dry_run", "permissions"])]
    detach: bool,
    #[command(flatten)]
    from: ForkArgs,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    policy: Policy,
    /// Print JSON, one event per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Where the command can work, and its name.
    pub(crate) fn reach(&self) -> (Reach, &'static str) {
        if self.dry_run {
            (Reach::Home, "resume --dry-run")
        } else {
            (Reach::Anywhere, "resume")
        }
    }
}

/// Options that resume a fork instead of the session itself.
#[derive(Debug, Clone, Default, clap::Args)]
struct ForkArgs {
    /// Fork the session and resume the fork
    #[arg(long)]
    fork: bool,
    /// Fork the session at a checkpoint and restore its files; the replaced files are saved in a
    /// checkpoint first
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<String>,
    /// Work in this folder, with a copy of the files [default: the session's folder]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

impl ForkArgs {
    fn is_wanted(&self) -> bool {
        self.fork || self.from.is_some() || self.into.is_some()
    }

    /// Finds the session. A checkpoint implies its own session.
    async fn session(&self, env: &Env, given: Option<String>) -> Result<Summary, Failure> {
        match (&self.from, given) {
            (Some(reference), None) => {
                let manifest = checkpoint::find(env, reference).await?;
                Ok(sessions::find(env, &manifest.session.to_string()).await?)
            }
            (_, given) => find(env, given).await,
        }
    }

    async fn request(self, env: &Env) -> Result<fork::Request, Failure> {
        let from = self.from.as_deref();
        Ok(fork::Request {
            point: fork_command::part_to_copy(env, from, self.into, TargetFolder::Original).await?,
            ..fork::Request::default()
        })
    }
}

/// Options that change how the agent is resumed.
#[derive(Debug, Clone, Default, clap::Args)]
struct Overrides {
    /// Hand the interrupted step over to another agent: `claude`, `codex`, or an agent of the spec
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Best resume strategy to use [default: native]; `native`, given explicitly, goes back to the
    /// conversation before it was summarized
    #[arg(long, value_enum, value_name = "STRATEGY")]
    strategy: Option<StrategyArg>,
    /// Additional message to the agent
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// End the process that holds the session or the agent's conversation, running or stopped, and
    /// resume
    #[arg(long)]
    take_over: bool,
    /// What to do if the workspace was changed by others since [default: warn]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_drift: Option<OnDriftArg>,
    /// What to do if a provider reports a usage limit [default: as in the spec]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_limit: Option<OnLimitArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnLimitArg {
    /// Wait until the limit is lifted
    Wait,
    /// Pause the session
    Pause,
    /// Try immediately, ignoring the limit that an earlier run received; then as in the spec
    Ask,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StrategyArg {
    /// Continue the agent's own conversation
    Native,
    /// Continue it after repairing its transcript
    Repaired,
    /// Continue it from a saved copy of its transcript
    Restored,
    /// Start a new conversation with the resume context
    Summarized,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnDriftArg {
    /// Report the changes and resume
    Warn,
    /// Refuse to resume
    Refuse,
    /// Resume without a report
    Accept,
}

/// Permissions of CLI agents in this run.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PermissionsArg {
    /// Read files only
    Read,
    /// Change files in the workspace
    Edit,
    /// Do everything without asking
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

impl Overrides {
    /// Combines these overrides with the policy into resume options.
    fn options(self, policy: &Policy, env: &Env) -> Result<Options, Failure> {
        policy.with_decisions(env, self.run_options(policy))
    }

    /// The same as they are journaled for a worker.
    fn run_options(self, policy: &Policy) -> RunOptions {
        RunOptions {
            agent: self.agent,
            message: self.message,
            take_over: self.take_over,
            strategy: self.strategy.map(|strategy| match strategy {
                StrategyArg::Native => Strategy::Native,
                StrategyArg::Repaired => Strategy::Repaired,
                StrategyArg::Restored => Strategy::Restored,
                StrategyArg::Summarized => Strategy::Summarized,
            }),
            on_drift: self.on_drift.map(|policy| match policy {
                OnDriftArg::Warn => OnDrift::Warn,
                OnDriftArg::Refuse => OnDrift::Refuse,
                OnDriftArg::Accept => OnDrift::Accept,
            }),
            on_limit: self.on_limit.map(|policy| match policy {
                OnLimitArg::Wait => OnLimit::Wait,
                OnLimitArg::Pause => OnLimit::Pause,
                OnLimitArg::Ask => OnLimit::RetryNow,
            }),
            ..policy.run_options()
        }
    }
}

pub(crate) async fn run(mut args: Args, context: &Context) -> Result<ExitCode, Failure> {
    args.session = args.session.or(args.workflow_id.take());
    if args.from.is_wanted() && args.policy.unknown.is_decision() {
        let hint = "resume the session itself, or say it about the fork afterwards".to_owned();
        let reason =
            "`--in-flight done` and `failed` are about the session, not about a fork of it";
        return Err(Failure::usage(reason, Some(hint)));
    }
    if args.dry_run {
        return Box::pin(print_plan(args, context)).await;
    }
    if args.detach || context.remote.is_some() {
        return hand_over(args, context).await;
    }
    if !args.from.is_wanted() {
        return find_and_resume(
            args.session,
            args.overrides,
            args.policy,
            args.json,
            context,
        )
        .await;
    }
    let permissions = args.policy.permissions.map(Permissions::from);
    let (mut env, config) = context.env_with_permissions(Persistence::Home, permissions)?;
    env.human = human::at_terminal(args.json);
    let summary = args.from.session(&env, args.session).await?;
    let request = args.from.request(&env).await?;
    let control = context.control(&env, user());
    let fork = fork_command::fork_session(&env, &*control, &summary, request, args.json).await?;
    let options = args.overrides.options(&args.policy, &env)?;
    Box::pin(resume_session(&env, &config, fork, options, args.json)).await
}

/// Asks a worker to resume a session, or a fork of it.
async fn hand_over(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    refuse_permissions(context, &args.policy)?;
    let (env, _) = context.env(Persistence::Home)?;
    let options = args.overrides.run_options(&args.policy);
    let decisions = args.policy.unknown.decisions(&env)?;
    let mut summary = args.from.session(&env, args.session).await?;
    if args.from.is_wanted() {
        let request = args.from.request(&env).await?;
        let control = context.control(&env, user());
        summary = fork_command::fork_session(&env, &*control, &summary, request, args.json).await?;
    }
    let (detach, json) = (args.detach, args.json);
    let wanted = (options, &*decisions);
    request_run(&env, context, &summary, wanted, detach, json).await
}

async fn print_plan(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let options = args.overrides.options(&args.policy, &env)?;
    if args.from.is_wanted() {
        let summary = args.from.session(&env, args.session).await?;
        let request = args.from.request(&env).await?;
        let plan = Box::pin(fork::plan(&env, &summary, request, &options)).await?;
        if args.json {
            json_line(&json::fork_plan(&summary, &plan));
        } else {
            stdout_line(&resume_plan::render_fork(&summary, &plan));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let summary = find(&env, args.session).await?;
    let plan = plan::plan(&env, &summary, &options).await?;
    if args.json {
        json_line(&json::plan(&summary, &plan));
    } else {
        stdout_line(&resume_plan::render(&summary, &plan));
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds a session, resumes it and shows its progress. A chat is continued at the prompt if there
/// is a terminal.
async fn find_and_resume(
    session: Option<String>,
    overrides: Overrides,
    policy: Policy,
    json: bool,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let permissions = policy.permissions.map(Permissions::from);
    let (mut env, config) = context.env_with_permissions(Persistence::Home, permissions)?;
    env.human = human::at_terminal(json);
    let summary = find(&env, session).await?;
    if overrides.take_over {
        lease::end_owner(&env, &summary).await?;
    }
    let summary = agents::catch_up(&env, summary).await;
    let options = overrides.options(&policy, &env)?;
    if !json
        && let Some(chatted) = chat::continue_at_prompt(&env, &config, &summary, &options).await
    {
        return with_auto_cleanup(chatted, &env, &config).await;
    }
    Box::pin(resume_session(&env, &config, summary, options, json)).await
}

async fn resume_session(
    env: &Env,
    config: &Config,
    summary: Summary,
    options: Options,
    json: bool,
) -> Result<ExitCode, Failure> {
    let stop_token = watch_signals();
    let notices = notices(env, config);
    let ran = run_with_progress(env, &notices, json, async |progress| {
        resume::resume(env, summary, options, progress, stop_token).await
    })
    .await;
    with_auto_cleanup(ran, env, config).await
}

async fn find(env: &Env, session: Option<String>) -> Result<Summary, Failure> {
    Ok(match session {
        Some(reference) => sessions::find(env, &reference).await?,
        None => resume::newest(env, &workspace()?).await?,
    })
}
