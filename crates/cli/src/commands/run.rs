//! `segno run`: starts a workflow session. Also what all commands share that run a session:
//! progress, signals, cleanup.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use segno_agents::program::Permissions;
use segno_core::checkpoint::Trigger;
use segno_core::error::Diagnose;
use segno_core::id::Name;
use segno_core::journal::{Head, OnChange, RunOptions, StopMode};
use segno_core::session::Status;
use segno_core::store::Summary;
use segno_engine::{Env, Observer, Outcome, Stop, StopToken};
use segno_sessions as sessions;
use segno_sessions::resume::{self, Options};
use segno_sessions::start::{self, Request};
use segno_sessions::unknown::Decision;
use segno_supervisor::notices::{Notices, Origin};
use tokio::signal::unix::{SignalKind, signal};

use super::resume::PermissionsArg;
use super::sessions::cleanup;
use super::unknown_outcome::UnknownOutcome;
use super::{follow, worker};
use crate::config::Config;
use crate::context::{Context, Persistence, notices, workspace};
use crate::failure::Failure;
use crate::line_editor::restore_terminal;
use crate::machine::human;
use crate::output::progress::Progress;
use crate::output::{print_result, stderr_line};
use crate::remote;

/// Run a workflow.
///
/// Every step's result is on disk before the next step starts. If the run is killed, `segno resume`
/// continues with the first unfinished step. Ctrl-C stops after the current step, a second Ctrl-C
/// immediately; both can be resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Workflow spec, YAML or JSON
    #[arg(required_unless_present = "resume")]
    spec: Option<PathBuf>,
    /// Set a variable of the workflow (repeatable)
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Name of the session [default: the workflow's name, numbered]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Resume this session instead of starting one
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["spec", "variables", "name", "auto_resume", "save_session", "no_save_session", "out", "force"])]
    resume: Option<String>,
    /// Resume the newest unfinished session of this spec in this folder, if there is one
    #[arg(long, conflicts_with = "no_save_session")]
    auto_resume: bool,
    /// Store the session, so that it can be resumed; the default
    #[arg(long, conflicts_with = "no_save_session")]
    save_session: bool,
    /// Store nothing: a killed run is lost
    #[arg(long)]
    no_save_session: bool,
    #[command(flatten)]
    policy: Policy,
    /// Hand the session to a worker (`segno worker`, `segno serve`) instead of running it here
    #[arg(long, conflicts_with_all = ["no_save_session", "permissions"])]
    detach: bool,
    /// Folder for artifacts
    #[arg(long, value_name = "FOLDER", default_value = "artifacts")]
    out: PathBuf,
    /// Overwrite files that this session did not write
    #[arg(long)]
    force: bool,
    /// Print JSON, one event per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options for what may have changed since the session last ran, and the permissions of CLI agents.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Policy {
    /// What to do about finished steps that the edited spec changes [default: warn, but refuse if it
    /// has other steps in their places]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_change: Option<OnChangeArg>,
    /// Let the edited spec use programs, MCP servers and tools that the recorded one does not
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) unknown: UnknownOutcome,
    /// Permissions of CLI agents [default: as in config.toml, else edit]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) permissions: Option<PermissionsArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnChangeArg {
    /// Report them, keep their results, use the edited spec
    Warn,
    /// Run them again
    Rerun,
    /// Refuse to resume
    Refuse,
    /// Use the original spec
    Pinned,
}

impl Args {
    /// Whether the session is stored.
    pub(crate) fn is_stored(&self) -> bool {
        !self.no_save_session
    }
}

impl Policy {
    fn is_given(&self) -> bool {
        self.on_change.is_some() || self.unknown.is_given() || self.yes
    }

    pub(crate) fn options(&self, env: &Env) -> Result<Options, Failure> {
        self.with_decisions(env, self.run_options())
    }

    /// Options with what the user says about unknown outcomes.
    pub(crate) fn with_decisions(
        &self,
        env: &Env,
        options: RunOptions,
    ) -> Result<Options, Failure> {
        Ok(Options {
            decisions: self.unknown.decisions(env)?,
            by: user(),
            ..options.into()
        })
    }

