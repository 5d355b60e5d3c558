use std::path::PathBuf;
use std::process::ExitCode;

use segno_core::id::Name;
use segno_core::session::Summary;
use segno_engine::fork::{self, Forked, Part, Place, Request};
use segno_engine::resume::{self, Options};
use segno_engine::{World, checkpoint, sessions};
use serde_json::json;

use crate::commands::checkpoint::progress;
use crate::commands::run::{conduct, name, watch_signals};
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::machine::people;
use crate::output::progress::spent;
use crate::output::{data, json_line, plain};

/// Make a new session out of what another has done.
///
/// Finished steps are copied with their answers and not run again. What an agent is in the middle of
/// goes on in a conversation of the copy's own. With `--from CHECKPOINT` the copy is as the session was
/// then, with the files of that moment in a new folder; with `--before STEP`, only what had finished
/// before STEP was first begun is copied. The copy stands as paused, the other session stays as it is.
/// Edit the spec in between, and the copy goes another way.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// The checkpoint to go on from, with its files: its id, or the end of it
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<String>,
    /// The first step to run again, as `sessions show` names it [default: the first unfinished]
    #[arg(long, value_name = "STEP", conflicts_with_all = ["from", "into"])]
    before: Option<String>,
    /// The folder for the files of the checkpoint; without `--from`, one is taken now [default: a new one
    /// beside the session's]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// What to call the copy [default: the session's name with `-fork`, numbered]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Where its artifacts go [default: where those of the session go]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Go on with the copy at once
    #[arg(long)]
    run: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (mut world, _) = context.world(Keep::Home)?;
    let summary = sessions::find(&world, &args.session).await?;
    let here = workspace()?;
    let part = match args.before {
        Some(step) => Part::Before(step),
        None => part(&world, args.from.as_deref(), args.into, Place::Beside).await?,
    };
    let request = Request {
        part,
        name: args.name,
        out: args.out.map(|out| here.join(out)),
    };
    let copy = make(&world, &summary, request, args.json).await?;
    if !args.run {
        if !args.json {
            data(&format!("`segno resume {}` goes on", copy.name));
        }
        return Ok(ExitCode::SUCCESS);
    }
    world.people = people::here(args.json);
    let brake = watch_signals();
    conduct(&world, args.json, async |progress| {
        resume::resume(&world, copy, Options::default(), progress, brake).await
    })
    .await
}

/// What is copied: up to a checkpoint if one is named, whose files go into a folder if one is named, and
/// else to their place.
pub(crate) async fn part(
    world: &World,
    from: Option<&str>,
    into: Option<PathBuf>,
    place: Place,
) -> Result<Part, Failure> {
    let into = match into {
        Some(folder) => Some(workspace()?.join(folder)),
        None => None,
    };
    Ok(match (from, into) {
        (Some(reference), into) => {
            let manifest = checkpoint::find(world, reference).await?;
            Part::Until(Box::new(manifest), into.map_or(place, Place::Into))
        }
        (None, Some(folder)) => Part::Apart(folder),
        (None, None) => Part::All,
    })
}

/// Makes the copy, and says so.
pub(crate) async fn make(
    world: &World,
    summary: &Summary,
    request: Request,
    json: bool,
) -> Result<Summary, Failure> {
    let progress = progress(world, "copying");
    let forked = fork::fork(world, summary, request, &progress).await?;
    drop(progress);
    if json {
        json_line(&json!({
            "v": 1,
            "kind": "forked",
            "session": forked.summary.id,
            "name": forked.summary.name,
            "status": forked.summary.status,
            "from": summary.id,
            "steps_finished": forked.steps,
            "checkpoint": forked.checkpoint,
            "workspace": forked.summary.workspace,
            "rescue": forked.rescue,
            "set_aside": forked.set_aside,
        }));
    } else {
        tell(summary, &forked);
    }
    Ok(forked.summary)
}

fn tell(summary: &Summary, forked: &Forked) {
    let copy = &forked.summary;
    let spent = match spent(&forked.usage).as_str() {
        "" => String::new(),
        spent => format!(" ({spent})"),
    };
    data(&format!(
        "forked {} into {} ({}), {}: {} done{spent}",
        summary.name,
        copy.name,
        copy.id,
        copy.status,
        plain::count(forked.steps, "step")
    ));
    if let Some(checkpoint) = forked.checkpoint {
        data(&format!(
            "its files are those of checkpoint {checkpoint}, in {}",
            plain::plain(&copy.workspace)
        ));
    }
    if let Some(rescue) = forked.rescue {
        data(&format!(
            "what was there before is kept: `segno checkpoint restore {rescue}` brings it back"
        ));
    }
    if !forked.set_aside.is_empty() {
        data(&format!(
            "could start a program, and got another name: {}",
            plain::plain(&forked.set_aside.join(", "))
        ));
    }
}
