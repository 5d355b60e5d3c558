use std::path::PathBuf;
use std::process::ExitCode;

use segno_core::id::Name;
use segno_engine::fork::{self, Request};
use segno_engine::resume::{self, Options};
use segno_engine::sessions;
use serde_json::json;

use crate::commands::run::{conduct, name, watch_signals};
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::machine::people;
use crate::output::{data, json_line, plain, progress};

/// Make a new session out of what another has finished.
///
/// Finished steps are copied with their answers and not run again. With `--from STEP`, only those that
/// had finished before STEP was first begun. The copy stands as paused, the other session stays as it
/// is. Edit the spec in between, and the copy goes another way.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// The first step to run again, as `sessions show` names it [default: the first unfinished]
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
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
    let request = Request {
        before: args.from,
        name: args.name,
        out: args.out.map(|out| here.join(out)),
    };
    let forked = fork::fork(&world, &summary, request).await?;
    let copy = forked.summary;
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "forked",
            "session": copy.id,
            "name": copy.name,
            "status": copy.status,
            "from": summary.id,
            "steps_finished": forked.steps,
        }));
    } else {
        let spent = match progress::spent(&forked.usage).as_str() {
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
    }
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
