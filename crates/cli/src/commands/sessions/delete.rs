use std::process::ExitCode;

use segno_engine::sessions;
use serde_json::json;

use super::confirm;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Delete a session with its journal. This cannot be undone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = sessions::find(&world, &args.session).await?;
    let what = format!(
        "{} ({}), {}, {} journal entries",
        summary.name,
        summary.id,
        summary.status,
        plain::number(summary.head.seq.0)
    );
    let deleted = !args.dry_run && confirm(&what, args.yes)?;
    if deleted {
        sessions::delete(&world, &summary).await?;
    }
    if args.json {
        json_line(
            &json!({"v": 1, "kind": "deletion", "session": summary.id, "name": summary.name, "deleted": deleted}),
        );
    } else {
        data(&format!(
            "{} {what}",
            match (deleted, args.dry_run) {
                (true, _) => "deleted",
                (_, true) => "would delete",
                _ => "kept",
            }
        ));
    }
    Ok(ExitCode::SUCCESS)
}
