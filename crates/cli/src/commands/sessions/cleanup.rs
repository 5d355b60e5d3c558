use std::process::ExitCode;
use std::time::Duration;

use segno_engine::sessions;
use serde_json::json;

use super::confirm;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Delete old sessions that are over. This cannot be undone.
///
/// Completed sessions are kept unless `--completed` is given, and sessions that can still go on are
/// kept unless `--unfinished` is. What is running is never deleted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How old the last entry must be [default: 7, or as config.toml says]
    #[arg(long, value_name = "DAYS")]
    max_age_days: Option<u64>,
    /// Completed ones, too
    #[arg(long)]
    completed: bool,
    /// Paused, interrupted and failed ones, too
    #[arg(long)]
    unfinished: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON, one line per session
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, config) = context.world(Keep::Home)?;
    let age = args.max_age_days.map_or(config.cleanup_age, |days| {
        Duration::from_secs(days.saturating_mul(86_400))
    });
    let keep_completed = config.keep_completed && !args.completed;
    let old = sessions::outdated(&world, age, keep_completed, args.unfinished).await?;
    let count = plain::count(old.len() as u64, "session");
    if !args.json {
        for listed in &old {
            data(&format!(
                "{} ({}), {}, last entry {}",
                listed.summary.name, listed.summary.id, listed.standing, listed.summary.updated_at
            ));
        }
    }
    let delete = !args.dry_run && !old.is_empty() && confirm(&count, args.yes)?;
    for listed in &old {
        if delete {
            sessions::delete(&world, &listed.summary).await?;
        }
        if args.json {
            let summary = &listed.summary;
            json_line(
                &json!({"v": 1, "kind": "deletion", "session": summary.id, "name": summary.name, "deleted": delete}),
            );
        }
    }
    if !args.json {
        data(&match (old.is_empty(), delete, args.dry_run) {
            (true, ..) => "nothing is old enough to be deleted".to_owned(),
            (_, true, _) => format!("deleted {count}"),
            (_, _, true) => format!("would delete {count}"),
            _ => format!("kept {count}"),
        });
    }
    Ok(ExitCode::SUCCESS)
}
