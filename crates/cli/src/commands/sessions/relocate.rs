use std::path::PathBuf;
use std::process::ExitCode;

use segno_engine::relocate::{self, Relocated};
use segno_engine::sessions;
use serde_json::json;

use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Let a session go on in another folder, because its own was renamed or moved.
///
/// No file is touched. Paths of the session that lay in the old folder are meant in the new one, and
/// agents that go on are told that the folder has moved.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// The folder that it works in from now on
    folder: PathBuf,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = sessions::find(&world, &args.session).await?;
    let folder = workspace()?.join(&args.folder);
    let relocated = relocate::relocate(&world, &summary, &folder).await?;
    let (from, to) = match &relocated {
        Relocated::Moved { from, to } => (from, to),
        Relocated::There => (&summary.workspace, &summary.workspace),
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
        Relocated::There => "works already in",
    };
    data(&format!(
        "{} ({}) {verb} {}",
        summary.name,
        summary.id,
        plain::plain(to)
    ));
    Ok(ExitCode::SUCCESS)
}
