//! `segno checkpoint export`: writes a checkpoint to a folder.

use std::path::PathBuf;
use std::process::ExitCode;

use segno_sessions as sessions;
use segno_sessions::{archive, checkpoint};
use serde_json::json;

use super::{bytes, progress};
use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Export a checkpoint to a folder that `checkpoint import` reads.
///
/// The folder contains the files as `workspace.tar.zst` (for `tar`), the session up to the
/// checkpoint, its conversation and state as JSON, and a manifest with all digests. It is private
/// (mode 0700), because it contains everything that was asked and answered.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoint id, or a unique prefix or suffix of it
    checkpoint: String,
    /// Folder to create; it must not exist [default: NAME-ID in this folder]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let manifest = checkpoint::find(&env, &args.checkpoint).await?;
    let to = if let Some(to) = args.to {
        to
    } else {
        let found = sessions::find(&env, &manifest.session.to_string()).await;
        let name = found.map_or_else(|_| "checkpoint".to_owned(), |it| it.name.to_string());
        PathBuf::from(format!("{name}-{}", manifest.id))
    };
    let to = workspace()?.join(to);
    let progress = progress(&env, "writing");
    let exported = archive::export(&env, &manifest, &to, &progress).await?;
    drop(progress);
    let folder = exported.folder.display().to_string();
    let total: u64 = exported.files.values().sum();
    if !exported.has_session {
        stderr_line("note: its session does not exist here; the folder contains only the files");
    }
    for folder in &exported.excluded_git_folders {
        let folder = text::sanitize(folder);
        stderr_line(&format!(
            "note: excluded the git folder {folder}: it is outside of the workspace"
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
            "excluded_git_folders": exported.excluded_git_folders,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    stdout_line(&format!(
        "exported {} to {}: {}, {}",
        manifest.id,
        text::sanitize(&folder),
        text::count(exported.files.len() as u64, "file"),
        bytes(total)
    ));
    Ok(ExitCode::SUCCESS)
}