    /// The options as they are journaled for a worker.
    pub(crate) fn run_options(&self) -> RunOptions {
        RunOptions {
            on_change: self.on_change.map(|policy| match policy {
                OnChangeArg::Warn => OnChange::Warn,
                OnChangeArg::Rerun => OnChange::Rerun,
                OnChangeArg::Refuse => OnChange::Fail,
                OnChangeArg::Pinned => OnChange::Pinned,
            }),
            yes: self.yes,
            in_flight: self.unknown.policy(),
            ..RunOptions::default()
        }
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let persistence = if args.no_save_session {
        Persistence::Memory
    } else {
        Persistence::Home
    };
    let permissions = args.policy.permissions.map(Permissions::from);
    let (mut env, config) = context.env_with_permissions(persistence, permissions)?;
    env.human = human::at_terminal(args.json);
    let notices = notices(&env, &config);
    let ran = Box::pin(run_or_resume(args, context, persistence, &env, &notices)).await;
    with_auto_cleanup(ran, &env, &config).await
}

/// Runs the automatic cleanup after a run, unless the user interrupted the run.
pub(crate) async fn with_auto_cleanup(
    ran: Result<ExitCode, Failure>,
    env: &Env,
    config: &Config,
) -> Result<ExitCode, Failure> {
    if !ran
        .as_ref()
        .is_err_and(|failure| matches!(failure.exit(), 130 | 143))
    {
        cleanup::run_auto_cleanup(env, config).await;
    }
    ran
}

async fn run_or_resume(
    mut args: Args,
    context: &Context,
    persistence: Persistence,
    env: &Env,
    notices: &Notices,
) -> Result<ExitCode, Failure> {
    if args.detach || context.remote.is_some() {
        return hand_over(args, env, context).await;
    }
    let stop_token = watch_signals();
    let Some(spec) = args.spec.take() else {
        let reference = args.resume.unwrap_or_default();
        let summary = sessions::find(env, &reference).await?;
        let options = args.policy.options(env)?;
        return run_with_progress(env, notices, args.json, async |progress| {
            resume::resume(env, summary, options, progress, stop_token).await
        })
        .await;
    };
    let policy = args.policy.clone();
    let (json, auto_resume) = (args.json, args.auto_resume);
    let request = request(args, spec)?;
    if auto_resume && let Some(summary) = resume::unfinished(env, &request).await? {
        stderr_line(&format!("resuming {} ({})", summary.name, summary.id));
        let options = policy.options(env)?;
        return run_with_progress(env, notices, json, async |progress| {
            resume::resume(env, summary, options, progress, stop_token).await
        })
        .await;
    }
    let ran = run_with_progress(env, notices, json, async |progress| {
        start::start(env, request, progress, stop_token).await
    })
    .await;
    // A session that was not stored cannot be resumed, so the hint does not apply.
    match persistence {
        Persistence::Home => ran,
        Persistence::Memory => ran.map_err(Failure::without_hint),
    }
}

/// The session that the options describe.
fn request(args: Args, spec: PathBuf) -> Result<Request, Failure> {
    if args.policy.is_given() && !args.auto_resume {
        let hint = "add `--resume` or `--auto-resume`";
        return Err(Failure::usage(
            "`--on-change`, `--in-flight` and `--yes` apply only to a session that is resumed",
            Some(hint.into()),
        ));
    }
    let workspace = workspace()?;
    Ok(Request {
        spec: workspace.join(spec),
        variables: variables(args.variables)?,
        name: args.name,
        out: workspace.join(args.out),
        workspace,
        force: args.force,
    })
}

/// Hands the session to a worker, and shows its run unless the user wants only that.
async fn hand_over(mut args: Args, env: &Env, context: &Context) -> Result<ExitCode, Failure> {
    refuse_permissions(context, &args.policy)?;
    let (json, detach) = (args.json, args.detach);
    let (policy, auto_resume) = (args.policy.clone(), args.auto_resume);
    let resumed = match (args.spec.take(), args.resume.take()) {
        (Some(spec), _) => {
            let request = request(args, spec)?;
            let unfinished = if auto_resume {
                resume::unfinished(env, &request).await?
            } else {
                None
            };
            let Some(summary) = unfinished else {
                let notice = |message: &str| stderr_line(message);
                let control = context.control(env, user());
                let summary = control.submit(request, &notice).await?;
                if !detach {
                    let start = Head::genesis(summary.id);
                    return follow::until_stopped(env, &summary, start, json).await;
                }
                worker::print_pending(context, &summary, json).await?;
                return Ok(ExitCode::SUCCESS);
            };
            summary
        }
        (None, reference) => sessions::find(env, &reference.unwrap_or_default()).await?,
    };
    let decisions = policy.unknown.decisions(env)?;
    let wanted = (policy.run_options(), &*decisions);
    request_run(env, context, &resumed, wanted, detach, json).await
}

/// Asks a worker to run a session, and shows the run unless the user wants only that.
pub(crate) async fn request_run(
    env: &Env,
    context: &Context,
    summary: &Summary,
    wanted: (RunOptions, &[Decision]),
    detach: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let control = context.control(env, user());
    if !detach {
        return follow::run(env, &*control, summary, wanted, json).await;
    }
    let (options, decisions) = wanted;
    let summary = control.request_run(summary, options, decisions).await?;
    worker::print_pending(context, &summary, json).await?;
    Ok(ExitCode::SUCCESS)
}

/// What agents may do is decided where they run.
pub(crate) fn refuse_permissions(context: &Context, policy: &Policy) -> Result<(), Failure> {
    if context.remote.is_none() || policy.permissions.is_none() {
        return Ok(());
    }
    let command = "run --permissions".to_owned();
    Err(remote::Error::OnlyHere { command }.into())
}

/// Who asks, for the journal.
pub(crate) fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "a user".to_owned())
}

