use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::ports::{Access, Disk};
use segno_engine::export::{self, Export};
use segno_engine::sessions;
use serde_json::json;

use super::bundle;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::waiting::Waiting;
use crate::output::{data, json_line, plain, raw, say};

/// Write a session to one file, or with its files to a folder, which `sessions import` reads.
///
/// The file has every journal entry as it is stored, and the long texts that they refer to. It is
/// for your eyes only (mode 0600): it says everything that was asked and answered. A session that is
/// being run is written up to this moment.
///
/// With `--bundle` a checkpoint is taken, and written to a folder: the session, the files of its
/// workspace, and the records that Claude Code and Codex keep of its conversations, so that it can go
/// on elsewhere as if it had been there all the time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    pub(super) session: String,
    /// Take the files and the conversations of agents along
    #[arg(long)]
    bundle: bool,
    /// Where to, or `-` for stdout [default: NAME.segno or NAME.bundle in this folder]
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, conflicts_with = "bundle")]
    force: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.bundle {
        return bundle::run(args, context).await;
    }
    let (world, _) = context.world(Keep::Home)?;
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    if is_stdout && args.json {
        let message = "stdout cannot have both the file and the answer as JSON";
        let hint = "give `--output` a file".to_owned();
        return Err(Failure::usage(message, Some(hint)));
    }
    let summary = sessions::find(&world, &args.session).await?;
    let file = match &args.output {
        Some(file) => file.clone(),
        None => PathBuf::from(format!("{}.segno", summary.name)),
    };
    // Found out before the work, and again by the disk when the file is made.
    if !is_stdout && !args.force && file.symlink_metadata().is_ok() {
        return Err(exists(&file));
    }
    let mut waiting = Waiting::new(world.clock.clone());
    let export = export::export(&world, &summary, |done, total| {
        let (done, total) = (plain::number(done), plain::number(total));
        waiting.tell(&format!("reading entry {done} of {total}"));
    })
    .await?;
    waiting.tell("writing");
    if is_stdout {
        raw(&export.bytes);
    } else {
        write(&*world.disk, &file, &export.bytes, args.force)?;
    }
    drop(waiting);
    if export.running {
        say(&format!(
            "note: {} is being run; the file has it up to entry {}",
            summary.name, export.records
        ));
    }
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "exported",
            "session": summary.id,
            "name": summary.name,
            "file": file.display().to_string(),
            "entries": export.records,
            "blobs": export.texts,
            "bytes": export.bytes.len(),
            "running": export.running,
        }));
    } else if is_stdout {
        say(&sentence(&summary.name.to_string(), "stdout", &export));
    } else {
        let file = file.display().to_string();
        data(&sentence(
            &summary.name.to_string(),
            &plain::plain(&file),
            &export,
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn sentence(name: &str, place: &str, export: &Export) -> String {
    format!(
        "exported {name} to {place}: {} journal entries, {}, {} bytes",
        plain::number(export.records),
        plain::count(export.texts, "blob"),
        plain::number(export.bytes.len() as u64)
    )
}

pub(super) fn exists(file: &Path) -> Failure {
    let hint = "`--force` replaces it, `--output` names another".to_owned();
    Failure::unwritten(format!("{} exists", file.display()), Some(hint))
}

/// Writes a private file. Without `force` it must be new; with it, there is always the one before or
/// the whole new one.
fn write(disk: &dyn Disk, file: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    let unwritten = |error: &io::Error| {
        Failure::unwritten(
            format!("{} cannot be written: {error}", file.display()),
            None,
        )
    };
    let draft = if force {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".draft-{}", std::process::id()));
        PathBuf::from(name)
    } else {
        file.to_owned()
    };
    match disk.create(&draft, bytes, Access::Private) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&draft)),
        Err(error) => {
            let _ = disk.remove(&draft);
            return Err(unwritten(&error));
        }
        Ok(()) => {}
    }
    if force && let Err(error) = disk.rename(&draft, file) {
        let _ = disk.remove(&draft);
        return Err(unwritten(&error));
    }
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    disk.sync_folder(folder.unwrap_or(Path::new(".")))
        .map_err(|error| unwritten(&error))
}
