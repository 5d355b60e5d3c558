//! `segno checkpoint delete`: deletes single checkpoints, with undo.

use std::process::ExitCode;

use segno_engine::{checkpoint, retention};

use super::shape;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line};

/// Delete checkpoints by their ids.
///
/// `segno checkpoint prune --undo ID` restores a deleted checkpoint for 7 days (`trash.keep_days` in
/// config.toml); after that `segno doctor --gc` frees its space, here and in the remote.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoint ids, or unique prefixes or suffixes of them
    #[arg(required = true, value_name = "CHECKPOINT")]
    checkpoints: Vec<String>,
    /// Only show which checkpoints would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one checkpoint per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let mut found = Vec::new();
    // All are found before one is deleted.
    for reference in &args.checkpoints {
        let manifest = checkpoint::find(&env, reference).await?;
        if !found.contains(&manifest) {
            found.push(manifest);
        }
    }
    if !args.dry_run {
        retention::prune(&env, &found).await?;
    }
    for manifest in &found {
        let (kind, verb) = if args.dry_run {
            ("would_prune", "would delete")
        } else {
            ("pruned", "deleted")
        };
        if args.json {
            json_line(&shape(kind, manifest));
        } else {
            stdout_line(&format!("{verb} checkpoint {}", manifest.id));
            if !args.dry_run {
                stdout_line(&format!(
                    "`segno checkpoint prune --undo {}` restores it",
                    manifest.id
                ));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
