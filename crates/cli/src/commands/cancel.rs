//! `segno cancel`: ends a session permanently, running or not.

use std::process::ExitCode;

use segno_core::journal::StopMode;
use segno_sessions as sessions;
use segno_sessions::cancel::Cancelled;
use serde_json::json;

use crate::commands::run::NOTICE_LIMIT;
use crate::context::{Context, Persistence, notices};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line};

/// Cancel a session permanently.
///
/// A running session stops after the current step, or after the current task of a plan; with
/// `--force` its agent is killed immediately. A cancelled session cannot be resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    #[arg(required_unless_present = "workflow_id")]
    session: Option<String>,
    /// Same as SESSION
    #[arg(short, long, value_name = "SESSION", conflicts_with = "session")]
    workflow_id: Option<String>,
    /// Do not wait for the current step
    #[arg(long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let reference = args.session.as_ref().or(args.workflow_id.as_ref());
    let reference = reference.map_or("", String::as_str);
    let summary = sessions::find(&env, reference).await?;
    let mode = if args.force {
        StopMode::Now
    } else {
        StopMode::Boundary
    };
    let by = format!("segno cancel (process {})", std::process::id());
    let cancelled = context.control(&env, by).cancel(&summary, mode).await?;
    let notices = notices(&env, &config);
    if cancelled == Cancelled::Done {
        // A run that is asked to stop reports its end itself.
        notices.report_since(&summary).await;
    }
    let (word, sentence) = match (cancelled, mode) {
        (Cancelled::Done, _) => ("cancelled", "is cancelled"),
        (Cancelled::Requested, StopMode::Boundary) => (
            "requested",
            "stops after the current step, or after the current task of a plan",
        ),
        (Cancelled::Requested, StopMode::Now) => ("requested", "stops immediately"),
    };
    if args.json {
        json_line(&json!({"v": 1, "kind": word, "session": summary.id, "name": summary.name}));
    } else {
        stdout_line(&format!("{} ({}) {sentence}", summary.name, summary.id));
    }
    notices.finish(NOTICE_LIMIT).await;
    Ok(ExitCode::SUCCESS)
}
