use std::process::ExitCode;

use segno_core::checkpoint::Trigger;
use segno_core::id::CheckpointId;
use segno_core::snapshot::Left;
use segno_engine::remote::{self, Pushed};
use segno_engine::{Error, checkpoint};
use serde_json::json;

use super::push::told;
use super::{bytes, progress, session, shape};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

/// How many files that need a word are named.
const NAMED: usize = 5;

/// Whoever keeps more than this at once may want to leave something out.
const MUCH: u64 = 100 * 1024 * 1024;

/// Keep where a session stands: its files, and its place in its journal.
///
/// Uncommitted, untracked and ignored files are kept too, and `.git` with them. What can be made
/// again (`node_modules` beside a `package.json`, `target` beside a `Cargo.toml`, …) is left out,
/// unless git tracks it. The session is not disturbed, also if it is being run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session [default: the newest of this folder]
    session: Option<String>,
    /// A word about it
    #[arg(short = 'm', long, value_name = "TEXT")]
    note: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let world = context.still_world()?;
    let summary = session(&world, args.session.as_deref()).await?;
    let progress = progress(&world, "reading");
    let taken = checkpoint::take(&world, &summary, Trigger::Manual, args.note, &progress).await?;
    drop(progress);
    let progress = super::progress(&world, "sending");
    let sent = remote::catch_up(&world, summary.id, &progress).await;
    drop(progress);
    let captured = &taken.captured;
    if args.json {
        let list = |left: &[Left]| -> Vec<_> {
            let shape = |left: &Left| json!({"path": left.path, "why": left.why});
            left.iter().map(shape).collect()
        };
        let mut shape = shape("checkpoint_taken", &taken.manifest);
        shape["written"] = json!(captured.written);
        shape["unstable_files"] = json!(captured.unstable);
        shape["skipped_files"] = json!(list(&captured.skipped));
        shape["left_out_files"] = json!(list(&captured.left_out));
        shape["sent"] = json!(is_among(&sent, taken.manifest.id));
        json_line(&shape);
        return ended(sent);
    }
    for (what, left) in [
        ("could not be read", &captured.skipped),
        ("was left out", &captured.left_out),
    ] {
        for one in left.iter().take(NAMED) {
            say(&format!(
                "note: {} {what}: {}",
                plain::plain(&one.path),
                plain::plain(&one.why)
            ));
        }
        if left.len() > NAMED {
            say(&format!(
                "note: {} more; `--json` names them all",
                left.len() - NAMED
            ));
        }
    }
    for path in captured.unstable.iter().take(NAMED) {
        say(&format!(
            "note: {} changed while it was read, and may be kept half-way",
            plain::plain(path)
        ));
    }
    data(&format!(
        "kept {} as {}: {}, {} ({} new)",
        summary.name,
        taken.manifest.id,
        plain::count(captured.files, "file"),
        bytes(captured.bytes),
        bytes(captured.written)
    ));
    if captured.written > MUCH {
        say(&format!(
            "hint: {} are new; what can be made again need not be kept: `segno checkpoint show {}`",
            bytes(captured.written),
            taken.manifest.id
        ));
    }
    if let Ok(sent) = &sent {
        sent.iter().for_each(|one| data(&told(one)));
    }
    ended(sent)
}

fn is_among(sent: &Result<Vec<Pushed>, Error>, checkpoint: CheckpointId) -> bool {
    let is = |one: &Pushed| one.manifest.id == checkpoint;
    sent.as_ref().is_ok_and(|sent| sent.iter().any(is))
}

/// What was kept here stays, whatever became of sending it.
fn ended(sent: Result<Vec<Pushed>, Error>) -> Result<ExitCode, Failure> {
    match sent {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::from(error).after("kept here, not sent")),
    }
}
