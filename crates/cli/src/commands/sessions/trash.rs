use std::process::ExitCode;
use std::time::Duration;

use segno_core::time::{Timestamp, human};
use segno_engine::trash::{self, Sweep, Thrown};
use segno_engine::{Error, World};
use serde_json::{Value, json};

use super::confirm;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{columns, data, json_line, plain, say, table};

/// List what is in the trash, or empty it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Delete everything in it for good, and blobs that no session refers to
    #[arg(long)]
    empty: bool,
    /// Do not ask, with `--empty`
    #[arg(short, long, requires = "empty")]
    yes: bool,
    /// Only say what would be deleted, with `--empty`
    #[arg(long, requires = "empty")]
    dry_run: bool,
    /// Print it as JSON, one line per session
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, config) = context.world(Keep::Home)?;
    let (thrown, damaged) = trash::list(&world).await?;
    if args.empty {
        return empty(args, &world, &thrown).await;
    }
    let now = world.clock.now();
    if args.json {
        for thrown in &thrown {
            json_line(&listed(thrown, config.trash_keep));
        }
    } else if thrown.is_empty() {
        data("the trash is empty");
    } else {
        let rows: Vec<_> = thrown
            .iter()
            .map(|thrown| row(thrown, now, config.trash_keep))
            .collect();
        let head = ["NAME", "STATUS", "DELETED", "GOES FOR GOOD", "ID"];
        table::table(&head, &rows, columns())
            .iter()
            .for_each(|line| data(line));
        data("`segno sessions restore NAME` brings one back");
    }
    for error in &damaged {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        } else {
            data(&plain::plain(&format!("damaged: {error}")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn status(thrown: &Thrown) -> Option<&'static str> {
    thrown
        .summary
        .as_ref()
        .map(|summary| summary.status.as_str())
}

fn row(thrown: &Thrown, now: Timestamp, keep: Duration) -> Vec<String> {
    let at = thrown.discarded.at;
    let left = at.after(keep).since(now);
    vec![
        thrown.name().to_string(),
        status(thrown).unwrap_or("damaged").to_owned(),
        format!("{} ago", human(now.since(at))),
        if left.is_zero() {
            "at the next cleanup".into()
        } else {
            format!("in {}", human(left))
        },
        thrown.discarded.session.to_string(),
    ]
}

fn listed(thrown: &Thrown, keep: Duration) -> Value {
    json!({
        "v": 1,
        "kind": "discarded",
        "session": thrown.discarded.session,
        "name": thrown.discarded.name,
        "status": status(thrown),
        "entries": thrown.summary.as_ref().map(|summary| summary.head.seq),
        "deleted_at": thrown.discarded.at.to_string(),
        "until": thrown.discarded.at.after(keep).to_string(),
    })
}

async fn empty(args: &Args, world: &World, thrown: &[Thrown]) -> Result<ExitCode, Failure> {
    let what = plain::count(thrown.len() as u64, "session");
    let what = format!("{what} in the trash");
    if !args.json {
        for thrown in thrown {
            data(&format!("{} ({})", thrown.name(), thrown.discarded.session));
        }
    }
    let gone = !args.dry_run && (thrown.is_empty() || confirm(&what, args.yes)?);
    if gone {
        destroy(world, thrown).await?;
    }
    if args.json {
        thrown
            .iter()
            .for_each(|thrown| json_line(&destruction(thrown, gone)));
    } else {
        data(&match (thrown.is_empty(), gone, args.dry_run) {
            (true, ..) => "the trash is empty".to_owned(),
            (_, true, _) => format!("deleted {what} for good"),
            (_, _, true) => format!("would delete {what} for good"),
            _ => format!("kept {what}"),
        });
    }
    if gone {
        swept(world, args.json).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Destroys these.
pub(super) async fn destroy(world: &World, thrown: &[Thrown]) -> Result<(), Error> {
    for thrown in thrown {
        world.store.destroy(thrown.discarded.session).await?;
    }
    Ok(())
}

/// What became of a session in the trash.
pub(super) fn destruction(thrown: &Thrown, gone: bool) -> Value {
    json!({
        "v": 1,
        "kind": "deletion",
        "session": thrown.discarded.session,
        "name": thrown.discarded.name,
        "deleted": gone,
        "for_good": true,
        "until": null,
    })
}

/// Sweeps the blobs, and tells what came of it.
pub(super) async fn swept(world: &World, json: bool) -> Result<(), Failure> {
    match trash::sweep(world).await? {
        Sweep::Blind(error) => say(&plain::plain(&format!(
            "note: no blobs were removed, because not every session can be read: {error}"
        ))),
        Sweep::Done(swept) if json => {
            json_line(
                &json!({"v": 1, "kind": "sweep", "blobs": swept.blobs, "bytes": swept.bytes}),
            );
        }
        Sweep::Done(swept) if swept.blobs > 0 => data(&format!(
            "removed {} ({} bytes) that no session refers to",
            plain::count(swept.blobs, "blob"),
            plain::number(swept.bytes)
        )),
        Sweep::Done(_) => {}
    }
    Ok(())
}
