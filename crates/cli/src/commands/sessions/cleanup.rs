//! `segno sessions cleanup`, and the automatic cleanup after a run.

use std::process::ExitCode;
use std::time::Duration;

use segno_core::id::Name;
use segno_core::ports::Access;
use segno_core::time::{Timestamp, format_duration};
use segno_engine::Env;
use segno_sessions as sessions;
use segno_sessions::chat::{self, Effect};
use segno_sessions::trash::{self, Target, TrashItem};
use segno_sessions::{ListedSession, checkpoint};
use serde_json::json;

use super::trash::{deletion_json, destroy, sweep_blobs};
use crate::config::{self, Config};
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Move old sessions to the trash, and empty it of expired ones.
///
/// Archives chats that have been idle for long; they can be reopened. Completed sessions are kept
/// unless `--completed` is given, and resumable sessions unless `--unfinished` is given. Running
/// sessions are never deleted. Sessions that have been in the trash for longer than
/// `trash.keep_days` are deleted permanently.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Minimum age of the last event [default: 7, or `cleanup.max_age_days` in config.toml]
    #[arg(long, value_name = "DAYS")]
    max_age_days: Option<u64>,
    /// Include completed sessions
    #[arg(long)]
    completed: bool,
    /// Keep completed sessions; the default, unless config.toml says otherwise
    #[arg(long, conflicts_with = "completed")]
    keep_completed: bool,
    /// Include paused, interrupted and failed sessions
    #[arg(long)]
    unfinished: bool,
    /// No effect: nothing is asked. Accepted for scripts
    #[arg(short, long, hide = true)]
    yes: bool,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one session per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let age = args.max_age_days.map_or(config.cleanup_age, |days| {
        Duration::from_secs(days.saturating_mul(86_400))
    });
    let effect = if args.dry_run {
        Effect::DryRun
    } else {
        Effect::Apply
    };
    let swept_chats = Box::pin(chat::sweep(&env, config.chat.limits, effect));
    let archived = swept_chats.await?.expired;
    let keep_completed = args.keep_completed || config.keep_completed && !args.completed;
    let old = sessions::outdated(&env, age, keep_completed, args.unfinished).await?;
    let expired = trash::expired(&env, config.trash_keep).await?;
    if !args.dry_run {
        discard(&env, &old).await?;
        destroy(&env, &expired).await?;
    }
    let deleted = !args.dry_run;
    if args.json {
        for name in &archived {
            json_line(&json!({"v": 1, "kind": "expiry", "name": name, "expired": deleted}));
        }
        let until = env.clock.now().after(config.trash_keep).to_string();
        for listed in &old {
            let summary = &listed.summary;
            json_line(
                &json!({"v": 1, "kind": "deletion", "session": summary.id, "name": summary.name, "deleted": deleted, "permanent": false, "until": until}),
            );
        }
        for trashed in &expired {
            json_line(&deletion_json(trashed, deleted));
        }
    } else {
        print_result(&old, &expired, &archived, deleted);
    }
    if deleted {
        sweep_blobs(&env, args.json).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_result(old: &[ListedSession], expired: &[TrashItem], archived: &[Name], deleted: bool) {
    for listed in old {
        stdout_line(&format!(
            "{} ({}), {}, last event {}",
            listed.summary.name, listed.summary.id, listed.status, listed.summary.updated_at
        ));
    }
    for trashed in expired {
        let (name, session) = (trashed.name(), trashed.discarded.session);
        let at = trashed.discarded.at;
        stdout_line(&format!("{name} ({session}), in the trash since {at}"));
    }
    let word = if deleted { "" } else { "would be " };
    for name in archived {
        stdout_line(&format!(
            "chat {name} {word}archived; `segno resume {name}` reopens it"
        ));
    }
    let count = |n: usize| text::count(n as u64, "session");
    if !old.is_empty() {
        stdout_line(&format!("{} {word}moved to the trash", count(old.len())));
    }
    if !expired.is_empty() {
        stdout_line(&format!(
            "{} {word}deleted permanently",
            count(expired.len())
        ));
    }
    if old.is_empty() && expired.is_empty() && archived.is_empty() {
        stdout_line("nothing is old enough to be deleted");
    } else if deleted && !old.is_empty() {
        stdout_line(
            "`segno sessions trash` lists them, `segno sessions restore NAME` restores one",
        );
    }
}

async fn discard(env: &Env, old: &[ListedSession]) -> Result<(), trash::Error> {
    for listed in old {
        // A session is moved to the trash even if its last checkpoint fails.
        if let Err(error) = checkpoint::create_before_expiry(env, &listed.summary).await {
            stderr_line(&format!(
                "note: no checkpoint of {}: {error}",
                listed.summary.name
            ));
        }
        trash::move_to_trash(env, &Target::Readable(listed.summary.clone())).await?;
    }
    Ok(())
}

/// Interval of the automatic cleanup.
const AUTO_INTERVAL: Duration = Duration::from_hours(24);

/// Cleans up after a run, if the settings enable it, at most once a day. A failed cleanup does not
/// change the result of the run.
pub(crate) async fn run_auto_cleanup(env: &Env, config: &Config) {
    if !config.cleanup_auto {
        return;
    }
    if let Err(failure) = run_daily_cleanup(env, config).await {
        stderr_line(&format!("note: the cleanup failed: {failure}"));
    }
}

async fn run_daily_cleanup(env: &Env, config: &Config) -> Result<(), Failure> {
    let now = env.clock.now();
    let (home, _) = config::locations()?;
    let stamp = home.join("cleaned");
    let last = env.disk.read(&stamp, 64).ok();
    let last = last.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok());
    // A timestamp in the future comes from a wrong clock and is ignored.
    if last.is_some_and(|last| last <= now.0 && now.since(Timestamp(last)) < AUTO_INTERVAL) {
        return Ok(());
    }
    let unwritten = |error: std::io::Error| Failure::internal(error.to_string());
    env.disk.remove(&stamp).map_err(unwritten)?;
    let text = format!("{}\n", now.0);
    match env.disk.create(&stamp, text.as_bytes(), Access::Private) {
        // Another process is cleaning up at the same time.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        other => other.map_err(unwritten)?,
    }
    Box::pin(chat::sweep(env, config.chat.limits, Effect::Apply)).await?;
    let old = sessions::outdated(env, config.cleanup_age, config.keep_completed, false).await?;
    let expired = trash::expired(env, config.trash_keep).await?;
    discard(env, &old).await?;
    destroy(env, &expired).await?;
    if !expired.is_empty() {
        trash::sweep(env).await?;
    }
    let count = |n: usize| text::count(n as u64, "session");
    let mut parts = Vec::new();
    if !old.is_empty() {
        parts.push(format!(
            "{} moved to the trash (`segno sessions restore NAME` restores one for {})",
            count(old.len()),
            format_duration(config.trash_keep)
        ));
    }
    if !expired.is_empty() {
        parts.push(format!("{} deleted permanently", count(expired.len())));
    }
    if !parts.is_empty() {
        stderr_line(&format!("note: cleaned up: {}", parts.join("; ")));
    }
    Ok(())
}
