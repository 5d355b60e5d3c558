//! `segno checkpoint import`: creates a checkpoint from an exported folder or an archive.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segno_core::snapshot::archive::{ImportMode, Limits};
use segno_sessions::archive::{self, CheckpointOutcome, Imported, Request, SessionOutcome};
use serde_json::json;

use super::{bytes, progress, shape};
use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Import a checkpoint from a folder that `checkpoint export` wrote.
///
/// Everything is verified before anything is stored, and no workspace is touched: use `checkpoint
/// restore` for that. The session is imported too, if it does not exist here. A folder of the same
/// layout from another program, or a plain `workspace.tar.zst`, works too, but imports only the
/// files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exported folder, or an archive (`.tar.zst`)
    folder: PathBuf,
    /// Maximum size of the unpacked archive in bytes [default: 10 GiB]
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,
    /// Maximum number of files, folders and links in it [default: 150000]
    #[arg(long, value_name = "N")]
    max_entries: Option<u64>,
    /// Only verify it and show what would be imported
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let defaults = Limits::default();
    let request = Request {
        from: workspace()?.join(&args.folder),
        limits: Limits {
            bytes: args.max_bytes.unwrap_or(defaults.bytes),
            entries: args.max_entries.unwrap_or(defaults.entries),
        },
        keeping: if args.dry_run {
            ImportMode::VerifyOnly
        } else {
            ImportMode::Store
        },
        name: None,
    };
    let progress = progress(&env, "reading bytes");
    let imported = archive::import(&env, &request, &progress).await?;
    drop(progress);
    if args.json {
        json_line(&answer(&imported, args.dry_run));
        return Ok(ExitCode::SUCCESS);
    }
    for name in &imported.missing {
        stderr_line(&format!("note: the folder has no {name}"));
    }
    let manifest = &imported.manifest;
    if !Path::new(&manifest.workspace).is_dir() {
        stderr_line(&text::sanitize(&format!(
            "note: its folder {} does not exist here; `segno checkpoint restore --into FOLDER` restores elsewhere",
            manifest.workspace
        )));
    }
    let verb = match (args.dry_run, imported.outcome) {
        (_, CheckpointOutcome::Existing) => "already exists here:",
        (true, _) => "would be imported:",
        (false, _) => "imported:",
    };
    stdout_line(&format!(
        "{} {verb} {}, {}",
        manifest.id,
        text::count(imported.captured.files, "file"),
        bytes(imported.captured.bytes)
    ));
    if let CheckpointOutcome::Renamed(was) = imported.outcome {
        stdout_line(&format!(
            "renamed: another checkpoint here has the id {was}"
        ));
    }
    stdout_line(&describe_session(&imported));
    Ok(ExitCode::SUCCESS)
}

fn describe_session(imported: &Imported) -> String {
    let id = imported.manifest.session;
    match &imported.session {
        SessionOutcome::Created(Some(came)) => {
            format!("imported its session as {} ({})", came.name, came.status)
        }
        SessionOutcome::Created(None) => format!("would import its session {id}"),
        SessionOutcome::Existing => format!("its session {id} already exists here"),
        SessionOutcome::Missing => "its session is missing: only the files are here".to_owned(),
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
    answer["outcome"] = json!(match imported.outcome {
        CheckpointOutcome::New => "new",
        CheckpointOutcome::Existing => "existing",
        CheckpointOutcome::Renamed(_) => "renamed",
    });
    answer["renamed_from"] = match imported.outcome {
        CheckpointOutcome::Renamed(was) => json!(was),
        _ => json!(null),
    };
    answer["session_outcome"] = json!(match imported.session {
        SessionOutcome::Created(_) => "new",
        SessionOutcome::Existing => "existing",
        SessionOutcome::Missing => "missing",
    });
    answer
}
