use std::process::ExitCode;
use std::sync::Arc;

use segno_core::journal::StopMode;
use segno_engine::cancel::{self, Cancelled};
use segno_engine::observe::Quiet;
use segno_engine::sessions;
use serde_json::json;

use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line};

/// Give a session up. It cannot be resumed afterwards.
///
/// If it is running, its run stops after the step in flight, in a plan after the task; `--now` ends
/// the agent at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// Do not wait for the step in flight
    #[arg(long)]
    now: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = sessions::find(&world, &args.session).await?;
    let mode = if args.now {
        StopMode::Now
    } else {
        StopMode::Boundary
    };
    let by = format!("segno cancel (process {})", std::process::id());
    let cancelled = cancel::cancel(&world, &summary, mode, &by, Arc::new(Quiet)).await?;
    let (word, sentence) = match (cancelled, mode) {
        (Cancelled::Done, _) => ("cancelled", "is cancelled"),
        (Cancelled::Told, StopMode::Boundary) => (
            "told",
            "was told, and stops after the step in flight, in a plan after the task",
        ),
        (Cancelled::Told, StopMode::Now) => ("told", "was told, and stops at once"),
    };
    if args.json {
        json_line(&json!({"v": 1, "kind": word, "session": summary.id, "name": summary.name}));
    } else {
        data(&format!("{} ({}) {sentence}", summary.name, summary.id));
    }
    Ok(ExitCode::SUCCESS)
}
