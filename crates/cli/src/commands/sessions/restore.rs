//! `segno sessions restore`: restores a session from the trash.

use std::process::ExitCode;

use segno_core::id::Name;
use segno_sessions::trash;
use serde_json::json;

use crate::commands::run::name;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line};

/// Restore a session from the trash.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    session: String,
    /// New name of the session [default: its name, numbered if taken]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let discarded = trash::find(&env, &args.session).await?;
    let name = trash::restore(&env, &discarded, args.name).await?;
    if args.json {
        json_line(&json!({"v": 1, "kind": "restored", "session": discarded.session, "name": name}));
    } else {
        stdout_line(&format!("restored {name} ({})", discarded.session));
    }
    Ok(ExitCode::SUCCESS)
}
