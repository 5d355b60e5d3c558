use std::process::ExitCode;

use segno_core::id::Name;
use segno_engine::trash;
use serde_json::json;

use crate::commands::run::name;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line};

/// Take a session out of the trash.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// What to call it from now on [default: its name, numbered if another has it]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let discarded = trash::find(&world, &args.session).await?;
    let name = trash::restore(&world, &discarded, args.name).await?;
    if args.json {
        json_line(&json!({"v": 1, "kind": "restored", "session": discarded.session, "name": name}));
    } else {
        data(&format!("restored {name} ({})", discarded.session));
    }
    Ok(ExitCode::SUCCESS)
}
