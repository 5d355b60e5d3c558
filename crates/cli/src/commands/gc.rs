use std::process::ExitCode;
use std::time::Duration;

use segno_engine::{remote, retention};
use serde_json::json;

use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Free the room of files that no checkpoint names any more, here and in the storage.
///
/// Checkpoints that were let go of longer than 7 days ago (`trash.keep_days` in config.toml) are
/// erased for good. What became needless lately waits for a while: someone may be about to name it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long needless files wait
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = clap::value_parser!(u64).range(0..=8760))]
    grace_hours: u64,
    /// Only tell which checkpoints would be erased for good
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let grace = Duration::from_hours(args.grace_hours);
    let erased = retention::erasable(&world).await?;
    if args.dry_run {
        for manifest in &erased {
            if args.json {
                json_line(&json!({"v": 1, "kind": "would_erase", "checkpoint": manifest.id}));
            } else {
                data(&format!("would erase {} for good", manifest.id));
            }
        }
        if !args.json {
            let count = plain::count(erased.len() as u64, "checkpoint");
            data(&format!(
                "would erase {count}; files that no other needs go with them"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let swept = retention::sweep(&world, grace).await?;
    let stored = match world.storage {
        Some(_) => Some(remote::sweep(&world, grace).await),
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
        data("files are being kept or brought back right now: nothing was done, try again later");
    } else {
        data(&format!(
            "erased {}, let go of {}; freed {} bytes; {} wait for {} hours",
            plain::count(erased.len() as u64, "checkpoint"),
            plain::count(swept.snapshots, "snapshot"),
            plain::number(swept.freed),
            plain::count(swept.waiting, "file"),
            args.grace_hours
        ));
    }
    // What was swept here is told first, whatever became of the storage.
    match stored.transpose()? {
        Some(stored) if !args.json => tell(stored, args.grace_hours),
        _ => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(stored: remote::Swept, hours: u64) {
    data(&format!(
        "in the storage: freed {} bytes; {} wait for {hours} hours",
        plain::number(stored.bytes),
        plain::count(stored.waiting, "object"),
    ));
    if stored.unfinished {
        data("there is more to delete in the storage: `segno gc` goes on with it");
    }
}
