use std::path::PathBuf;
use std::process::ExitCode;

use segno_engine::checkpoint::{self, Request};
use serde_json::json;

use super::{bytes, progress};
use crate::context::{Context, workspace};
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

/// Bring the files of a checkpoint back.
///
/// Every file is verified as it is written. Files that the checkpoint does not have stay, unless
/// `--exact` is given. What was in the folder before is kept in a checkpoint of its own first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The checkpoint: its id, or the beginning or the end of it
    checkpoint: String,
    /// Where to [default: where the files came from]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// Remove files that the checkpoint would have if they had been there
    #[arg(long)]
    exact: bool,
    /// Bring everything back as it was, also from a checkpoint that was taken elsewhere
    ///
    /// Without it, hooks and settings from elsewhere that could start programs (`.git/hooks`,
    /// `.git/config`, `.claude/settings.json`, `.envrc`, …) get `.segno-inert` behind their names.
    #[arg(long)]
    trust: bool,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let world = context.still_world()?;
    let manifest = checkpoint::find(&world, &args.checkpoint).await?;
    let here = workspace()?;
    let request = Request {
        into: args.into.map(|into| here.join(into)),
        exact: args.exact,
        dry: args.dry_run,
        trust: args.trust,
    };
    let progress = progress(&world, "restoring");
    let returned = checkpoint::restore(&world, &manifest, request, &progress).await?;
    drop(progress);
    let restored = &returned.restored;
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": if args.dry_run { "would_restore" } else { "restored" },
            "checkpoint": manifest.id,
            "folder": returned.folder.display().to_string(),
            "written": restored.written,
            "bytes": restored.bytes,
            "unchanged": restored.unchanged,
            "removed": restored.removed,
            "set_aside": restored.set_aside,
            "rescue": returned.rescue.map(|rescue| rescue.id),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    if manifest.files.unstable > 0 {
        say(&format!(
            "note: {} changed while they were kept, and may be half-way",
            plain::count(manifest.files.unstable, "file")
        ));
    }
    for path in &restored.removed {
        say(&format!("  removed {}", plain::plain(path)));
    }
    for path in &restored.set_aside {
        say(&format!("  set aside {}", plain::plain(path)));
    }
    if !restored.set_aside.is_empty() {
        say(
            "note: these could start programs, and come from elsewhere: they have `.segno-inert` behind \
             their names. Read them; `--trust` brings them back as they were",
        );
    }
    let verb = if args.dry_run { "would write" } else { "wrote" };
    data(&format!(
        "{verb} {} ({}) into {}; {} were as they should be",
        plain::count(restored.written, "file"),
        bytes(restored.bytes),
        plain::plain(&returned.folder.display().to_string()),
        plain::number(restored.unchanged)
    ));
    if let Some(rescue) = returned.rescue {
        data(&format!(
            "`segno checkpoint restore {}` brings back what was there before",
            rescue.id
        ));
    }
    Ok(ExitCode::SUCCESS)
}
