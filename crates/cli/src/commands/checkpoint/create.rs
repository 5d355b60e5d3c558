//! `segno checkpoint create`: takes a checkpoint by hand, and pushes it if a remote is set.

use std::process::ExitCode;

use segno_core::id::CheckpointId;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_engine::remote::Error;
use segno_engine::retention;
use segno_sessions::checkpoint;
use segno_sessions::json as shapes;
use segno_sessions::remote::{self, Pushed};
use serde_json::json;

use super::push::describe_push;
use super::{bytes, find_session, progress};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// How many skipped, excluded or unstable files are named.
const MAX_NAMED: usize = 5;

/// Take a checkpoint of a session: its files and its journal position.
///
/// The checkpoint includes uncommitted, untracked and ignored files and `.git`. Regenerable folders
/// (`node_modules` next to a `package.json`, `target` next to a `Cargo.toml`, …) are excluded,
/// unless git tracks them. A running session is not disturbed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// Describe the checkpoint
    #[arg(short = 'm', long, value_name = "TEXT")]
    note: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let env = context.env_inline()?;
    let summary = find_session(&env, args.session.as_deref()).await?;
    let progress = progress(&env, "reading");
    let control = context.control(&env, String::new());
    let taken = control.checkpoint(&summary, args.note, &progress).await?;
    drop(progress);
    let sent = match context.remote {
        // A server pushes and prunes by itself.
        Some(_) => Ok(Vec::new()),
        None => push_and_prune(&env, &summary).await,
    };
    let captured = &taken.captured;
    if args.json {
        let mut shape = shapes::checkpoint_taken(&taken);
        shape["pushed"] = json!(contains(&sent, taken.manifest.id));
        json_line(&shape);
        return exit_code(sent);
    }
    for (what, left) in [
        ("could not be read", &captured.skipped),
        ("was excluded", &captured.excluded),
    ] {
        for one in left.iter().take(MAX_NAMED) {
            stderr_line(&format!(
                "note: {} {what}: {}",
                text::sanitize(&one.path),
                text::sanitize(&one.reason)
            ));
        }
        if left.len() > MAX_NAMED {
            stderr_line(&format!(
                "note: {} more; `--json` lists all",
                left.len() - MAX_NAMED
            ));
        }
    }
    for path in captured.unstable.iter().take(MAX_NAMED) {
        stderr_line(&format!(
            "note: {} changed while it was read, and may be inconsistent",
            text::sanitize(path)
        ));
    }
    stdout_line(&format!(
        "created checkpoint {} of {}: {}, {} ({} new)",
        taken.manifest.id,
        summary.name,
        text::count(captured.files, "file"),
        bytes(captured.bytes),
        bytes(captured.written)
    ));
    for hint in checkpoint::size_hints(captured, env.remote.is_some()) {
        stderr_line(&format!("hint: {hint}"));
    }
    if let Ok(sent) = &sent {
        sent.iter().for_each(|one| stdout_line(&describe_push(one)));
    }
    exit_code(sent)
}

/// Pushes what the remote lacks, and prunes what retention does not keep.
async fn push_and_prune(env: &Env, summary: &Summary) -> Result<Vec<Pushed>, Error> {
    let progress = super::progress(env, "pushing");
    let sent = remote::push_pending(env, summary.id, &progress).await;
    drop(progress);
    if let Err(error) = retention::enforce(env, summary).await {
        let problem = format!("note: old checkpoints were not pruned: {error}");
        stderr_line(&text::sanitize(&problem));
    }
    sent
}

fn contains(sent: &Result<Vec<Pushed>, Error>, checkpoint: CheckpointId) -> bool {
    let is = |one: &Pushed| one.manifest.id == checkpoint;
    sent.as_ref().is_ok_and(|sent| sent.iter().any(is))
}

/// The local checkpoint stays, even if the push fails.
fn exit_code(sent: Result<Vec<Pushed>, Error>) -> Result<ExitCode, Failure> {
    match sent {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::from(error).with_prefix("stored here, not pushed")),
    }
}
