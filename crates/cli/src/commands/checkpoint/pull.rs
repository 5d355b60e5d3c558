//! `segno checkpoint pull`: fetches checkpoints and their sessions from the remote.

use std::process::ExitCode;

use segno_sessions::import::Relation;
use segno_sessions::remote::{self, PulledSession};
use serde_json::{Value, json};

use super::{bytes, progress, shape};
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Pull checkpoints from the remote, and the sessions that are missing here.
///
/// Everything is verified before it is stored. No workspace is touched: `segno checkpoint restore`
/// restores the files, and `segno resume` resumes the session.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session name or id, or checkpoint id or a suffix of it
    #[arg(required_unless_present = "all")]
    what: Option<String>,
    /// Pull everything
    #[arg(short, long, conflicts_with = "what")]
    all: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let progress = progress(&env, "pulling");
    let pulled = remote::pull(&env, args.what.as_deref(), &progress).await?;
    drop(progress);
    if args.json {
        for manifest in &pulled.checkpoints {
            json_line(&shape("checkpoint_pulled", manifest));
        }
        pulled
            .sessions
            .iter()
            .for_each(|one| json_line(&arrival_json(one)));
        json_line(&json!({
            "v": 1,
            "kind": "pulled",
            "checkpoints": pulled.checkpoints.len(),
            "new": pulled.new,
            "objects": pulled.fetched,
            "bytes": pulled.fetched_bytes,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    for manifest in &pulled.checkpoints {
        stdout_line(&format!(
            "{} ({}, {}) of {}",
            manifest.id,
            manifest.trigger,
            manifest.at,
            text::sanitize(&manifest.workspace)
        ));
    }
    pulled.sessions.iter().for_each(print_arrival);
    stdout_line(&format!(
        "pulled {}, {} of them new: {}, {}",
        text::count(pulled.checkpoints.len() as u64, "checkpoint"),
        text::number(pulled.new),
        text::count(pulled.fetched, "object"),
        bytes(pulled.fetched_bytes)
    ));
    Ok(ExitCode::SUCCESS)
}

fn relation_word(relation: Relation) -> &'static str {
    match relation {
        Relation::Same => "same",
        Relation::Behind => "behind",
        Relation::Ahead => "ahead",
        Relation::Diverged => "diverged",
        Relation::InTrash => "in_trash",
    }
}

fn arrival_json(arrival: &PulledSession) -> Value {
    match arrival {
        PulledSession::Created(made) => json!({
            "v": 1,
            "kind": "session_created",
            "session": made.session,
            "name": made.name,
            "status": made.status,
            "workspace": made.workspace,
            "events": made.records,
        }),
        PulledSession::Existing {
            checkpoint,
            relation,
        } => json!({
            "v": 1,
            "kind": "session_exists",
            "session": checkpoint.session,
            "relation": relation_word(*relation),
        }),
        PulledSession::Absent(manifest) => json!({
            "v": 1,
            "kind": "session_absent",
            "session": manifest.session,
        }),
    }
}

fn print_arrival(arrival: &PulledSession) {
    match arrival {
        PulledSession::Created(made) => stdout_line(&format!(
            "created session {} ({}), {}: {} events; its folder is {}",
            made.name,
            made.session,
            made.status,
            text::number(made.records),
            text::sanitize(&made.workspace)
        )),
        PulledSession::Existing {
            checkpoint,
            relation,
        } => {
            let session = checkpoint.session;
            let why = match relation {
                Relation::Same | Relation::Ahead => return,
                Relation::Behind => format!(
                    "exists here and ends before event {}; to replace it, run `segno sessions delete {session} --permanent` and pull again",
                    checkpoint.journal.seq
                ),
                Relation::Diverged => "exists here and has diverged from the pushed one".to_owned(),
                Relation::InTrash => format!("is in the trash: `segno sessions restore {session}`"),
            };
            stderr_line(&format!("note: session {session} is unchanged: it {why}"));
        }
        PulledSession::Absent(manifest) => stderr_line(&format!(
            "note: session {} was not pushed; its files can be restored",
            manifest.session
        )),
    }
}
