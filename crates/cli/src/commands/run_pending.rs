//! `segno __run`: the process in which a worker's session runs. Not for people: `segno resume` is.

use std::process::ExitCode;
use std::sync::Arc;

use segno_core::checkpoint::Trigger;
use segno_core::id::SessionId;
use segno_core::journal::{JournalEvent, StopMode, StopRequested};
use segno_core::session::Status;
use segno_engine::{Env, Observer, Stop, StopToken};
use segno_sessions::background;
use segno_supervisor::notices::Origin;
use tokio::signal::unix::{SignalKind, signal};

use super::run::{NOTICE_LIMIT, with_auto_cleanup};
use crate::context::{Context, Persistence, notices};
use crate::failure::Failure;
use crate::output::stderr_line;

/// Run a pending session.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    session: SessionId,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let stop_token = watch_signals()?;
    let notices = notices(&env, &config);
    let observer = notices.observe(Arc::new(Log), origin(&env, args.session).await?);
    let running = background::run_requested(&env, args.session, observer, stop_token);
    let ran = Box::pin(running).await;
    notices.finish(NOTICE_LIMIT).await;
    let ended = ran.map(|_| ExitCode::SUCCESS).map_err(Failure::from);
    with_auto_cleanup(ended, &env, &config).await
}

/// Who asked for the run.
async fn origin(env: &Env, session: SessionId) -> Result<Origin, Failure> {
    let summary = env.store.summary(session).await?;
    let request = background::pending_request(env, &summary).await?;
    let is_automatic = request.is_some_and(|request| request.evidence.is_some());
    Ok(if is_automatic {
        Origin::Automatic
    } else {
        Origin::User
    })
}

/// Writes what the user should know to the log of the run. Everything else is in the journal.
struct Log;

impl Observer for Log {
    fn event(&self, _: SessionId, _: &JournalEvent) {}

    fn notice(&self, message: &str) {
        stderr_line(message);
    }
}

fn when(mode: StopMode) -> &'static str {
    match mode {
        StopMode::Boundary => "after this step",
        StopMode::Now => "immediately",
    }
}

/// The first SIGTERM stops the run when its step is done, the second one at once. Either way nobody
/// decided to pause: the session is interrupted, and resumed as its policy says. Signals of terminals
/// are for the worker.
fn watch_signals() -> Result<StopToken, Failure> {
    let failed = |error| {
        Failure::internal(format!(
            "the signals of this process cannot be read: {error}"
        ))
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let stop_token = StopToken::default();
    let token = stop_token.clone();
    tokio::spawn(async move {
        let mut mode = StopMode::Boundary;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => continue,
                _ = interrupt.recv() => continue,
            }
            stderr_line(&format!("stopping {}", when(mode)));
            token.request_stop(Stop::Requested(StopRequested {
                by: "the worker, which stopped".to_owned(),
                mode,
                status: Status::Interrupted,
                reason: None,
                checkpoint: Some(Trigger::Shutdown),
            }));
            mode = StopMode::Now;
        }
    });
    Ok(stop_token)
}
