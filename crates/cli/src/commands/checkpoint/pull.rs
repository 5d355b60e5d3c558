use std::process::ExitCode;

use segno_engine::import::Relation;
use segno_engine::remote::{self, Arrival};
use serde_json::{Value, json};

use super::{bytes, progress, shape};
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

/// Fetch checkpoints from the storage, and with them sessions that are not here.
///
/// Everything is checked before it is kept. Files of a workspace are not touched: `segno checkpoint
/// restore` brings them back, and `segno resume` goes on with the session.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, by its name or id, or the checkpoint, by its id or the end of it
    #[arg(required_unless_present = "all")]
    what: Option<String>,
    /// Everything that is there
    #[arg(short, long, conflicts_with = "what")]
    all: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let progress = progress(&world, "fetching");
    let pulled = remote::pull(&world, args.what.as_deref(), &progress).await?;
    drop(progress);
    if args.json {
        for manifest in &pulled.checkpoints {
            json_line(&shape("checkpoint_fetched", manifest));
        }
        pulled
            .sessions
            .iter()
            .for_each(|one| json_line(&arrival(one)));
        json_line(&json!({
            "v": 1,
            "kind": "fetched",
            "checkpoints": pulled.checkpoints.len(),
            "new": pulled.new,
            "objects": pulled.fetched,
            "bytes": pulled.fetched_bytes,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    for manifest in &pulled.checkpoints {
        data(&format!(
            "{} ({}, {}) of {}",
            manifest.id,
            manifest.trigger,
            manifest.at,
            plain::plain(&manifest.workspace)
        ));
    }
    pulled.sessions.iter().for_each(tell);
    data(&format!(
        "fetched {}, {} of them new: {}, {}",
        plain::count(pulled.checkpoints.len() as u64, "checkpoint"),
        plain::number(pulled.new),
        plain::count(pulled.fetched, "object"),
        bytes(pulled.fetched_bytes)
    ));
    Ok(ExitCode::SUCCESS)
}

fn word(relation: Relation) -> &'static str {
    match relation {
        Relation::Same => "same",
        Relation::Behind => "behind",
        Relation::Ahead => "ahead",
        Relation::Apart => "apart",
        Relation::InTrash => "in_trash",
    }
}

fn arrival(arrival: &Arrival) -> Value {
    match arrival {
        Arrival::Made(made) => json!({
            "v": 1,
            "kind": "session_made",
            "session": made.session,
            "name": made.name,
            "status": made.status,
            "workspace": made.workspace,
            "entries": made.records,
        }),
        Arrival::Stays {
            checkpoint,
            relation,
        } => json!({
            "v": 1,
            "kind": "session_stays",
            "session": checkpoint.session,
            "relation": word(*relation),
        }),
        Arrival::Absent(manifest) => json!({
            "v": 1,
            "kind": "session_absent",
            "session": manifest.session,
        }),
    }
}

fn tell(arrival: &Arrival) {
    match arrival {
        Arrival::Made(made) => data(&format!(
            "made session {} ({}), {}: {} journal entries; it works in {}",
            made.name,
            made.session,
            made.status,
            plain::number(made.records),
            plain::plain(&made.workspace)
        )),
        Arrival::Stays {
            checkpoint,
            relation,
        } => {
            let session = checkpoint.session;
            let why = match relation {
                Relation::Same | Relation::Ahead => return,
                Relation::Behind => format!(
                    "is here and ends before entry {}; to have it as it was sent, `segno sessions delete {session} --now`, and pull again",
                    checkpoint.journal.seq
                ),
                Relation::Apart => {
                    "is here, and went another way than the one that was sent".to_owned()
                }
                Relation::InTrash => format!("is in the trash: `segno sessions restore {session}`"),
            };
            say(&format!("note: session {session} stays as it is: it {why}"));
        }
        Arrival::Absent(manifest) => say(&format!(
            "note: session {} was not sent along; its files can be restored",
            manifest.session
        )),
    }
}
