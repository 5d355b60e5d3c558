//! `segno sessions export`: writes a session to a file, or with its files to a folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::ports::{Access, Disk, folder_of, replace_file};
use segno_engine::export::{self, Export};
use segno_sessions as sessions;
use serde_json::json;

use super::bundle;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::progress_line::ProgressLine;
use crate::output::{json_line, stderr_line, stdout_bytes, stdout_line, text};

/// Export a session to a file, or with its files to a folder.
///
/// `sessions import` reads both. The file contains every journal event as it is stored, and the
/// blobs that the events refer to. It is private (mode 0600), because it contains everything that
/// was asked and answered. A running session is exported up to now.
///
/// With `--bundle`, takes a checkpoint and exports it to a folder: the session, the files of its
/// workspace, and the transcripts of Claude Code and Codex, so that the session can be resumed on
/// another machine as if it had always been there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    pub(super) session: String,
    /// Include the files and the agents' transcripts
    #[arg(long)]
    bundle: bool,
    /// Output path, or `-` for stdout [default: NAME.segno or NAME.bundle in this folder]
    #[arg(short, long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, conflicts_with = "bundle")]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.bundle {
        return bundle::run(args, context).await;
    }
    let (env, _) = context.env(Persistence::Home)?;
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    if is_stdout && args.json {
        let message = "stdout cannot carry both the file and the JSON result";
        let hint = "set `--output` to a file".to_owned();
        return Err(Failure::usage(message, Some(hint)));
    }
    let summary = sessions::find(&env, &args.session).await?;
    let file = match &args.output {
        Some(file) => file.clone(),
        None => PathBuf::from(format!("{}.segno", summary.name)),
    };
    // Checked early, before the work; the disk checks it again when it creates the file.
    if !is_stdout && !args.force && file.symlink_metadata().is_ok() {
        return Err(already_exists(&file));
    }
    let mut progress_line = ProgressLine::new(env.clock.clone());
    let export = export::export(&env, &summary, |done, total| {
        let (done, total) = (text::number(done), text::number(total));
        progress_line.update(&format!("reading event {done} of {total}"));
    })
    .await?;
    progress_line.update("writing");
    if is_stdout {
        stdout_bytes(&export.bytes);
    } else {
        write(&*env.disk, &file, &export.bytes, args.force)?;
    }
    drop(progress_line);
    if export.running {
        stderr_line(&format!(
            "note: {} is running; the file contains it up to event {}",
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
            "events": export.records,
            "blobs": export.texts,
            "bytes": export.bytes.len(),
            "running": export.running,
        }));
    } else if is_stdout {
        stderr_line(&describe(&summary.name.to_string(), "stdout", &export));
    } else {
        let file = file.display().to_string();
        stdout_line(&describe(
            &summary.name.to_string(),
            &text::sanitize(&file),
            &export,
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(name: &str, place: &str, export: &Export) -> String {
    format!(
        "exported {name} to {place}: {} events, {}, {} bytes",
        text::number(export.records),
        text::count(export.texts, "blob"),
        text::number(export.bytes.len() as u64)
    )
}

pub(super) fn already_exists(file: &Path) -> Failure {
    let hint = "`--force` overwrites it, `--output` names another path".to_owned();
    Failure::file_write(format!("{} already exists", file.display()), Some(hint))
}

/// Writes a private file. Without `force` the file must be new. With `force` the replacement is
/// atomic: readers see the old file or the complete new one.
fn write(disk: &dyn Disk, file: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    let unwritten = |error: &io::Error| {
        Failure::file_write(
            format!("{} cannot be written: {error}", file.display()),
            None,
        )
    };
    if force {
        let mut draft = file.as_os_str().to_owned();
        draft.push(format!(".draft-{}", std::process::id()));
        let draft = Path::new(&draft);
        let replaced = replace_file(disk, draft, file, bytes, Access::Private, |_| {});
        return replaced.map_err(|error| unwritten(&error));
    }
    match disk.create(file, bytes, Access::Private) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(already_exists(file)),
        Err(error) => {
            let _ = disk.remove(file);
            Err(unwritten(&error))
        }
        Ok(()) => disk
            .sync_folder(folder_of(file))
            .map_err(|error| unwritten(&error)),
    }
}