fn variables(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = BTreeMap::new();
    for (name, value) in given {
        if variables.insert(name.clone(), value).is_some() {
            return Err(Failure::usage(
                format!("variable `{name}` is given twice"),
                None,
            ));
        }
    }
    Ok(variables)
}

/// How long a process that ends delivers notices.
pub(crate) const NOTICE_LIMIT: Duration = Duration::from_secs(3);

/// Runs a session with a progress display, prints its result, and sends its notices.
pub(crate) async fn run_with_progress<E: Diagnose + 'static>(
    env: &Env,
    notices: &Notices,
    json: bool,
    run: impl AsyncFnOnce(Arc<dyn Observer>) -> Result<Outcome, E>,
) -> Result<ExitCode, Failure> {
    let progress = Arc::new(Progress::new(json, Arc::clone(&env.clock)));
    let observer = notices.observe(Arc::clone(&progress) as _, Origin::User);
    let outcome = tokio::select! {
        outcome = Box::pin(run(observer)) => outcome,
        () = Arc::clone(&progress).animate_forever() => unreachable!("it never ends"),
    };
    progress.clear();
    if let Ok(outcome) = &outcome {
        print_outcome(&progress, outcome, json);
    }
    notices.finish(NOTICE_LIMIT).await;
    outcome?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print_outcome(progress: &Progress, outcome: &Outcome, json: bool) {
    progress.finish(outcome);
    if !json {
        print_result(&outcome.output);
    }
}

/// Turns signals into stop requests: the first Ctrl-C stops after the step, the second immediately,
/// the third exits the process; SIGTERM and SIGHUP stop immediately.
pub(crate) fn watch_signals() -> StopToken {
    let stop_token = StopToken::default();
    let token = stop_token.clone();
    let streams = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    if let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = streams {
        tokio::spawn(async move {
            let mut interrupts = 0;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {
                        interrupts += 1;
                        match interrupts {
                            1 => {
                                stderr_line(&format!(
                                    "stopping after {}; Ctrl-C again stops immediately",
                                    token.stops_after()
                                ));
                                token.request_stop(Stop::request("Ctrl-C", StopMode::Boundary, Status::Paused));
                            }
                            2 => token.request_stop(Stop::request("Ctrl-C", StopMode::Now, Status::Paused)),
                            _ => {
                                restore_terminal();
                                std::process::exit(130);
                            }
                        }
                    }
                    _ = terminate.recv() => token.request_stop(Stop::shutdown("SIGTERM", Trigger::Shutdown)),
                    _ = hangup.recv() => token.request_stop(Stop::shutdown("SIGHUP", Trigger::Detach)),
                }
            }
        });
    }
    stop_token
}
