use std::process::ExitCode;
use std::time::Duration;

use segno_core::checkpoint::Manifest;
use segno_engine::World;
use segno_engine::retention::{self, Retention};
use serde_json::json;

use super::shape;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Let go of old checkpoints: of each session all but the newest, and those that are too old.
///
/// The newest checkpoint of a session always stays, and so do those of how it ended (`complete`) and
/// how it went wrong (`error`). What was let go of can be had back with `--undo` for 7 days
/// (`trash.keep_days` in config.toml); then `segno gc` frees the room.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many of each session stay [default: 10, or `checkpoints.keep` in config.toml]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// For how many days [default: 7, or `checkpoints.max_age_days` in config.toml]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(0..=36_500))]
    max_age_days: Option<u64>,
    /// Have those back that were let go of: all, or the one with this id
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["keep", "max_age_days"])]
    undo: Option<String>,
    /// Only tell which would go
    #[arg(long)]
    dry_run: bool,
    /// Print them as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is done, in the words of both audiences: kind, would-kind, verb, would-verb.
struct Words {
    kind: [&'static str; 2],
    verb: [&'static str; 2],
    after: &'static str,
}

const PRUNE: Words = Words {
    kind: ["pruned", "would_prune"],
    verb: ["let go of", "would let go of"],
    after: "; `--undo` has them back",
};
const UNDO: Words = Words {
    kind: ["restored_checkpoint", "would_restore_checkpoint"],
    verb: ["had back", "would have back"],
    after: "",
};

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let (words, found, all) = if let Some(reference) = &args.undo {
        let found = wanted(&world, reference).await?;
        let all = found.len();
        (UNDO, found, all)
    } else {
        let (found, all) = retention::outdated(&world, None, retention(args, &world)).await?;
        (PRUNE, found, all)
    };
    match (args.dry_run, &args.undo) {
        (true, _) => {}
        (false, Some(_)) => retention::undo(&world, &found).await?,
        (false, None) => retention::prune(&world, &found).await?,
    }
    tell(args, &words, &found, all);
    Ok(ExitCode::SUCCESS)
}

fn retention(args: &Args, world: &World) -> Retention {
    let days = |days| Duration::from_hours(days * 24);
    Retention {
        count: args.keep.unwrap_or(world.retention.count),
        age: args.max_age_days.map_or(world.retention.age, days),
        ..world.retention
    }
}

/// Those that were let go of, and are meant.
async fn wanted(world: &World, reference: &str) -> Result<Vec<Manifest>, Failure> {
    let mut pruned = retention::pruned(world).await?;
    if reference.is_empty() {
        return Ok(pruned);
    }
    let wanted = reference.to_ascii_uppercase();
    pruned.retain(|manifest| {
        let id = manifest.id.to_string();
        id.ends_with(&wanted) || id.starts_with(&wanted)
    });
    if pruned.is_empty() {
        let reference = reference.to_owned();
        return Err(segno_engine::Error::NoSuchCheckpoint { reference }.into());
    }
    Ok(pruned)
}

fn tell(args: &Args, words: &Words, found: &[Manifest], all: usize) {
    let how = usize::from(args.dry_run);
    let (kind, verb) = (words.kind[how], words.verb[how]);
    if args.json {
        for manifest in found {
            json_line(&shape(kind, manifest));
        }
        let left = if args.undo.is_some() {
            all
        } else {
            all - found.len()
        };
        json_line(
            &json!({"v": 1, "kind": "prune", "checkpoints": found.len(), "left": left, "dry_run": args.dry_run}),
        );
        return;
    }
    for manifest in found {
        data(&format!(
            "{verb} {} ({}, {})",
            manifest.id, manifest.trigger, manifest.at
        ));
    }
    let after = if args.dry_run || found.is_empty() {
        ""
    } else {
        words.after
    };
    data(&format!(
        "{verb} {} of {}{after}",
        plain::number(found.len() as u64),
        plain::count(all as u64, "checkpoint")
    ));
}
