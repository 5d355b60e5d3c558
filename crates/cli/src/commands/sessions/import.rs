//! `segno sessions import`: imports an exported session.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::bundle;
use segno_core::id::Name;
use segno_engine::Env;
use segno_sessions::{import, relocate};
use serde_json::json;

use super::import_folder;
use crate::commands::run::name;
use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::progress_line::ProgressLine;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Import a session from a file or folder that `sessions export` wrote.
///
/// Everything is verified before anything is written. Finished steps stay finished; a session that
/// was exported while it was running becomes interrupted. Import only what you trust: resuming a
/// session does what its spec says.
///
/// `--into` sets the folder in which the session is resumed. The files of an exported folder are
/// restored there first; existing files are saved in a checkpoint, and files that are not in the
/// bundle stay. If an import is killed, run the same command again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exported file or folder, or `-` for a file on stdin
    #[arg(value_name = "PATH")]
    pub(super) file: PathBuf,
    /// Folder for the session [default: its original folder]
    #[arg(long, value_name = "FOLDER")]
    pub(super) into: Option<PathBuf>,
    /// Restore all files unchanged, even those that could start programs
    ///
    /// Without it, hooks and settings that could start programs (`.git/hooks`, `.git/config`,
    /// `.claude/settings.json`, `.envrc`, …) get the suffix `.segno-inert`.
    #[arg(long, requires = "into")]
    pub(super) trust: bool,
    /// Name of the session [default: its name, numbered if taken]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(super) name: Option<Name>,
    /// Maximum size of the files of a folder in bytes [default: 10 GiB]
    #[arg(long, value_name = "N")]
    pub(super) max_bytes: Option<u64>,
    /// Maximum number of files, folders and links in it [default: 150000]
    #[arg(long, value_name = "N")]
    pub(super) max_entries: Option<u64>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.file.is_dir() {
        return Box::pin(import_folder::run(args, context)).await;
    }
    let (env, _) = context.env(Persistence::Home)?;
    let into = match &args.into {
        Some(into) => Some(relocate::folder(&workspace()?.join(into))?),
        None => None,
    };
    let mut progress_line = ProgressLine::new(env.clock.clone());
    let (place, bytes) = read(&env, &args.file)?;
    progress_line.update("verifying");
    let bundle = import::read(&place, &bytes)?;
    drop(bytes);
    let imported = import::import_into(&env, bundle, args.name, into, |done, total| {
        let (done, total) = (text::number(done), text::number(total));
        progress_line.update(&format!("storing blob {done} of {total}"));
    })
    .await?;
    drop(progress_line);
    if imported.running {
        stderr_line(&format!(
            "note: {} was running when it was exported; it may have continued elsewhere",
            imported.name
        ));
    }
    if !Path::new(&imported.workspace).is_dir() {
        stderr_line(&text::sanitize(&format!(
            "note: its folder {} does not exist here; `segno sessions move {} FOLDER` sets another",
            imported.workspace, imported.name
        )));
    }
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "imported",
            "session": imported.session,
            "name": imported.name,
            "status": imported.status,
            "workspace": imported.workspace,
            "events": imported.records,
            "blobs": imported.texts,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    stdout_line(&format!(
        "imported {} ({}), {}: {} events, {}",
        imported.name,
        imported.session,
        imported.status,
        text::number(imported.records),
        text::count(imported.texts, "blob")
    ));
    if imported.status.is_resumable() {
        stdout_line(&format!("resume it with `segno resume {}`", imported.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the file or stdin. Also returns the name to use in messages.
fn read(env: &Env, file: &Path) -> Result<(String, Vec<u8>), Failure> {
    let unreadable = |error: std::io::Error| Failure::unreadable(file, &error);
    if file != Path::new("-") {
        let read = env.disk.read(file, bundle::LONGEST);
        return Ok((file.display().to_string(), read.map_err(unreadable)?));
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(bundle::LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(("stdin".to_owned(), bytes))
}
