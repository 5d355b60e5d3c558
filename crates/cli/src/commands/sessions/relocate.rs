//! `segno sessions move`: changes the folder of a session.

use std::path::PathBuf;
use std::process::ExitCode;

use segno_sessions as sessions;
use segno_sessions::relocate::{self, Relocated};
use serde_json::json;

use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Change the folder of a session, after the folder was renamed or moved.
///
/// Touches no files. Paths in the old folder are mapped to the new one, and resumed agents are told
/// that the folder moved.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    session: String,
    /// New folder of the session
    folder: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let summary = sessions::find(&env, &args.session).await?;
    let folder = workspace()?.join(&args.folder);
    let relocated = relocate::relocate(&env, &summary, &folder).await?;
    let (from, to) = match &relocated {
        Relocated::Moved { from, to } => (from, to),
        Relocated::Unchanged => (&summary.workspace, &summary.workspace),
    };
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "moved",
            "session": summary.id,
            "name": summary.name,
            "from": from,
            "workspace": to,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let verb = match relocated {
        Relocated::Moved { .. } => "works in",
        Relocated::Unchanged => "works already in",
    };
    stdout_line(&format!(
        "{} ({}) {verb} {}",
        summary.name,
        summary.id,
        text::sanitize(to)
    ));
    Ok(ExitCode::SUCCESS)
}
