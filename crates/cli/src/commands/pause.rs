//! `segno pause`: pauses a running session and waits until it is paused.

use std::process::ExitCode;

use segno_core::journal::StopMode;
use segno_core::session::Status;
use segno_core::store::Summary;
use segno_engine::{Env, history};
use segno_sessions as sessions;
use segno_sessions::pause::{self, Paused, Request, Requested};
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
    let request = Request {
        mode: if args.force {
            StopMode::Now
        } else {
            StopMode::Boundary
        },
        by: format!("segno pause (process {})", std::process::id()),
        reason: args.reason,
    };
    let request_sent = match pause::request(&env, &summary, request).await? {
        Requested::Sent(sent) => sent,
        Requested::Withdrawn(summary) => {
            let paused = Paused {
                summary: *summary,
                checkpoint: None,
            };
            return print_result(&env, paused, args.json).await;
        }
    };
    if args.no_wait {
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
    }
    if !args.json && !args.force {
        print_awaited(&env, &summary).await?;
    }
    let paused = pause::wait(&env, &summary, &request_sent).await?;
    print_result(&env, paused, args.json).await
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

async fn print_result(env: &Env, paused: Paused, json: bool) -> Result<ExitCode, Failure> {
    let Paused {
        summary,
        checkpoint,
    } = paused;
    let state = history::load_state(env, summary.id).await?;
    let (checkpoint_id, problem) = match checkpoint {
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
            "checkpoint": checkpoint_id,
            "problem": problem,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let done = count(state.finished, "step");
    stdout_line(&format!(
        "{} ({}) is {}, with {done} done",
        summary.name, summary.id, summary.status
    ));
    if let Some(checkpoint_id) = checkpoint_id {
        stdout_line(&format!("checkpoint {checkpoint_id}"));
    }
    if let Some(problem) = problem {
        stderr_line(&format!("no checkpoint: {}", sanitize(&problem)));
    }
    if summary.status == Status::Paused {
        stderr_line(&format!("resume it with `segno resume {}`", summary.name));
    }
    Ok(ExitCode::SUCCESS)
}
