//! `segno checkpoint prune`: deletes old checkpoints, with undo.

use std::process::ExitCode;
use std::time::Duration;

use segno_core::checkpoint::Manifest;
use segno_engine::env::Retention;
use segno_engine::{Env, checkpoint, retention};
use serde_json::json;

use super::shape;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Delete old checkpoints, keeping the newest ones of each session.
///
/// The newest checkpoint of a session is always kept, and so are those of how it ended (`complete`)
/// and how it failed (`error`). `--undo` restores deleted checkpoints for 7 days (`trash.keep_days`
/// in config.toml); after that `segno doctor --gc` frees their space.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoints to keep per session [default: 10, or `checkpoints.keep` in config.toml]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Delete checkpoints older than this [default: 7, or `checkpoints.max_age_days` in
    /// config.toml]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(0..=36_500))]
    max_age_days: Option<u64>,
    /// Restore pruned checkpoints: all, or the one with this id
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["keep", "max_age_days"])]
    undo: Option<String>,
    /// Only show which checkpoints would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one checkpoint per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// The words for an action: JSON kinds and verbs, each as [done, dry run].
struct Words {
    kind: [&'static str; 2],
    verb: [&'static str; 2],
    after: &'static str,
}

const PRUNE: Words = Words {
    kind: ["pruned", "would_prune"],
    verb: ["pruned", "would prune"],
    after: "; `--undo` restores them",
};
const UNDO: Words = Words {
    kind: ["restored_checkpoint", "would_restore_checkpoint"],
    verb: ["restored", "would restore"],
    after: "",
};

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let (words, found, all) = if let Some(reference) = &args.undo {
        let found = find_pruned(&env, reference).await?;
        let all = found.len();
        (UNDO, found, all)
    } else {
        let (found, all) = retention::outdated(&env, None, retention(args, &env)).await?;
        (PRUNE, found, all)
    };
    match (args.dry_run, &args.undo) {
        (true, _) => {}
        (false, Some(_)) => retention::restore(&env, &found).await?,
        (false, None) => retention::prune(&env, &found).await?,
    }
    print_result(args, &words, &found, all);
    Ok(ExitCode::SUCCESS)
}

fn retention(args: &Args, env: &Env) -> Retention {
    let days = |days| Duration::from_hours(days * 24);
    Retention {
        count: args.keep.unwrap_or(env.retention.count),
        age: args.max_age_days.map_or(env.retention.age, days),
        ..env.retention
    }
}

/// Returns the pruned checkpoints that the reference names; all if it is empty.
async fn find_pruned(env: &Env, reference: &str) -> Result<Vec<Manifest>, Failure> {
    let mut pruned = retention::pruned(env).await?;
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
        return Err(checkpoint::Error::NoSuchCheckpoint { reference }.into());
    }
    Ok(pruned)
}

fn print_result(args: &Args, words: &Words, found: &[Manifest], all: usize) {
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
            &json!({"v": 1, "kind": "prune", "checkpoints": found.len(), "remaining": left, "dry_run": args.dry_run}),
        );
        return;
    }
    for manifest in found {
        stdout_line(&format!(
            "{verb} {} ({}, {})",
            manifest.id, manifest.trigger, manifest.at
        ));
    }
    let after = if args.dry_run || found.is_empty() {
        ""
    } else {
        words.after
    };
    stdout_line(&format!(
        "{verb} {} of {}{after}",
        text::number(found.len() as u64),
        text::count(all as u64, "checkpoint")
    ));
}
