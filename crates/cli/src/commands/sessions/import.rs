use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::bundle;
use segno_core::id::Name;
use segno_engine::{Error, World, import};
use serde_json::json;

use crate::commands::run::name;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::waiting::Waiting;
use crate::output::{data, json_line, plain, say};

/// Make a session out of a file that `sessions export` wrote.
///
/// Everything is verified before anything is written. Finished steps stay finished; a session that
/// was being run when it was exported stands as interrupted. Import only what you trust: resuming a
/// session does what its spec says.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, or `-` for stdin
    file: PathBuf,
    /// What to call the session [default: its name, numbered if another has it]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let mut waiting = Waiting::new(world.clock.clone());
    let (place, bytes) = read(&world, &args.file)?;
    waiting.tell("verifying");
    let bundle = import::read(&place, &bytes)?;
    drop(bytes);
    let imported = import::import(&world, bundle, args.name, |done, total| {
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
            "note: its folder {} is not on this machine",
            imported.workspace
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
