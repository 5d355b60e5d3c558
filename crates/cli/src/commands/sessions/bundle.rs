//! `segno sessions export --bundle`: exports a session with its files and its agents' transcripts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::checkpoint::Trigger;
use segno_core::session::Status;
use segno_engine::lease;
use segno_sessions as sessions;
use segno_sessions::archive::{self, names};
use segno_sessions::checkpoint;
use serde_json::json;

use super::export::{Args, already_exists};
use crate::commands::checkpoint::{bytes, progress};
use crate::context::{Context, workspace};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.output.as_deref() == Some(Path::new("-")) {
        let hint = "set `--output` to a folder that does not exist".to_owned();
        return Err(Failure::usage(
            "a bundle is a folder and cannot be written to stdout",
            Some(hint),
        ));
    }
    let env = context.env_inline()?;
    let summary = sessions::find(&env, &args.session).await?;
    let to = match &args.output {
        Some(to) => to.clone(),
        None => PathBuf::from(format!("{}.bundle", summary.name)),
    };
    // Checked early, before the work; creating the folder checks it again.
    if to.symlink_metadata().is_ok() {
        return Err(already_exists(&to));
    }
    let lease = env.store.lease(summary.id).await?;
    let running = lease::effective_status(&env, &summary, &lease) == Status::Running;
    let note = Some("for `sessions export --bundle`".to_owned());
    let reading = progress(&env, "reading");
    let taken = checkpoint::create(&env, &summary, Trigger::Manual, note, &reading).await?;
    drop(reading);
    let writing = progress(&env, "writing");
    let to = workspace()?.join(to);
    let exported = archive::export(&env, &taken.manifest, &to, &writing).await?;
    drop(writing);
    print_notes(&summary.name.to_string(), running, &taken, &exported);
    let folder = exported.folder.display().to_string();
    let total: u64 = exported.files.values().sum();
    let is_transcript = |name: &&String| name.starts_with(names::CONVERSATIONS);
    let conversations: Vec<&String> = exported.files.keys().filter(is_transcript).collect();
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "bundle_exported",
            "session": summary.id,
            "name": summary.name,
            "checkpoint": taken.manifest.id,
            "folder": folder,
            "events": taken.manifest.journal.seq,
            "files": exported.files,
            "bytes": total,
            "workspace_files": taken.manifest.files.files,
            "conversations": conversations,
            "running": running,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    stdout_line(&format!(
        "exported {} to {}: {} events, {}, {}, {}",
        summary.name,
        text::sanitize(&folder),
        text::number(taken.manifest.journal.seq.0),
        text::count(taken.manifest.files.files, "file"),
        text::count(conversations.len() as u64, "transcript"),
        bytes(total)
    ));
    stdout_line("import it elsewhere with `segno sessions import FOLDER --into FOLDER`");
    Ok(ExitCode::SUCCESS)
}

/// Prints notes about what the bundle does not contain.
fn print_notes(
    name: &str,
    running: bool,
    taken: &checkpoint::NewCheckpoint,
    exported: &archive::Exported,
) {
    if running {
        stderr_line(&format!(
            "note: {name} is running; the bundle contains it up to event {}",
            taken.manifest.journal.seq
        ));
    }
    let captured = &taken.captured;
    let left = captured.skipped.len() + captured.excluded.len();
    if left > 0 {
        stderr_line(&format!(
            "note: {} of the workspace excluded; `segno checkpoint create` names them",
            text::count(left as u64, "path")
        ));
    }
    for folder in &exported.excluded_git_folders {
        let folder = text::sanitize(folder);
        stderr_line(&format!(
            "note: excluded the git folder {folder}: it is outside of the workspace"
        ));
    }
    for (program, native) in &exported.without_transcript {
        let native = text::sanitize(native);
        stderr_line(&format!(
            "note: no transcript of {program} conversation {native}: elsewhere, a new conversation starts with the resume context"
        ));
    }
}
