//! `segno cancel`: ends a session for good, running or not.

use std::process::ExitCode;
use std::sync::Arc;

use segno_core::journal::StopMode;
use segno_engine::cancel::{self, Cancelled};
use segno_engine::observe::NoObserver;
use segno_engine::sessions;
use serde_json::json;

use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line};

/// Cancel a session permanently.
///
/// A running session stops after the current step, or after the current task of a plan; with
/// `--now` its agent is killed immediately. A cancelled session cannot be resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    session: String,
    /// Do not wait for the current step
    #[arg(long)]
    now: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let summary = sessions::find(&env, &args.session).await?;
    let mode = if args.now {
        StopMode::Now
    } else {
        StopMode::Boundary
    };
    let by = format!("segno cancel (process {})", std::process::id());
    let cancelled = cancel::cancel(&env, &summary, mode, &by, Arc::new(NoObserver)).await?;
    let (word, sentence) = match (cancelled, mode) {
        (Cancelled::Done, _) => ("cancelled", "is cancelled"),
        (Cancelled::Requested, StopMode::Boundary) => (
            "told",
            "was told, and stops after the step in flight, in a plan after the task",
        ),
        (Cancelled::Requested, StopMode::Now) => ("told", "was told, and stops at once"),
    };
    if args.json {
        json_line(&json!({"v": 1, "kind": word, "session": summary.id, "name": summary.name}));
    } else {
        stdout_line(&format!("{} ({}) {sentence}", summary.name, summary.id));
    }
    Ok(ExitCode::SUCCESS)
}
