//! `segno doctor --repair`: repairs what can be repaired without losing anything.

use std::process::ExitCode;

use segno_sessions::doctor::{self, Repair};
use segno_store::CheckpointRepair;
use serde_json::{Value, json};

use super::{Args, verify};
use crate::commands::checkpoint::{bytes, progress};
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    // Checkpoints first: only those that can be read say what the snapshot store has to have.
    let repairs = Context::checkpoint_files()?.repair(args.dry_run)?;
    for repair in &repairs {
        print(args, checkpoint_line(repair));
    }
    let progress = progress(&env, "reading");
    let found = doctor::repair(&env, args.dry_run, &progress).await?;
    drop(progress);
    for repair in &found {
        print(args, snapshot_line(repair));
    }
    if repairs.is_empty() && found.is_empty() && !args.json {
        stdout_line("nothing to repair");
    }
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let withheld = verify::withheld_variables(&config);
    verify::run(args, &env, &withheld).await
}

/// What is printed about one repair: a word for JSON, the affected object, details, and text.
struct Line {
    what: &'static str,
    done: String,
    dry_run: String,
    fields: Value,
}

fn print(args: &Args, line: Line) {
    if args.json {
        let mut shape =
            json!({"v": 1, "kind": "repair", "what": line.what, "dry_run": args.dry_run});
        if let (Some(shape), Some(fields)) = (shape.as_object_mut(), line.fields.as_object()) {
            shape.extend(fields.clone());
        }
        json_line(&shape);
        return;
    }
    let text = if args.dry_run {
        line.dry_run
    } else {
        line.done
    };
    stdout_line(&text::sanitize(&text));
}

fn line(what: &'static str, verbs: [&str; 2], rest: &str, fields: Value) -> Line {
    let [done, dry_run] = verbs.map(|verb| format!("{verb} {rest}"));
    Line {
        what,
        done,
        dry_run,
        fields,
    }
}

fn checkpoint_line(repair: &CheckpointRepair) -> Line {
    match repair {
        CheckpointRepair::KeyRestored { key } => line(
            "key_restored",
            ["restored", "would restore"],
            &format!("{} from its copy", key.display()),
            json!({"file": key.display().to_string()}),
        ),
        CheckpointRepair::KeyCopied { copy } => line(
            "key_copied",
            ["wrote", "would write"],
            &format!("a copy of the seal key to {}", copy.display()),
            json!({"file": copy.display().to_string()}),
        ),
        CheckpointRepair::Quarantined { file, to, reason } => line(
            "quarantined",
            ["moved", "would move"],
            &format!("{} to {}: {reason}", file.display(), to.display()),
            json!({"file": file.display().to_string(), "to": to.display().to_string(), "reason": reason}),
        ),
        CheckpointRepair::Readopted { file } => line(
            "readopted",
            ["moved back", "would move back"],
            &format!("{}: it is a usable checkpoint", file.display()),
            json!({"file": file.display().to_string()}),
        ),
    }
}

fn snapshot_line(repair: &Repair) -> Line {
    match repair {
        Repair::Quarantined { objects } => line(
            "parts_quarantined",
            ["moved", "would move"],
            &format!(
                "{} to the quarantine of the snapshot store",
                objects.join(", ")
            ),
            json!({"objects": objects}),
        ),
        Repair::Fetched { parts, bytes: size } => line(
            "fetched",
            ["fetched", "would fetch"],
            &format!(
                "{} ({}) from the remote",
                text::count(*parts, "file"),
                bytes(*size)
            ),
            json!({"parts": parts, "bytes": size}),
        ),
        Repair::Listed { checkpoint } => line(
            "listed",
            ["listed", "would list"],
            &format!("the files of checkpoint {checkpoint} again"),
            json!({"checkpoint": checkpoint}),
        ),
        Repair::CachesRemoved { count } => line(
            "caches_removed",
            ["removed", "would remove"],
            &format!(
                "{}; the next checkpoint reads all files again",
                text::count(*count, "cache")
            ),
            json!({"count": count}),
        ),
    }
}
