use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use segno_agents::program::Permissions;
use segno_core::checkpoint::Trigger;
use segno_core::id::Name;
use segno_core::journal::{InFlight, OnChange, StopMode};
use segno_core::session::Status;
use segno_engine::resume::Options;
use segno_engine::start::{self, Request};
use segno_engine::{Brake, Outcome, Stop, World, resume, sessions};
use std::io::{IsTerminal, stdout};
use tokio::signal::unix::{SignalKind, signal};

use super::resume::PermissionsArg;
use super::sessions::cleanup;
use crate::config::Config;
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::machine::people;
use crate::output::progress::Progress;
use crate::output::{data, plain, say};

/// Run a workflow.
///
/// Every step's result is on the disk before the next step begins. If the run is killed, `segno
/// resume` goes on with the first unfinished step. Ctrl-C stops after the step in flight, a second
/// Ctrl-C at once; both can be resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The workflow's spec, YAML or JSON
    #[arg(required_unless_present = "resume")]
    spec: Option<PathBuf>,
    /// Set a variable of the workflow (repeatable)
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// What to call the session [default: the workflow's name, numbered]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Go on with this session instead of starting one
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["spec", "variables", "name", "auto_resume", "no_save_session", "out", "force"])]
    resume: Option<String>,
    /// Go on with the newest unfinished session of this spec in this folder, if there is one
    #[arg(long, conflicts_with = "no_save_session")]
    auto_resume: bool,
    /// Keep nothing: what is killed is lost
    #[arg(long)]
    no_save_session: bool,
    #[command(flatten)]
    policy: Policy,
    /// Where artifacts go
    #[arg(long, value_name = "FOLDER", default_value = "artifacts")]
    out: PathBuf,
    /// Let artifacts replace files that this session did not write
    #[arg(long)]
    force: bool,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do when the world changed since the session last ran.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Policy {
    /// What to do about finished steps that an edited spec asks differently [default: warn]
    #[arg(long, value_enum, value_name = "POLICY")]
    on_change: Option<OnChangeArg>,
    /// What to do about a step that was in flight when its run was lost [default: as the spec says]
    #[arg(long, value_enum, value_name = "POLICY")]
    in_flight: Option<InFlightArg>,
    /// What agents' programs may do [default: as the settings say, else edit]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) permissions: Option<PermissionsArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnChangeArg {
    /// Say which, keep their results, go on with the edited spec
    Warn,
    /// Run them again
    Rerun,
    /// Refuse to go on
    Fail,
    /// Go on with the spec as it was
    Pinned,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum InFlightArg {
    /// Ask it again
    Repeat,
    /// Stop and let a person decide
    Stop,
}

impl Policy {
    fn is_given(self) -> bool {
        self.on_change.is_some() || self.in_flight.is_some()
    }

    pub(crate) fn options(self) -> Options {
        Options {
            on_change: match self.on_change {
                None | Some(OnChangeArg::Warn) => OnChange::Warn,
                Some(OnChangeArg::Rerun) => OnChange::Rerun,
                Some(OnChangeArg::Fail) => OnChange::Fail,
                Some(OnChangeArg::Pinned) => OnChange::Pinned,
            },
            in_flight: self.in_flight.map(|policy| match policy {
                InFlightArg::Repeat => InFlight::Repeat,
                InFlightArg::Stop => InFlight::Stop,
            }),
            ..Options::default()
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
    let keep = if args.no_save_session {
        Keep::Memory
    } else {
        Keep::Home
    };
    let permissions = args.policy.permissions.map(Permissions::from);
    let (mut world, config) = context.world_with(keep, permissions)?;
    world.people = people::here(args.json);
    let ran = Box::pin(play(args, keep, &world)).await;
    tidied(ran, &world, &config).await
}

/// Cleans up after a run, unless a person wants out.
pub(crate) async fn tidied(
    ran: Result<ExitCode, Failure>,
    world: &World,
    config: &Config,
) -> Result<ExitCode, Failure> {
    if !ran
        .as_ref()
        .is_err_and(|failure| matches!(failure.exit, 130 | 143))
    {
        cleanup::after_a_run(world, config).await;
    }
    ran
}

async fn play(args: Args, keep: Keep, world: &World) -> Result<ExitCode, Failure> {
    let brake = watch_signals();
    let Some(spec) = args.spec else {
        let reference = args.resume.unwrap_or_default();
        let summary = sessions::find(world, &reference).await?;
        let options = args.policy.options();
        return conduct(world, args.json, async |progress| {
            resume::resume(world, summary, options, progress, brake).await
        })
        .await;
    };
    if args.policy.is_given() && !args.auto_resume {
        let hint = "they say how to go on: use them with `--resume` or `--auto-resume`";
        return Err(Failure::usage(
            "a new session has nothing for `--on-change` or `--in-flight` to decide",
            Some(hint.into()),
        ));
    }
    let workspace = workspace()?;
    let request = Request {
        spec: workspace.join(spec),
        variables: variables(args.variables)?,
        name: args.name,
        out: workspace.join(args.out),
        workspace,
        force: args.force,
    };
    if args.auto_resume
        && let Some(summary) = resume::unfinished(world, &request).await?
    {
        say(&format!("going on with {} ({})", summary.name, summary.id));
        let options = args.policy.options();
        return conduct(world, args.json, async |progress| {
            resume::resume(world, summary, options, progress, brake).await
        })
        .await;
    }
    let ran = conduct(world, args.json, async |progress| {
        start::start(world, request, progress, brake).await
    })
    .await;
    // What was not kept cannot be resumed.
    match keep {
        Keep::Home => ran,
        Keep::Memory => ran.map_err(Failure::without_hint),
    }
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

/// Shows a run while it goes on, and its result when it is done.
pub(crate) async fn conduct(
    world: &World,
    json: bool,
    run: impl AsyncFnOnce(Arc<Progress>) -> Result<Outcome, segno_engine::Error>,
) -> Result<ExitCode, Failure> {
    let progress = Arc::new(Progress::new(json, Arc::clone(&world.clock)));
    let outcome = tokio::select! {
        outcome = run(Arc::clone(&progress)) => outcome,
        () = forever(Arc::clone(&progress)) => unreachable!("it never ends"),
    };
    progress.clear();
    let outcome = outcome?;
    progress.finish(&outcome);
    if !json {
        let text = if stdout().is_terminal() {
            plain::lines(&outcome.output)
        } else {
            outcome.output.clone()
        };
        data(&text);
    }
    Ok(ExitCode::SUCCESS)
}

async fn forever(progress: Arc<Progress>) {
    progress.animate().await;
    std::future::pending::<()>().await;
}

/// Turns signals into a stop: Ctrl-C after the step, again at once; SIGTERM and SIGHUP at once.
pub(crate) fn watch_signals() -> Brake {
    let brake = Brake::default();
    let pull = brake.clone();
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
                                say(&format!(
                                    "stopping after {}; Ctrl-C again stops at once",
                                    pull.last_piece()
                                ));
                                pull.pull(Stop::asked("Ctrl-C", StopMode::Boundary, Status::Paused));
                            }
                            2 => pull.pull(Stop::asked("Ctrl-C", StopMode::Now, Status::Paused)),
                            _ => std::process::exit(130),
                        }
                    }
                    _ = terminate.recv() => pull.pull(Stop::shutdown("SIGTERM", Trigger::Shutdown)),
                    _ = hangup.recv() => pull.pull(Stop::shutdown("SIGHUP", Trigger::Detach)),
                }
            }
        });
    }
    brake
}
