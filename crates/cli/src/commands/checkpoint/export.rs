use std::path::PathBuf;
use std::process::ExitCode;

use segno_engine::{archive, checkpoint, sessions};
use serde_json::json;

use super::{bytes, progress};
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

/// Write a checkpoint to a folder, which `checkpoint import` reads.
///
/// The folder has the files as `workspace.tar.zst`, which `tar` unpacks, the session up to the
/// checkpoint, its conversation and state as JSON, and a manifest with the digest of each. It is for
/// your eyes only (mode 0700): it says everything that was asked and answered.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The checkpoint: its id, or the beginning or the end of it
    checkpoint: String,
    /// Where to; there must be nothing yet [default: NAME-ID in this folder]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let manifest = checkpoint::find(&world, &args.checkpoint).await?;
    let to = if let Some(to) = args.to {
        to
    } else {
        let found = sessions::find(&world, &manifest.session.to_string()).await;
        let name = found.map_or_else(|_| "checkpoint".to_owned(), |it| it.name.to_string());
        PathBuf::from(format!("{name}-{}", manifest.id))
    };
    let to = workspace()?.join(to);
    let progress = progress(&world, "writing");
    let exported = archive::export(&world, &manifest, &to, &progress).await?;
    drop(progress);
    let folder = exported.folder.display().to_string();
    let total: u64 = exported.files.values().sum();
    if !exported.has_session {
        say("note: its session is not here; the folder has only the files");
    }
    for folder in &exported.without {
        let folder = plain::plain(folder);
        say(&format!(
            "note: the git folder {folder} lies outside of the workspace, and is not in it"
        ));
    }
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "checkpoint_exported",
            "checkpoint": manifest.id,
            "session": manifest.session,
            "folder": folder,
            "files": exported.files,
            "bytes": total,
            "has_session": exported.has_session,
            "without": exported.without,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    data(&format!(
        "exported {} to {}: {}, {}",
        manifest.id,
        plain::plain(&folder),
        plain::count(exported.files.len() as u64, "file"),
        bytes(total)
    ));
    Ok(ExitCode::SUCCESS)
}
