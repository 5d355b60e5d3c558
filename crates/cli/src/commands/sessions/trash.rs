//! `segno sessions trash`: lists and empties the trash.

use std::process::ExitCode;
use std::time::Duration;

use segno_core::store::Error;
use segno_core::time::{Timestamp, format_duration};
use segno_engine::Env;
use segno_sessions::trash::{self, Sweep, TrashItem};
use serde_json::{Value, json};

use super::confirm;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{columns, json_line, stderr_line, stdout_line, table, text};

/// List the sessions in the trash, or empty it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Delete everything in it permanently, and blobs that no session references
    #[arg(long)]
    empty: bool,
    /// Do not ask for confirmation, with `--empty`
    #[arg(short, long, requires = "empty")]
    yes: bool,
    /// Only show what would be deleted, with `--empty`
    #[arg(long, requires = "empty")]
    dry_run: bool,
    /// Print JSON, one session per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let (trashed, damaged) = trash::list(&env).await?;
    if args.empty {
        return empty(args, &env, &trashed).await;
    }
    let now = env.clock.now();
    if args.json {
        for trashed in &trashed {
            json_line(&trashed_json(trashed, config.trash_keep));
        }
    } else if trashed.is_empty() {
        stdout_line("the trash is empty");
    } else {
        let rows: Vec<_> = trashed
            .iter()
            .map(|trashed| row(trashed, now, config.trash_keep))
            .collect();
        let head = ["NAME", "STATUS", "DELETED", "EXPIRES", "ID"];
        table::table(&head, &rows, columns())
            .iter()
            .for_each(|line| stdout_line(line));
        stdout_line("`segno sessions restore NAME` restores one");
    }
    for error in &damaged {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            stdout_line(&text::sanitize(&format!("damaged: {error}")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn status(trashed: &TrashItem) -> Option<&'static str> {
    trashed
        .summary
        .as_ref()
        .map(|summary| summary.status.as_str())
}

fn row(trashed: &TrashItem, now: Timestamp, keep: Duration) -> Vec<String> {
    let at = trashed.discarded.at;
    let left = at.after(keep).since(now);
    vec![
        trashed.name().to_string(),
        status(trashed).unwrap_or("damaged").to_owned(),
        format!("{} ago", format_duration(now.since(at))),
        if left.is_zero() {
            "at the next cleanup".into()
        } else {
            format!("in {}", format_duration(left))
        },
        trashed.discarded.session.to_string(),
    ]
}

fn trashed_json(trashed: &TrashItem, keep: Duration) -> Value {
    json!({
        "v": 1,
        "kind": "trashed",
        "session": trashed.discarded.session,
        "name": trashed.discarded.name,
        "status": status(trashed),
        "events": trashed.summary.as_ref().map(|summary| summary.head.seq),
        "deleted_at": trashed.discarded.at.to_string(),
        "until": trashed.discarded.at.after(keep).to_string(),
    })
}

async fn empty(args: &Args, env: &Env, trashed: &[TrashItem]) -> Result<ExitCode, Failure> {
    let what = text::count(trashed.len() as u64, "session");
    let what = format!("{what} in the trash");
    if !args.json {
        for trashed in trashed {
            stdout_line(&format!(
                "{} ({})",
                trashed.name(),
                trashed.discarded.session
            ));
        }
    }
    let deleted = !args.dry_run && (trashed.is_empty() || confirm(&what, args.yes)?);
    if deleted {
        destroy(env, trashed).await?;
    }
    if args.json {
        trashed
            .iter()
            .for_each(|trashed| json_line(&deletion_json(trashed, deleted)));
    } else {
        stdout_line(&match (trashed.is_empty(), deleted, args.dry_run) {
            (true, ..) => "the trash is empty".to_owned(),
            (_, true, _) => format!("deleted {what} permanently"),
            (_, _, true) => format!("would delete {what} permanently"),
            _ => format!("kept {what}"),
        });
    }
    if deleted {
        sweep_blobs(env, args.json).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes these sessions permanently.
pub(super) async fn destroy(env: &Env, trashed: &[TrashItem]) -> Result<(), Error> {
    for trashed in trashed {
        env.store.destroy(trashed.discarded.session).await?;
    }
    Ok(())
}

/// Renders the deletion of a session in the trash as JSON.
pub(super) fn deletion_json(trashed: &TrashItem, deleted: bool) -> Value {
    json!({
        "v": 1,
        "kind": "deletion",
        "session": trashed.discarded.session,
        "name": trashed.discarded.name,
        "deleted": deleted,
        "permanent": true,
        "until": null,
    })
}

/// Deletes unreferenced blobs and prints the result.
pub(super) async fn sweep_blobs(env: &Env, json: bool) -> Result<(), Failure> {
    match trash::sweep(env).await? {
        Sweep::Skipped(error) => stderr_line(&text::sanitize(&format!(
            "note: no blobs were deleted, because not every session can be read: {error}"
        ))),
        Sweep::Done(swept) if json => {
            json_line(
                &json!({"v": 1, "kind": "blobs_deleted", "blobs": swept.blobs, "bytes": swept.bytes}),
            );
        }
        Sweep::Done(swept) if swept.blobs > 0 => stdout_line(&format!(
            "deleted {} ({} bytes) that no session references",
            text::count(swept.blobs, "blob"),
            text::number(swept.bytes)
        )),
        Sweep::Done(_) => {}
    }
    Ok(())
}
