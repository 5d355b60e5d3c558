//! `segno fork`: copies a session, or a part of it, into a new one.

use std::path::PathBuf;
use std::process::ExitCode;

use segno_core::id::Name;
use segno_core::journal::RunOptions;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_sessions as sessions;
use segno_sessions::checkpoint;
use segno_sessions::control::Control;
use segno_sessions::fork::{ForkPoint, Forked, Request, TargetFolder};
use segno_sessions::json as shapes;
use segno_sessions::resume::{self, Options};

use crate::commands::checkpoint::progress;
use crate::commands::follow;
use crate::commands::run::{name, run_with_progress, watch_signals};
use crate::context::{Context, Persistence, notices, workspace};
use crate::failure::Failure;
use crate::machine::human;
use crate::output::progress::spent;
use crate::output::{json_line, stdout_line, text};

/// Fork a session into a new one.
///
/// Finished steps are copied with their results and not run again. An interrupted agent continues
/// in a conversation of the fork's own. With `--from CHECKPOINT`, the fork starts from that
/// checkpoint, with its files in a new folder; with `--before STEP`, only steps that had finished
/// before STEP first started are copied. The fork is paused; the original session is unchanged.
/// Edit the spec before resuming to take another direction.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    session: String,
    /// Fork at this checkpoint, with its files: its id, or a suffix of it
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<String>,
    /// First step to run again, as named by `segno show` [default: the first unfinished]
    #[arg(long, value_name = "STEP", conflicts_with_all = ["from", "into"])]
    before: Option<String>,
    /// Folder for the files of the checkpoint; without `--from`, a checkpoint is taken now
    /// [default: a new folder next to the session's]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// Name of the fork [default: the session's name with `-fork`, numbered]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Folder for artifacts [default: as the session]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Resume the fork immediately
    #[arg(long)]
    run: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (mut env, config) = context.env(Persistence::Home)?;
    let summary = sessions::find(&env, &args.session).await?;
    let here = workspace()?;
    let part = match args.before {
        Some(step) => ForkPoint::Before(step),
        None => part_to_copy(&env, args.from.as_deref(), args.into, TargetFolder::Beside).await?,
    };
    let request = Request {
        point: part,
        name: args.name,
        out: args.out.map(|out| here.join(out)),
    };
    let user = std::env::var("USER").unwrap_or_else(|_| "segno fork".into());
    let control = context.control(&env, user);
    let copy = fork_session(&env, &*control, &summary, request, args.json).await?;
    if !args.run {
        if !args.json {
            stdout_line(&format!("resume it with `segno resume {}`", copy.name));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if context.remote.is_some() {
        let wanted = (RunOptions::default(), &[][..]);
        return follow::run(&env, &*control, &copy, wanted, args.json).await;
    }
    env.human = human::at_terminal(args.json);
    let stop_token = watch_signals();
    let notices = notices(&env, &config);
    run_with_progress(&env, &notices, args.json, async |progress| {
        resume::resume(&env, copy, Options::default(), progress, stop_token).await
    })
    .await
}

/// Determines what to copy: up to the checkpoint if one is given, else everything. The files go
/// into the given folder if there is one, else to `place`.
pub(crate) async fn part_to_copy(
    env: &Env,
    from: Option<&str>,
    into: Option<PathBuf>,
    place: TargetFolder,
) -> Result<ForkPoint, Failure> {
    let into = match into {
        Some(folder) => Some(workspace()?.join(folder)),
        None => None,
    };
    Ok(match (from, into) {
        (Some(reference), into) => {
            let manifest = checkpoint::find(env, reference).await?;
            ForkPoint::AtCheckpoint(Box::new(manifest), into.map_or(place, TargetFolder::Into))
        }
        (None, Some(folder)) => ForkPoint::CopyInto(folder),
        (None, None) => ForkPoint::All,
    })
}

/// Forks the session and prints the result.
pub(crate) async fn fork_session(
    env: &Env,
    control: &dyn Control,
    summary: &Summary,
    request: Request,
    json: bool,
) -> Result<Summary, Failure> {
    let progress = progress(env, "copying");
    let forked = control.fork(summary, request, &progress).await?;
    drop(progress);
    if json {
        json_line(&shapes::forked(summary.id, &forked));
    } else {
        print_result(summary, &forked);
    }
    Ok(forked.summary)
}

fn print_result(summary: &Summary, forked: &Forked) {
    let copy = &forked.summary;
    let spent = match spent(&forked.usage).as_str() {
        "" => String::new(),
        spent => format!(" ({spent})"),
    };
    stdout_line(&format!(
        "forked {} into {} ({}), {}: {} done{spent}",
        summary.name,
        copy.name,
        copy.id,
        copy.status,
        text::count(forked.steps, "step")
    ));
    if let Some(checkpoint) = forked.checkpoint {
        stdout_line(&format!(
            "restored the files of checkpoint {checkpoint} to {}",
            text::sanitize(&copy.workspace)
        ));
    }
    if let Some(rescue) = forked.rescue {
        stdout_line(&format!(
            "saved the previous files: `segno checkpoint restore {rescue}` restores them"
        ));
    }
    if !forked.set_aside.is_empty() {
        stdout_line(&format!(
            "disarmed, because they could start programs: {}",
            text::sanitize(&forked.set_aside.join(", "))
        ));
    }
}
