//! `segno sessions delete`: moves a session to the trash, or deletes it permanently.

use std::process::ExitCode;

use segno_core::id::{Name, SessionId};
use segno_engine::Env;
use segno_sessions::listing::Error;
use segno_sessions::trash::{self, Target};
use serde_json::json;

use super::confirm;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Move a session to the trash, from where it can be restored.
///
/// A damaged session can be deleted, too, by its full id.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either
    session: String,
    /// Delete it permanently, even if it is in the trash
    #[arg(long)]
    permanent: bool,
    /// Do not ask for confirmation, with `--permanent`
    #[arg(short, long)]
    yes: bool,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The session to delete. `target` is absent if the session is already in the trash.
struct Found {
    session: SessionId,
    name: Option<Name>,
    what: String,
    target: Option<Target>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let found = find(&env, args).await?;
    let deleted = !args.dry_run && (!args.permanent || confirm(&found.what, args.yes)?);
    if deleted && let Some(target) = &found.target {
        trash::move_to_trash(&env, target).await?;
    }
    if deleted && args.permanent {
        env.store.destroy(found.session).await?;
    }
    if args.json {
        let until = env.clock.now().after(config.trash_keep);
        json_line(&json!({
            "v": 1,
            "kind": "deletion",
            "session": found.session,
            "name": found.name,
            "deleted": deleted,
            "permanent": args.permanent,
            "until": (!args.permanent).then(|| until.to_string()),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let what = text::sanitize(&found.what);
    stdout_line(&match (deleted, args.permanent) {
        (true, true) => format!("deleted {what} permanently"),
        (true, false) => format!("moved {what} to the trash"),
        (false, true) if args.dry_run => format!("would delete {what} permanently"),
        (false, false) => format!("would move {what} to the trash"),
        (false, true) => format!("kept {what}"),
    });
    if deleted && !args.permanent {
        let name = found
            .name
            .map_or(found.session.to_string(), |name| name.to_string());
        stdout_line(&format!("`segno sessions restore {name}` restores it"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(env: &Env, args: &Args) -> Result<Found, Failure> {
    match trash::target(env, &args.session).await {
        Ok(target) => Ok(Found {
            session: target.id(),
            name: target.name().cloned(),
            what: describe(&target),
            target: Some(target),
        }),
        Err(Error::InTrash { session, name }) if args.permanent => Ok(Found {
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
        Target::Readable(summary) => format!(
            "{} ({}), {}, {} events",
            summary.name,
            summary.id,
            summary.status,
            text::number(summary.head.seq.0)
        ),
        Target::Damaged(session, error) => format!("{session} ({error})"),
    }
}
