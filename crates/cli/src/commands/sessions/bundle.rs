//! `segno sessions export --bundle`: a session with its files and its agents' conversations.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::checkpoint::Trigger;
use segno_core::session::Status;
use segno_engine::archive::names;
use segno_engine::{archive, checkpoint, claim, sessions};
use serde_json::json;

use super::export::{Args, exists};
use crate::commands::checkpoint::{bytes, progress};
use crate::context::{Context, workspace};
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.output.as_deref() == Some(Path::new("-")) {
        let hint = "give `--output` a folder that does not exist yet".to_owned();
        return Err(Failure::usage("a bundle is a folder", Some(hint)));
    }
    let world = context.still_world()?;
    let summary = sessions::find(&world, &args.session).await?;
    let to = match &args.output {
        Some(to) => to.clone(),
        None => PathBuf::from(format!("{}.bundle", summary.name)),
    };
    // Found out before the work, and again when the folder is made.
    if to.symlink_metadata().is_ok() {
        return Err(exists(&to));
    }
    let lease = world.store.lease(summary.id).await?;
    let running = claim::standing(&world, &summary, &lease) == Status::Running;
    let note = Some("for `sessions export --bundle`".to_owned());
    let reading = progress(&world, "reading");
    let taken = checkpoint::take(&world, &summary, Trigger::Manual, note, &reading).await?;
    drop(reading);
    let writing = progress(&world, "writing");
    let to = workspace()?.join(to);
    let exported = archive::export(&world, &taken.manifest, &to, &writing).await?;
    drop(writing);
    tell(&summary.name.to_string(), running, &taken, &exported);
    let folder = exported.folder.display().to_string();
    let total: u64 = exported.files.values().sum();
    let is_record = |name: &&String| name.starts_with(names::CONVERSATIONS);
    let conversations: Vec<&String> = exported.files.keys().filter(is_record).collect();
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "bundle_exported",
            "session": summary.id,
            "name": summary.name,
            "checkpoint": taken.manifest.id,
            "folder": folder,
            "entries": taken.manifest.journal.seq,
            "files": exported.files,
            "bytes": total,
            "workspace_files": taken.manifest.files.files,
            "conversations": conversations,
            "running": running,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    data(&format!(
        "exported {} to {}: {} journal entries, {}, {} of conversations, {}",
        summary.name,
        plain::plain(&folder),
        plain::number(taken.manifest.journal.seq.0),
        plain::count(taken.manifest.files.files, "file"),
        plain::count(conversations.len() as u64, "record"),
        bytes(total)
    ));
    data("`segno sessions import FOLDER --into FOLDER` goes on with it elsewhere");
    Ok(ExitCode::SUCCESS)
}

/// What whoever carries it should know.
fn tell(name: &str, running: bool, taken: &checkpoint::Taken, exported: &archive::Exported) {
    if running {
        say(&format!(
            "note: {name} is being run; the bundle has it up to entry {}",
            taken.manifest.journal.seq
        ));
    }
    let captured = &taken.captured;
    let left = captured.skipped.len() + captured.left_out.len();
    if left > 0 {
        say(&format!(
            "note: {} of the workspace are not in it: `segno checkpoint create` names them",
            plain::count(left as u64, "thing")
        ));
    }
    for folder in &exported.without {
        let folder = plain::plain(folder);
        say(&format!(
            "note: the git folder {folder} lies outside of the workspace, and is not in it"
        ));
    }
    for (program, native) in &exported.unrecorded {
        let native = plain::plain(native);
        say(&format!(
            "note: there is no record of {program} conversation {native}: elsewhere a fresh one is told what was said"
        ));
    }
}
