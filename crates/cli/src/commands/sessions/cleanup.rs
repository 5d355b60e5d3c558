use std::process::ExitCode;
use std::time::Duration;

use segno_core::id::Name;
use segno_core::ports::Access;
use segno_core::time::{Timestamp, human};
use segno_engine::chat::{self, Effect};
use segno_engine::sessions::{self, Listed};
use segno_engine::trash::{self, Target, Thrown};
use segno_engine::{Error, World, checkpoint};
use serde_json::json;

use super::trash::{destroy, destruction, swept};
use crate::config::{self, Config};
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

/// Move old sessions that are over to the trash, and empty it of what is old.
///
/// Chats in which nothing was said for long are archived: they are as good as over until someone goes on
/// with them. Completed sessions are kept unless `--completed` is given, and sessions that can still go on are
/// kept unless `--unfinished` is. What is running is never deleted. What has been in the trash for
/// longer than `trash.keep_days` goes for good.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How old the last entry must be [default: 7, or as config.toml says]
    #[arg(long, value_name = "DAYS")]
    max_age_days: Option<u64>,
    /// Completed ones, too
    #[arg(long)]
    completed: bool,
    /// Paused, interrupted and failed ones, too
    #[arg(long)]
    unfinished: bool,
    /// Nothing is asked any more; scripts of before may say it
    #[arg(short, long, hide = true)]
    yes: bool,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON, one line per session
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, config) = context.world(Keep::Home)?;
    let age = args.max_age_days.map_or(config.cleanup_age, |days| {
        Duration::from_secs(days.saturating_mul(86_400))
    });
    let effect = if args.dry_run {
        Effect::Foreseen
    } else {
        Effect::Real
    };
    let swept_chats = Box::pin(chat::sweep(&world, config.chat.limits, effect));
    let archived = swept_chats.await?.expired;
    let keep_completed = config.keep_completed && !args.completed;
    let old = sessions::outdated(&world, age, keep_completed, args.unfinished).await?;
    let expired = trash::expired(&world, config.trash_keep).await?;
    if !args.dry_run {
        discard(&world, &old).await?;
        destroy(&world, &expired).await?;
    }
    let gone = !args.dry_run;
    if args.json {
        for name in &archived {
            json_line(&json!({"v": 1, "kind": "expiry", "name": name, "expired": gone}));
        }
        let until = world.clock.now().after(config.trash_keep).to_string();
        for listed in &old {
            let summary = &listed.summary;
            json_line(
                &json!({"v": 1, "kind": "deletion", "session": summary.id, "name": summary.name, "deleted": gone, "for_good": false, "until": until}),
            );
        }
        for thrown in &expired {
            json_line(&destruction(thrown, gone));
        }
    } else {
        tell(&old, &expired, &archived, gone);
    }
    if gone {
        swept(&world, args.json).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(old: &[Listed], expired: &[Thrown], archived: &[Name], gone: bool) {
    for listed in old {
        data(&format!(
            "{} ({}), {}, last entry {}",
            listed.summary.name, listed.summary.id, listed.standing, listed.summary.updated_at
        ));
    }
    for thrown in expired {
        let (name, session) = (thrown.name(), thrown.discarded.session);
        let at = thrown.discarded.at;
        data(&format!("{name} ({session}), in the trash since {at}"));
    }
    let word = if gone { "" } else { "would be " };
    for name in archived {
        data(&format!(
            "chat {name} {word}archived; `segno resume {name}` reopens it"
        ));
    }
    let count = |n: usize| plain::count(n as u64, "session");
    if !old.is_empty() {
        data(&format!("{} {word}moved to the trash", count(old.len())));
    }
    if !expired.is_empty() {
        data(&format!("{} {word}deleted for good", count(expired.len())));
    }
    if old.is_empty() && expired.is_empty() && archived.is_empty() {
        data("nothing is old enough to be deleted");
    } else if gone && !old.is_empty() {
        data("`segno sessions trash` lists them, `segno sessions restore NAME` brings one back");
    }
}

async fn discard(world: &World, old: &[Listed]) -> Result<(), Error> {
    for listed in old {
        // What cannot be kept of its files is no reason to keep the session.
        if let Err(error) = checkpoint::before_expiry(world, &listed.summary).await {
            say(&format!(
                "note: no checkpoint of {}: {error}",
                listed.summary.name
            ));
        }
        trash::discard(world, &Target::Sound(listed.summary.clone())).await?;
    }
    Ok(())
}

/// How often sessions are cleaned up without being asked to.
const DAILY: Duration = Duration::from_hours(24);

/// Cleans up after a run if the person wants that, at most once a day. Whatever comes of it, the run
/// went as it went.
pub(crate) async fn after_a_run(world: &World, config: &Config) {
    if !config.cleanup_auto {
        return;
    }
    if let Err(failure) = daily(world, config).await {
        say(&format!("note: the cleanup did not work: {failure}"));
    }
}

async fn daily(world: &World, config: &Config) -> Result<(), Failure> {
    let now = world.clock.now();
    let (home, _) = config::locations()?;
    let note = home.join("cleaned");
    let last = world.disk.read(&note, 64).ok();
    let last = last.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok());
    // A note from the future is from a clock that was wrong.
    if last.is_some_and(|last| last <= now.0 && now.since(Timestamp(last)) < DAILY) {
        return Ok(());
    }
    let unwritten = |error: std::io::Error| Failure::internal(error.to_string());
    world.disk.remove(&note).map_err(unwritten)?;
    let text = format!("{}\n", now.0);
    match world.disk.create(&note, text.as_bytes(), Access::Private) {
        // Someone else is at it in this moment.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        other => other.map_err(unwritten)?,
    }
    Box::pin(chat::sweep(world, config.chat.limits, Effect::Real)).await?;
    let old = sessions::outdated(world, config.cleanup_age, config.keep_completed, false).await?;
    let expired = trash::expired(world, config.trash_keep).await?;
    discard(world, &old).await?;
    destroy(world, &expired).await?;
    if !expired.is_empty() {
        trash::sweep(world).await?;
    }
    let count = |n: usize| plain::count(n as u64, "session");
    let mut told = Vec::new();
    if !old.is_empty() {
        told.push(format!(
            "{} moved to the trash (`segno sessions restore NAME` brings one back for {})",
            count(old.len()),
            human(config.trash_keep)
        ));
    }
    if !expired.is_empty() {
        told.push(format!("{} deleted for good", count(expired.len())));
    }
    if !told.is_empty() {
        say(&format!("note: cleaned up: {}", told.join("; ")));
    }
    Ok(())
}
