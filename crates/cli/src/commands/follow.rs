//! Shows a run that a worker does elsewhere, until it ends.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use segno_core::error::{Kind, known_code};
use segno_core::journal::{Event, Failure as JournaledFailure, Head, JournalEvent, RunOptions};
use segno_core::session::Status;
use segno_core::state::State;
use segno_core::store::Summary;
use segno_engine::{Env, Observer, Outcome, Saved, history, journal, lease};
use segno_sessions::control::Control;
use segno_sessions::unknown::Decision;
use tokio::signal::unix::{SignalKind, signal};

use super::logs;
use super::run::print_outcome;
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::stderr_line;

/// A run that is lost stays so for this long before it is given up: a worker may resume it.
const LOST: Duration = Duration::from_secs(30);

/// Asks a worker to run a session, and shows the run.
pub(crate) async fn run(
    env: &Env,
    control: &dyn Control,
    summary: &Summary,
    (options, decisions): (RunOptions, &[Decision]),
    json: bool,
) -> Result<ExitCode, Failure> {
    let after = env.store.summary(summary.id).await?.head;
    let requested = control.request_run(summary, options, decisions).await?;
    until_stopped(env, &requested, after, json).await
}

/// Shows the events of a session after `after`, until its run ends. Ctrl-C ends only the display.
pub(crate) async fn until_stopped(
    env: &Env,
    session: &Summary,
    after: Head,
    json: bool,
) -> Result<ExitCode, Failure> {
    let progress = Arc::new(Progress::new(json, Arc::clone(&env.clock)));
    let failed = |error| Failure::internal(format!("Ctrl-C cannot be read: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let animated = Arc::clone(&progress);
    let end = tokio::select! {
        end = follow(env, session, after, &progress) => end?,
        () = animated.animate_forever() => unreachable!("it never ends"),
        _ = interrupt.recv() => {
            progress.clear();
            let name = &session.name;
            stderr_line(&format!("{name} continues where it runs; `segno pause {name}` pauses it"));
            return Ok(ExitCode::from(130));
        }
    };
    progress.clear();
    report(env, session, end, &progress, json).await
}

/// How a run ended.
enum End {
    Ended(Option<JournaledFailure>),
    /// It did not start.
    Withdrawn(Option<JournaledFailure>),
    /// Its process is gone.
    Lost,
}

async fn follow(
    env: &Env,
    session: &Summary,
    after: Head,
    progress: &Progress,
) -> Result<End, Failure> {
    let mut watch = env.store.watch().ok();
    let (mut head, mut is_started, mut lost_since) = (after, false, None);
    loop {
        let mut end = None;
        head = history::read_events(env, session.id, head, |entry| {
            match &entry.event {
                Event::RunStarted(event) if event.purpose.is_work() => is_started = true,
                Event::RunEnded(event) if is_started => {
                    end = Some(End::Ended(event.error.clone()));
                }
                Event::RunWithdrawn(event) => end = Some(End::Withdrawn(event.error.clone())),
                _ => {}
            }
            show(session, &entry, progress);
            Ok(())
        })
        .await?;
        if let Some(end) = end {
            return Ok(end);
        }
        let summary = env.store.summary(session.id).await?;
        let lease = env.store.lease(session.id).await?;
        match lease::effective_status(env, &summary, &lease) {
            Status::Interrupted => {
                let now = env.clock.elapsed();
                let since = *lost_since.get_or_insert(now);
                if now.saturating_sub(since) >= LOST {
                    return Ok(End::Lost);
                }
            }
            _ => lost_since = None,
        }
        logs::wait(env, watch.as_mut(), session.id).await;
    }
}

fn show(session: &Summary, entry: &JournalEvent, progress: &Progress) {
    match &entry.event {
        // Who asked for the run is known.
        Event::RunRequested(_) => {}
        _ => progress.event(session.id, entry),
    }
}

async fn report(
    env: &Env,
    session: &Summary,
    end: End,
    progress: &Progress,
    json: bool,
) -> Result<ExitCode, Failure> {
    let name = &session.name;
    let summary = env.store.summary(session.id).await?;
    let state = history::load_state(env, session.id).await?;
    let error = match end {
        End::Ended(error) | End::Withdrawn(error) => error,
        End::Lost => {
            let message = format!("the process that ran session `{name}` is gone");
            let hint = format!("`segno resume {name}` resumes it");
            return Err(Failure::of_run(
                message,
                Kind::Interrupted,
                "R0102",
                Some(hint),
            ));
        }
    };
    if state.status == Status::Completed {
        let output = match &state.output {
            Some(text) => journal::load_text(env, text).await?,
            None => String::new(),
        };
        let outcome = Outcome {
            session: session.id,
            name: summary.name,
            run: summary.run,
            output,
            saved: Saved::default(),
            state,
        };
        print_outcome(progress, &outcome, json);
        return Ok(ExitCode::SUCCESS);
    }
    Err(failure(&summary, &state, error))
}

/// Why the session is not completed, as the run itself would have said it.
fn failure(summary: &Summary, state: &State, error: Option<JournaledFailure>) -> Failure {
    let name = &summary.name;
    let resume = format!("`segno resume {name}` resumes it");
    if let Some(error) = error {
        let kind = match state.status {
            Status::Paused => Kind::LimitReached,
            _ => Kind::RunFailed,
        };
        let code = known_code(&error.kind).unwrap_or("R0101");
        return Failure::of_run(error.message, kind, code, Some(resume));
    }
    if state.status == Status::Waiting {
        let asked = state.questions.values().next();
        let prompt = asked.map_or("", |asked| asked.prompt.as_str());
        let message = format!("session `{name}` waits for your answer: {prompt}");
        let hint = format!("`segno answer {name} TEXT --resume`");
        return Failure::of_run(message, Kind::NeedsUser, "R0108", Some(hint));
    }
    let by = state.stopped.as_ref().map(|stopped| stopped.by.as_str());
    let by = by.map_or(String::new(), |by| format!(", requested by {by}"));
    let message = format!("session `{name}` is {}{by}", state.status);
    let (kind, hint) = match state.status {
        Status::Paused => (Kind::Paused, Some(resume)),
        Status::Interrupted => (Kind::Interrupted, Some(resume)),
        _ => (Kind::RunFailed, None),
    };
    Failure::of_run(message, kind, "R0102", hint)
}
