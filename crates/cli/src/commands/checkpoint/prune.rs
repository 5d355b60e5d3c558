use std::process::ExitCode;
use std::time::Duration;

use segno_engine::checkpoint::{self, Retention};
use serde_json::json;

use super::shape;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Let go of old checkpoints: of each session all but the newest, and those that are too old.
///
/// The newest checkpoint of a session always stays, and so do those of how it ended (`complete`) and
/// how it went wrong (`error`). `segno gc` then frees the room.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many of each session stay [default: 10, or `checkpoints.keep` in config.toml]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// For how many days [default: 7, or `checkpoints.max_age_days` in config.toml]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(0..=36_500))]
    max_age_days: Option<u64>,
    /// Only tell which would go
    #[arg(long)]
    dry_run: bool,
    /// Print them as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let days = |days| Duration::from_hours(days * 24);
    let retention = Retention {
        count: args.keep.unwrap_or(world.retention.count),
        age: args.max_age_days.map_or(world.retention.age, days),
    };
    let (outdated, all) = checkpoint::outdated(&world, None, retention).await?;
    if !args.dry_run {
        checkpoint::forget(&world, &outdated).await?;
    }
    if args.json {
        let kind = if args.dry_run {
            "would_prune"
        } else {
            "pruned"
        };
        outdated
            .iter()
            .for_each(|manifest| json_line(&shape(kind, manifest)));
        json_line(
            &json!({"v": 1, "kind": "prune", "checkpoints": outdated.len(), "left": all - outdated.len(), "dry_run": args.dry_run}),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if args.dry_run {
        "would let go of"
    } else {
        "let go of"
    };
    for manifest in &outdated {
        data(&format!(
            "{verb} {} ({}, {})",
            manifest.id, manifest.trigger, manifest.at
        ));
    }
    let then = if args.dry_run || outdated.is_empty() {
        ""
    } else {
        "; `segno gc` frees the room"
    };
    data(&format!(
        "{verb} {} of {}{then}",
        plain::number(outdated.len() as u64),
        plain::count(all as u64, "checkpoint")
    ));
    Ok(ExitCode::SUCCESS)
}
