use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::archive::{Keeping, Limits};
use segno_engine::archive::{self, Fate, Imported, Request, Standing};
use serde_json::json;

use super::{bytes, progress, shape};
use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

/// Make a checkpoint out of a folder that `checkpoint export` wrote.
///
/// Everything is verified before anything is kept, and nothing is written into any workspace:
/// `checkpoint restore` does that. The session comes along if it is not here. A folder of the same
/// layout that another program wrote, or a `workspace.tar.zst` by itself, can be imported too; then
/// only the files come.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder, or an archive of files (`.tar.zst`)
    folder: PathBuf,
    /// How many bytes the archive may have unpacked [default: 10 GiB]
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,
    /// How many files, folders and links may be in it [default: 150000]
    #[arg(long, value_name = "N")]
    max_entries: Option<u64>,
    /// Only verify it, and tell what would come
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let usual = Limits::default();
    let request = Request {
        from: workspace()?.join(&args.folder),
        limits: Limits {
            bytes: args.max_bytes.unwrap_or(usual.bytes),
            entries: args.max_entries.unwrap_or(usual.entries),
        },
        keeping: if args.dry_run {
            Keeping::Look
        } else {
            Keeping::Keep
        },
        name: None,
    };
    let progress = progress(&world, "reading bytes");
    let imported = archive::import(&world, &request, &progress).await?;
    drop(progress);
    if args.json {
        json_line(&answer(&imported, args.dry_run));
        return Ok(ExitCode::SUCCESS);
    }
    for name in &imported.missing {
        say(&format!("note: the folder has no {name}"));
    }
    let manifest = &imported.manifest;
    if !Path::new(&manifest.workspace).is_dir() {
        say(&plain::plain(&format!(
            "note: its folder {} is not on this machine; `restore --into FOLDER` names another",
            manifest.workspace
        )));
    }
    let verb = match (args.dry_run, imported.standing) {
        (_, Standing::Known) => "is here already:",
        (true, _) => "would be imported:",
        (false, _) => "imported:",
    };
    data(&format!(
        "{} {verb} {}, {}",
        manifest.id,
        plain::count(imported.captured.files, "file"),
        bytes(imported.captured.bytes)
    ));
    if let Standing::Renamed(was) = imported.standing {
        data(&format!("another checkpoint here is called {was}"));
    }
    data(&session(&imported));
    Ok(ExitCode::SUCCESS)
}

fn session(imported: &Imported) -> String {
    let id = imported.manifest.session;
    match &imported.session {
        Fate::Came(Some(came)) => {
            format!("its session came along as {} ({})", came.name, came.status)
        }
        Fate::Came(None) => format!("its session {id} would come along"),
        Fate::Here => format!("its session {id} is here already"),
        Fate::Missing => "its session did not come along: only the files are here".to_owned(),
    }
}

fn answer(imported: &Imported, dry: bool) -> serde_json::Value {
    let kind = if dry {
        "would_import"
    } else {
        "checkpoint_imported"
    };
    let mut answer = shape(kind, &imported.manifest);
    answer["origin"] = json!(imported.manifest.origin);
    answer["missing"] = json!(imported.missing);
    answer["standing"] = json!(match imported.standing {
        Standing::New => "new",
        Standing::Known => "known",
        Standing::Renamed(_) => "renamed",
    });
    answer["was"] = match imported.standing {
        Standing::Renamed(was) => json!(was),
        _ => json!(null),
    };
    answer["session_came"] = json!(match imported.session {
        Fate::Came(_) => "new",
        Fate::Here => "known",
        Fate::Missing => "missing",
    });
    answer
}
