//! `segno checkpoint restore`: writes the files of a checkpoint back to a folder.

use std::path::PathBuf;
use std::process::ExitCode;

use segno_sessions::checkpoint::{self, Request};
use segno_sessions::json as shapes;

use super::{bytes, progress};
use crate::context::{Context, workspace};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Restore the files of a checkpoint.
///
/// Every file is verified as it is written. Files that are not in the checkpoint stay, unless
/// `--exact` is given. The previous content of the folder is saved in a checkpoint of its own
/// first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoint id, or a unique prefix or suffix of it
    checkpoint: String,
    /// Folder to restore into [default: the original folder]
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// Delete files that are not in the checkpoint, except excluded ones
    #[arg(long)]
    exact: bool,
    /// Restore everything unchanged, even from a checkpoint that was taken elsewhere
    ///
    /// Without it, hooks and settings from elsewhere that could start programs (`.git/hooks`,
    /// `.git/config`, `.claude/settings.json`, `.envrc`, …) get the suffix `.segno-inert`.
    #[arg(long)]
    trust: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let env = context.env_inline()?;
    let manifest = checkpoint::find(&env, &args.checkpoint).await?;
    let here = workspace()?;
    let request = Request {
        into: args.into.map(|into| here.join(into)),
        exact: args.exact,
        dry_run: args.dry_run,
        trusted: args.trust,
    };
    let progress = progress(&env, "restoring");
    let control = context.control(&env, String::new());
    let returned = control.restore(&manifest, request, &progress).await?;
    drop(progress);
    let restored = &returned.restored;
    if args.json {
        json_line(&shapes::restored(&manifest, &returned, args.dry_run));
        return Ok(ExitCode::SUCCESS);
    }
    if manifest.files.unstable > 0 {
        stderr_line(&format!(
            "note: {} changed while they were read, and may be inconsistent",
            text::count(manifest.files.unstable, "file")
        ));
    }
    for path in &restored.removed {
        stderr_line(&format!("  removed {}", text::sanitize(path)));
    }
    for path in &restored.disarmed {
        stderr_line(&format!("  disarmed {}", text::sanitize(path)));
    }
    if !restored.disarmed.is_empty() {
        stderr_line(
            "note: these files come from elsewhere and could start programs, so they have the suffix \
             `.segno-inert`. Review them; `--trust` restores them unchanged",
        );
    }
    let verb = if args.dry_run { "would write" } else { "wrote" };
    stdout_line(&format!(
        "{verb} {} ({}) into {}; {} unchanged",
        text::count(restored.written, "file"),
        bytes(restored.bytes),
        text::sanitize(&returned.folder.display().to_string()),
        text::number(restored.unchanged)
    ));
    if let Some(rescue) = returned.rescue {
        stdout_line(&format!(
            "`segno checkpoint restore {}` restores the previous files",
            rescue.id
        ));
    }
    Ok(ExitCode::SUCCESS)
}
