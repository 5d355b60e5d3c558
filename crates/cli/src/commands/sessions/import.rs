use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::bundle;
use segno_core::id::Name;
use segno_engine::{Error, World, import, relocate};
use serde_json::json;

use super::arrival;
use crate::commands::run::name;
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::waiting::Waiting;
use crate::output::{data, json_line, plain, say};

/// Make a session out of a file or a folder that `sessions export` wrote.
///
/// Everything is verified before anything is written. Finished steps stay finished; a session that
/// was being run when it was exported stands as interrupted. Import only what you trust: resuming a
/// session does what its spec says.
///
/// `--into` says where it goes on. The files of a folder are brought there first; what was there is
/// kept in a checkpoint, and files that the bundle does not have stay. An import that was killed is
/// finished by the same command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file or the folder, or `-` for a file from stdin
    #[arg(value_name = "PATH")]
    pub(super) file: PathBuf,
    /// The folder that the session goes on in [default: the one that it had]
    #[arg(long, value_name = "FOLDER")]
    pub(super) into: Option<PathBuf>,
    /// Bring files back as they were, also those that could start programs
    ///
    /// Without it, hooks and settings that could start programs (`.git/hooks`, `.git/config`,
    /// `.claude/settings.json`, `.envrc`, …) get `.segno-inert` behind their names.
    #[arg(long, requires = "into")]
    pub(super) trust: bool,
    /// What to call the session [default: its name, numbered if another has it]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(super) name: Option<Name>,
    /// How many bytes the files of a folder may have [default: 10 GiB]
    #[arg(long, value_name = "N")]
    pub(super) max_bytes: Option<u64>,
    /// How many files, folders and links may be in it [default: 150000]
    #[arg(long, value_name = "N")]
    pub(super) max_entries: Option<u64>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.file.is_dir() {
        return arrival::run(args, context).await;
    }
    let (world, _) = context.world(Keep::Home)?;
    let into = match &args.into {
        Some(into) => Some(relocate::folder(&workspace()?.join(into))?),
        None => None,
    };
    let mut waiting = Waiting::new(world.clock.clone());
    let (place, bytes) = read(&world, &args.file)?;
    waiting.tell("verifying");
    let bundle = import::read(&place, &bytes)?;
    drop(bytes);
    let imported = import::import_into(&world, bundle, args.name, into, |done, total| {
        let (done, total) = (plain::number(done), plain::number(total));
        waiting.tell(&format!("keeping blob {done} of {total}"));
    })
    .await?;
    drop(waiting);
    if imported.running {
        say(&format!(
            "note: {} was being run when it was exported; whoever ran it may have gone on elsewhere",
            imported.name
        ));
    }
    if !Path::new(&imported.workspace).is_dir() {
        say(&plain::plain(&format!(
            "note: its folder {} is not on this machine; `segno sessions move {} FOLDER` names another",
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
            "entries": imported.records,
            "blobs": imported.texts,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    data(&format!(
        "imported {} ({}), {}: {} journal entries, {}",
        imported.name,
        imported.session,
        imported.status,
        plain::number(imported.records),
        plain::count(imported.texts, "blob")
    ));
    if imported.status.is_resumable() {
        data(&format!("`segno resume {}` goes on", imported.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// The content of the file, and what to call the file.
fn read(world: &World, file: &Path) -> Result<(String, Vec<u8>), Failure> {
    let unreadable = |error: std::io::Error| Error::Unreadable {
        path: file.to_owned(),
        reason: error.to_string(),
    };
    if file != Path::new("-") {
        let read = world.disk.read(file, bundle::LONGEST);
        return Ok((file.display().to_string(), read.map_err(unreadable)?));
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(bundle::LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(("stdin".to_owned(), bytes))
}
