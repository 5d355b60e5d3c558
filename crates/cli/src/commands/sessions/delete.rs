use std::process::ExitCode;

use segno_core::id::{Name, SessionId};
use segno_engine::trash::{self, Target};
use segno_engine::{Error, World};
use serde_json::json;

use super::confirm;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Move a session to the trash, from where it can be restored.
///
/// A damaged session goes, too, if it is named by its whole id.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either
    session: String,
    /// Delete it for good, also out of the trash
    #[arg(long)]
    now: bool,
    /// Do not ask, with `--now`
    #[arg(short, long)]
    yes: bool,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is to go, and whether it has to be thrown away first.
struct Found {
    session: SessionId,
    name: Option<Name>,
    what: String,
    target: Option<Target>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, config) = context.world(Keep::Home)?;
    let found = find(&world, args).await?;
    let gone = !args.dry_run && (!args.now || confirm(&found.what, args.yes)?);
    if gone && let Some(target) = &found.target {
        trash::discard(&world, target).await?;
    }
    if gone && args.now {
        world.store.destroy(found.session).await?;
    }
    if args.json {
        let until = world.clock.now().after(config.trash_keep);
        json_line(&json!({
            "v": 1,
            "kind": "deletion",
            "session": found.session,
            "name": found.name,
            "deleted": gone,
            "for_good": args.now,
            "until": (!args.now).then(|| until.to_string()),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let what = plain::plain(&found.what);
    data(&match (gone, args.now) {
        (true, true) => format!("deleted {what} for good"),
        (true, false) => format!("moved {what} to the trash"),
        (false, true) if args.dry_run => format!("would delete {what} for good"),
        (false, false) => format!("would move {what} to the trash"),
        (false, true) => format!("kept {what}"),
    });
    if gone && !args.now {
        let name = found
            .name
            .map_or(found.session.to_string(), |name| name.to_string());
        data(&format!("`segno sessions restore {name}` brings it back"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(world: &World, args: &Args) -> Result<Found, Failure> {
    match trash::target(world, &args.session).await {
        Ok(target) => Ok(Found {
            session: target.id(),
            name: target.name().cloned(),
            what: describe(&target),
            target: Some(target),
        }),
        Err(Error::InTrash { session, name }) if args.now => Ok(Found {
            session,
            what: format!("{name} ({session}), in the trash"),
            name: Some(name),
            target: None,
        }),
        Err(error) => Err(error.into()),
    }
}

fn describe(target: &Target) -> String {
    match target {
        Target::Sound(summary) => format!(
            "{} ({}), {}, {} journal entries",
            summary.name,
            summary.id,
            summary.status,
            plain::number(summary.head.seq.0)
        ),
        Target::Damaged(session, error) => format!("{session} ({error})"),
    }
}
