//! `segno checkpoint list`: lists local, pruned or remote checkpoints.

use std::collections::HashMap;
use std::process::ExitCode;

use segno_core::checkpoint::Manifest;
use segno_core::snapshot::Size;
use segno_core::store::Filter;
use segno_engine::retention;
use segno_sessions as sessions;
use segno_sessions::checkpoint::{self, Overview};
use segno_sessions::json::checkpoint_overview;
use serde_json::json;

use super::{bytes, find_session, list_remote};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{columns, json_line, stderr_line, stdout_line, table, text};
use crate::remote::Reach;

/// List checkpoints, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// List the checkpoints of all sessions
    #[arg(short, long, conflicts_with = "session")]
    all: bool,
    /// List pruned checkpoints that `segno checkpoint prune --undo` can restore
    #[arg(long, conflicts_with_all = ["session", "all"])]
    pruned: bool,
    /// List checkpoints in the remote, of all sessions or of the given one
    #[arg(short, long, conflicts_with = "all")]
    remote: bool,
    /// Print JSON, one checkpoint per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Where the command can work, and its name.
    pub(crate) fn reach(&self) -> (Reach, &'static str) {
        match (self.remote, self.pruned) {
            (true, _) => (Reach::Home, "checkpoint list --remote"),
            (_, true) => (Reach::Home, "checkpoint list --pruned"),
            _ => (Reach::Anywhere, "checkpoint list"),
        }
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let env = context.env_inline()?;
    if args.remote {
        return list_remote::list(&env, args.session.as_deref(), args.json).await;
    }
    let session = if args.all || args.pruned {
        None
    } else {
        Some(find_session(&env, args.session.as_deref()).await?)
    };
    let (mut manifests, damaged) = if args.pruned {
        (retention::pruned(&env).await?, Vec::new())
    } else {
        checkpoint::list(&env, session.as_ref()).await?
    };
    manifests.reverse();
    let (listed, _) = sessions::list(&env, Filter::default()).await?;
    let names: HashMap<_, _> = listed
        .into_iter()
        .map(|listed| (listed.summary.id, listed.summary.name.to_string()))
        .collect();
    let overviews = checkpoint::overviews(&env, &manifests).await;
    let mut rows = Vec::new();
    for manifest in &manifests {
        let overview = overviews.get(&manifest.id);
        // A checkpoint with damaged files is listed, too.
        let size = checkpoint::size(&env, manifest).await.ok();
        if args.json {
            let mut shape = checkpoint_overview(manifest, overview);
            shape["own_bytes"] = json!(size.map(|size| size.own));
            shape["shared_bytes"] = json!(size.map(|size| size.shared));
            json_line(&shape);
        } else {
            rows.push(row(manifest, overview, size, &names, env.clock.now()));
        }
    }
    for error in &damaged {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            stderr_line(&format!("note: {}", text::sanitize(&error.to_string())));
        }
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        stdout_line(if args.pruned {
            "no pruned checkpoints"
        } else {
            "no checkpoints; `segno checkpoint create` takes one"
        });
        return Ok(ExitCode::SUCCESS);
    }
    let head = [
        "ID", "SESSION", "NO", "TRIGGER", "TAKEN", "DONE", "LEFT", "FILES", "SIZE", "OWN",
        "SHARED", "VERIFIED", "NOTE",
    ];
    table::table(&head, &rows, columns())
        .iter()
        .for_each(|line| stdout_line(line));
    Ok(ExitCode::SUCCESS)
}

fn row(
    manifest: &Manifest,
    overview: Option<&Overview>,
    size: Option<Size>,
    names: &HashMap<segno_core::id::SessionId, String>,
    now: segno_core::time::Timestamp,
) -> Vec<String> {
    let session = names.get(&manifest.session).cloned();
    let taken = segno_core::time::format_duration(now.since(manifest.at));
    let (own, shared) = match size {
        Some(size) => (bytes(size.own), bytes(size.shared)),
        None => ("damaged".to_owned(), "-".to_owned()),
    };
    let number = overview.map(|overview| overview.session_number);
    let progress = overview.map(|overview| &overview.progress);
    let done = progress.map_or(manifest.finished, |progress| progress.done);
    let left = progress.and_then(|progress| progress.remaining);
    let or_unknown = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), text::number);
    vec![
        manifest.id.to_string(),
        session.unwrap_or_else(|| manifest.session.to_string()),
        or_unknown(number),
        manifest.trigger.to_string(),
        format!("{taken} ago"),
        text::number(done),
        or_unknown(left),
        text::number(manifest.files.files),
        bytes(manifest.files.bytes),
        own,
        shared,
        manifest.verified.map_or_else(
            || "never".to_owned(),
            |at| format!("{} ago", segno_core::time::format_duration(now.since(at))),
        ),
        note(manifest, overview),
    ]
}

/// The user's comment, or why the session had stopped.
fn note(manifest: &Manifest, overview: Option<&Overview>) -> String {
    let reason = overview.and_then(|overview| overview.reason.clone());
    manifest.note.clone().or(reason).unwrap_or_default()
}
