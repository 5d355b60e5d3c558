//! `segno doctor --gc`: deletes snapshot data that no checkpoint references.

use std::process::ExitCode;
use std::time::Duration;

use segno_engine::Env;
use segno_engine::retention::{self, Sweep};
use segno_sessions::remote;
use serde_json::json;

use super::Args;
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Default grace period for unreferenced data, in hours.
const GRACE_HOURS: u64 = 24;

/// Also deletes pruned checkpoints whose time for an undo has passed.
pub(super) async fn run(args: &Args, env: &Env) -> Result<ExitCode, Failure> {
    let hours = args.grace_hours.unwrap_or(GRACE_HOURS);
    let grace = Duration::from_hours(hours);
    let erased = retention::deletable(env).await?;
    if args.dry_run {
        for manifest in &erased {
            if args.json {
                json_line(&json!({"v": 1, "kind": "would_delete", "checkpoint": manifest.id}));
            } else {
                stdout_line(&format!("would delete checkpoint {}", manifest.id));
            }
        }
        if !args.json {
            let count = text::count(erased.len() as u64, "checkpoint");
            stdout_line(&format!(
                "would delete {count}, and the data that only they reference"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Sweep { swept, unreadable } = retention::sweep(env, grace).await?;
    let stored = match env.remote {
        Some(_) => Some(remote::sweep(env, grace).await),
        None => None,
    };
    if args.json {
        let mut shape = json!({
            "v": 1,
            "kind": "gc",
            "checkpoints": erased.len(),
            "snapshots": swept.snapshots,
            "freed_bytes": swept.freed,
            "waiting": swept.waiting,
            "unreadable": unreadable,
            "busy": swept.busy,
        });
        if let Some(Ok(stored)) = &stored {
            shape["remote"] = json!({
                "deleted": stored.deleted,
                "freed_bytes": stored.bytes,
                "waiting": stored.waiting,
                "unfinished": stored.unfinished,
            });
        }
        json_line(&shape);
    } else if swept.busy {
        stdout_line(
            "a checkpoint is being taken or restored: nothing was deleted, try again later",
        );
    } else {
        stdout_line(&format!(
            "deleted {} and {}; freed {} bytes; {} in the grace period of {} hours",
            text::count(erased.len() as u64, "checkpoint"),
            text::count(swept.snapshots, "snapshot"),
            text::number(swept.freed),
            text::count(swept.waiting, "file"),
            hours
        ));
    }
    if unreadable > 0 && !args.json {
        stderr_line(&format!(
            "note: {} cannot be read, so all snapshots stay; `segno doctor --repair` moves what is unusable to a quarantine",
            text::count(unreadable, "checkpoint")
        ));
    }
    // Print the local result first, even if the remote failed.
    match stored.transpose()? {
        Some(stored) if !args.json => print_remote(stored, hours),
        _ => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn print_remote(stored: remote::Swept, hours: u64) {
    stdout_line(&format!(
        "remote: freed {} bytes; {} in the grace period of {hours} hours",
        text::number(stored.bytes),
        text::count(stored.waiting, "object"),
    ));
    if stored.unfinished {
        stdout_line("there is more to delete in the remote: run `segno doctor --gc` again");
    }
}
