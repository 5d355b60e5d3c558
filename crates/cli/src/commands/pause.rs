use std::process::ExitCode;

use segno_core::journal::StopMode;
use segno_core::session::{Status, Summary};
use segno_engine::pause::{self, Paused, Request};
use segno_engine::{World, history, sessions, work};
use serde_json::json;

use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::plain::{count, plain};
use crate::output::{data, json_line, say};

/// Pause a session that is being run, wherever it runs.
///
/// It stops when the step in flight has ended, in a plan when the task has, or at once if that takes
/// longer than the spec allows (`continuity.pause.within_s`, five minutes), and a checkpoint is taken.
/// `segno resume` goes on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either [default: the one that is being
    /// run in this folder]
    session: Option<String>,
    /// Why, for whoever goes on
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not wait for the step in flight: its agent is ended, and goes on where it was
    #[arg(long)]
    now: bool,
    /// Only tell it, and do not wait until it is paused
    #[arg(long)]
    no_wait: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = match &args.session {
        Some(reference) => sessions::find(&world, reference).await?,
        None => pause::running(&world, &workspace()?).await?,
    };
    let request = Request {
        mode: if args.now {
            StopMode::Now
        } else {
            StopMode::Boundary
        },
        by: format!("segno pause (process {})", std::process::id()),
        reason: args.reason,
    };
    let told = pause::ask(&world, &summary, request).await?;
    if args.no_wait {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "told", "session": summary.id, "name": summary.name}),
            );
        } else {
            data(&format!("{} ({}) was told", summary.name, summary.id));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.json && !args.now {
        waits(&world, &summary).await?;
    }
    let paused = pause::wait(&world, &summary, &told).await?;
    show(&world, paused, args.json).await
}

/// Says what is waited for.
async fn waits(world: &World, summary: &Summary) -> Result<(), Failure> {
    let task = work::plan(world, summary)
        .await?
        .and_then(|plan| plan.current);
    let awaited = if let Some(task) = task {
        format!("task {task} has ended")
    } else {
        let state = history::look(world, summary.id).await?;
        let steps = state.in_flight().map(|(path, _)| path.to_string());
        let steps = steps.collect::<Vec<_>>().join(", ");
        if steps.is_empty() {
            return Ok(());
        }
        format!("the step in flight has ended ({steps})")
    };
    say(&format!(
        "it stops when {awaited}; `segno pause {} --now` does not wait",
        summary.name
    ));
    Ok(())
}

async fn show(world: &World, paused: Paused, json: bool) -> Result<ExitCode, Failure> {
    let Paused {
        summary,
        checkpoint,
    } = paused;
    let state = history::look(world, summary.id).await?;
    let (kept, problem) = match checkpoint {
        Some(Ok(manifest)) => (Some(manifest.id), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    let stopped = state.stopped.as_ref();
    let reason = stopped.and_then(|stopped| stopped.reason.as_deref());
    if json {
        json_line(&json!({
            "v": 1,
            "kind": "paused",
            "session": summary.id,
            "name": summary.name,
            "status": summary.status,
            "reason": reason,
            "steps_finished": state.finished,
            "checkpoint": kept,
            "problem": problem,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let done = count(state.finished, "step");
    data(&format!(
        "{} ({}) is {}, with {done} done",
        summary.name, summary.id, summary.status
    ));
    if let Some(kept) = kept {
        data(&format!("checkpoint {kept}"));
    }
    if let Some(problem) = problem {
        say(&format!("there is no checkpoint: {}", plain(&problem)));
    }
    if summary.status == Status::Paused {
        say(&format!("`segno resume {}` goes on", summary.name));
    }
    Ok(ExitCode::SUCCESS)
}
