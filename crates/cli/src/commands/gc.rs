//! `segno gc`: frees disk space that no checkpoint needs.

use std::process::ExitCode;
use std::time::Duration;

use segno_engine::{remote, retention};
use serde_json::json;

use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Delete snapshot data that no checkpoint references, locally and in the remote.
///
/// Also deletes checkpoints for good that were pruned more than 7 days ago (`trash.keep_days` in
/// config.toml). Data that became unreferenced recently stays for a grace period, because a new
/// checkpoint may be about to reference it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Grace period for unreferenced data
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = clap::value_parser!(u64).range(0..=8760))]
    grace_hours: u64,
    /// Only show which checkpoints would be deleted for good
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let grace = Duration::from_hours(args.grace_hours);
    let erased = retention::deletable(&env).await?;
    if args.dry_run {
        for manifest in &erased {
            if args.json {
                json_line(&json!({"v": 1, "kind": "would_erase", "checkpoint": manifest.id}));
            } else {
                stdout_line(&format!("would erase {} for good", manifest.id));
            }
        }
        if !args.json {
            let count = text::count(erased.len() as u64, "checkpoint");
            stdout_line(&format!(
                "would erase {count}; files that no other needs go with them"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let swept = retention::sweep(&env, grace).await?;
    let stored = match env.remote {
        Some(_) => Some(remote::sweep(&env, grace).await),
        None => None,
    };
    if args.json {
        let mut shape = json!({
            "v": 1,
            "kind": "swept",
            "erased": erased.len(),
            "snapshots": swept.snapshots,
            "freed_bytes": swept.freed,
            "waiting": swept.waiting,
            "busy": swept.busy,
        });
        if let Some(Ok(stored)) = &stored {
            shape["storage"] = json!({
                "deleted": stored.deleted,
                "freed_bytes": stored.bytes,
                "waiting": stored.waiting,
                "unfinished": stored.unfinished,
            });
        }
        json_line(&shape);
    } else if swept.busy {
        stdout_line(
            "files are being kept or brought back right now: nothing was done, try again later",
        );
    } else {
        stdout_line(&format!(
            "erased {}, let go of {}; freed {} bytes; {} wait for {} hours",
            text::count(erased.len() as u64, "checkpoint"),
            text::count(swept.snapshots, "snapshot"),
            text::number(swept.freed),
            text::count(swept.waiting, "file"),
            args.grace_hours
        ));
    }
    // Print the local result first, even if the remote failed.
    match stored.transpose()? {
        Some(stored) if !args.json => print_remote(stored, args.grace_hours),
        _ => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn print_remote(stored: remote::Swept, hours: u64) {
    stdout_line(&format!(
        "in the storage: freed {} bytes; {} wait for {hours} hours",
        text::number(stored.bytes),
        text::count(stored.waiting, "object"),
    ));
    if stored.unfinished {
        stdout_line("there is more to delete in the storage: `segno gc` goes on with it");
    }
}
