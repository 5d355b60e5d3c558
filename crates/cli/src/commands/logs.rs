//! `segno logs`: prints the journal of a session.

use std::process::ExitCode;
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, JournalEvent};
use segno_core::sanitize::escape_json;
use segno_core::session::Status;
use segno_core::store::{Changed, Summary, Watch};
use segno_engine::{Env, history, lease};
use segno_sessions as sessions;
use segno_sessions::json;

use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::{progress, text, try_stdout_line};

/// Show the journal of a session, event by event.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// Follow new events until the session stops
    #[arg(short, long)]
    follow: bool,
    /// Include prompts and answers
    #[arg(long)]
    full: bool,
    /// Print JSON, one event per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How often a followed session is read although no event was reported: its process may have been
/// killed, and watching may not be possible.
const INTERVAL: Duration = Duration::from_secs(1);
/// The interval without reports.
const INTERVAL_WITHOUT_WATCH: Duration = Duration::from_millis(100);

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let summary = match &args.session {
        Some(reference) => sessions::find(&env, reference).await?,
        None => newest(&env).await?,
    };
    let mut head = Head::genesis(summary.id);
    let mut session_number = 0;
    // From here on, no event is missed.
    let mut watch = env.store.watch().ok().filter(|_| args.follow);
    loop {
        // Read the status before the journal: events that a run appends while it ends are then
        // still printed.
        let now = env.store.summary(summary.id).await?;
        let lease = env.store.lease(summary.id).await?;
        let status = lease::effective_status(&env, &now, &lease);
        let stopped = !matches!(status, Status::Running | Status::Pending);
        let mut closed = false;
        head = history::read_events(&env, summary.id, head, |entry| {
            if let Event::RunStarted(event) = &entry.event {
                session_number += u64::from(event.purpose.is_work());
            }
            closed |= !try_stdout_line(&line(args, summary.id, &entry, session_number));
            Ok(())
        })
        .await?;
        if !args.follow || stopped || closed {
            return Ok(ExitCode::SUCCESS);
        }
        wait(&env, watch.as_mut(), summary.id).await;
    }
}

/// Waits until the journal of a session may have grown.
pub(super) async fn wait(env: &Env, watch: Option<&mut Box<dyn Watch>>, session: SessionId) {
    let Some(watch) = watch else {
        return env.clock.sleep(INTERVAL_WITHOUT_WATCH).await;
    };
    let appended = async {
        while let Changed::Sessions(sessions) = watch.changed().await {
            if sessions.contains(&session) {
                return;
            }
        }
    };
    tokio::select! {
        () = appended => {}
        () = env.clock.sleep(INTERVAL) => {}
    }
}

async fn newest(env: &Env) -> Result<Summary, Failure> {
    let here = workspace()?;
    Ok(sessions::find_newest_in(env, &here).await?)
}

fn line(args: &Args, session: SessionId, entry: &JournalEvent, session_number: u64) -> String {
    if args.json {
        return escape_json(&json::entry(session, entry).to_string());
    }
    let what = match &entry.event {
        Event::RunStarted(event) if event.purpose.is_work() => format!(
            "session number {session_number} on {} (process {})",
            event.host, event.pid
        ),
        _ => progress::describe(entry),
    };
    let mut line = format!("{} {:>5}  {}", entry.at, entry.seq, text::sanitize(&what));
    if args.full {
        let context = match &entry.event {
            Event::StepStarted(event) => event.resume_context.clone(),
            _ => None,
        };
        for text in entry
            .event
            .text()
            .map(json::text)
            .into_iter()
            .chain(context)
        {
            for part in text::sanitize_lines(&text).lines() {
                line.push_str("\n                                | ");
                line.push_str(part);
            }
        }
    }
    line
}
