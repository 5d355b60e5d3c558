//! `segno pause`: pauses a running session and waits until it is paused.

use std::process::ExitCode;

use segno_core::id::CheckpointId;
use segno_core::journal::StopMode;
use segno_core::session::Status;
use segno_core::store::Summary;
use segno_engine::{Env, history};
use segno_sessions as sessions;
use segno_sessions::control::{Pause, PauseOutcome};
use segno_sessions::pause;
use segno_sessions::work;
use serde_json::json;

use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::text::{count, sanitize};
use crate::output::{json_line, stderr_line, stdout_line};

/// Pause a running session, whichever process runs it.
///
/// The session stops after the current step, or after the current task of a plan, and takes a
/// checkpoint. If that takes longer than the spec allows (`continuity.pause.within_s`, five
/// minutes), it stops immediately. Use `segno resume` to continue.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the running session in this folder]
    session: Option<String>,
    /// Same as SESSION
    #[arg(short, long, value_name = "SESSION", conflicts_with = "session")]
    workflow_id: Option<String>,
    /// Reason for the pause, shown on resume
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not wait for the current step: kill its agent, which is resumed later
    #[arg(long)]
    force: bool,
    /// Only request the pause, without waiting for it
    #[arg(long)]
    no_wait: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let summary = match args.session.as_ref().or(args.workflow_id.as_ref()) {
        Some(reference) => sessions::find(&env, reference).await?,
        None => pause::running(&env, &workspace()?).await?,
    };
    let wait = !args.no_wait;
    if wait && !args.json && !args.force {
        print_awaited(&env, &summary).await?;
    }
    let request = Pause {
        mode: if args.force {
            StopMode::Now
        } else {
            StopMode::Boundary
        },
        reason: args.reason,
        wait,
    };
    let by = format!("segno pause (process {})", std::process::id());
    let control = context.control(&env, by);
    let PauseOutcome::Stopped {
        status,
        checkpoint,
        problem,
    } = control.pause(&summary, request).await?
    else {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "requested", "session": summary.id, "name": summary.name}),
            );
        } else {
            stdout_line(&format!(
                "requested a pause of {} ({})",
                summary.name, summary.id
            ));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let paused = Stopped {
        status,
        checkpoint,
        problem,
    };
    print_result(&env, &summary, paused, args.json).await
}

/// How a session stopped.
struct Stopped {
    status: Status,
    checkpoint: Option<CheckpointId>,
    problem: Option<String>,
}

/// Prints what the pause waits for.
async fn print_awaited(env: &Env, summary: &Summary) -> Result<(), Failure> {
    let task = work::plan(env, summary)
        .await?
        .and_then(|plan| plan.current);
    let awaited = if let Some(task) = task {
        format!("task {task}")
    } else {
        let state = history::load_state(env, summary.id).await?;
        let steps = state.in_flight().map(|(path, _)| path.to_string());
        let steps = steps.collect::<Vec<_>>().join(", ");
        if steps.is_empty() {
            return Ok(());
        }
        format!("the current step ({steps})")
    };
    stderr_line(&format!(
        "stopping after {awaited}; `segno pause {} --force` stops immediately",
        summary.name
    ));
    Ok(())
}

async fn print_result(
    env: &Env,
    summary: &Summary,
    paused: Stopped,
    json: bool,
) -> Result<ExitCode, Failure> {
    let Stopped {
        status,
        checkpoint,
        problem,
    } = paused;
    let state = history::load_state(env, summary.id).await?;
    let stopped = state.stopped.as_ref();
    let reason = stopped.and_then(|stopped| stopped.reason.as_deref());
    if json {
        json_line(&json!({
            "v": 1,
            "kind": "paused",
            "session": summary.id,
            "name": summary.name,
            "status": status,
            "reason": reason,
            "steps_finished": state.finished,
            "checkpoint": checkpoint,
            "problem": problem,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let done = count(state.finished, "step");
    stdout_line(&format!(
        "{} ({}) is {status}, with {done} done",
        summary.name, summary.id
    ));
    if let Some(checkpoint) = checkpoint {
        stdout_line(&format!("checkpoint {checkpoint}"));
    }
    if let Some(problem) = problem {
        stderr_line(&format!("no checkpoint: {}", sanitize(&problem)));
    }
    if status == Status::Paused {
        stderr_line(&format!("resume it with `segno resume {}`", summary.name));
    }
    Ok(ExitCode::SUCCESS)
}
