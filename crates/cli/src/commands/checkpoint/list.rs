use std::collections::HashMap;
use std::process::ExitCode;

use segno_core::checkpoint::Manifest;
use segno_core::snapshot::Size;
use segno_engine::{checkpoint, retention, sessions};
use serde_json::json;

use super::{bytes, session, shape, stored};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{columns, data, json_line, plain, say, table};

/// List checkpoints, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session [default: the newest of this folder]
    session: Option<String>,
    /// Those of all sessions
    #[arg(short, long, conflicts_with = "session")]
    all: bool,
    /// Those that were let go of, and can be had back with `segno checkpoint prune --undo`
    #[arg(long, conflicts_with_all = ["session", "all"])]
    pruned: bool,
    /// Those in the storage: of all sessions, or of the given one
    #[arg(short, long, conflicts_with = "all")]
    remote: bool,
    /// Print them as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let world = context.still_world()?;
    if args.remote {
        return stored::list(&world, args.session.as_deref(), args.json).await;
    }
    let session = if args.all || args.pruned {
        None
    } else {
        Some(session(&world, args.session.as_deref()).await?)
    };
    let (mut kept, damaged) = if args.pruned {
        (retention::pruned(&world).await?, Vec::new())
    } else {
        checkpoint::list(&world, session.as_ref()).await?
    };
    kept.reverse();
    let (listed, _) = sessions::list(&world).await?;
    let names: HashMap<_, _> = listed
        .into_iter()
        .map(|listed| (listed.summary.id, listed.summary.name.to_string()))
        .collect();
    let mut rows = Vec::new();
    for manifest in &kept {
        // One whose files are damaged is listed all the same.
        let size = checkpoint::size(&world, manifest).await.ok();
        if args.json {
            let mut shape = shape("checkpoint", manifest);
            shape["own_bytes"] = json!(size.map(|size| size.own));
            shape["shared_bytes"] = json!(size.map(|size| size.shared));
            json_line(&shape);
        } else {
            rows.push(row(manifest, size, &names, world.clock.now()));
        }
    }
    for error in &damaged {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            say(&format!("note: {}", plain::plain(&error.to_string())));
        }
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        data(if args.pruned {
            "none was let go of lately"
        } else {
            "no checkpoints; `segno checkpoint create` takes one"
        });
        return Ok(ExitCode::SUCCESS);
    }
    let head = [
        "ID", "SESSION", "TRIGGER", "TAKEN", "FILES", "SIZE", "OWN", "SHARED", "VERIFIED", "STEPS",
        "NOTE",
    ];
    table::table(&head, &rows, columns())
        .iter()
        .for_each(|line| data(line));
    Ok(ExitCode::SUCCESS)
}

fn row(
    manifest: &Manifest,
    size: Option<Size>,
    names: &HashMap<segno_core::id::SessionId, String>,
    now: segno_core::time::Timestamp,
) -> Vec<String> {
    let session = names.get(&manifest.session).cloned();
    let taken = segno_core::time::human(now.since(manifest.at));
    let (own, shared) = match size {
        Some(size) => (bytes(size.own), bytes(size.shared)),
        None => ("damaged".to_owned(), "-".to_owned()),
    };
    vec![
        manifest.id.to_string(),
        session.unwrap_or_else(|| manifest.session.to_string()),
        manifest.trigger.to_string(),
        format!("{taken} ago"),
        plain::number(manifest.files.files),
        bytes(manifest.files.bytes),
        own,
        shared,
        manifest.verified.map_or_else(
            || "never".to_owned(),
            |at| format!("{} ago", segno_core::time::human(now.since(at))),
        ),
        plain::number(manifest.finished),
        manifest.note.clone().unwrap_or_default(),
    ]
}
