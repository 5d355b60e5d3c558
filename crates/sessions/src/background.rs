//! Hands sessions to workers, which run them in the background.
//!
//! That a run is wanted is an event of the session's journal. So a request survives everything, has
//! an author and a time, and the session's status says that it waits: `pending`. A worker's process
//! then runs it with [`run_requested`]. A request ends when its run starts, or when it is withdrawn,
//! by a user or because the run cannot start.

use std::sync::Arc;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::fault::{Point, point};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Failure, Run, RunOptions, RunRequested, RunWithdrawn};
use segno_core::session::Status;
use segno_core::state::{RunRequest, State};
use segno_core::store::{Error as StoreError, Summary};
use segno_engine::between_runs::{self, BetweenRuns};
use segno_engine::observe::NoObserver;
use segno_engine::{Env, Observer, Outcome, StopToken, history};
use segno_spec::{OnLost, Workflow};

use crate::chat::NewChat;
use crate::next_run::{Options, SessionEnded};
use crate::start::{self, Request, create_sealed, load_text, read_spec};
use crate::unknown::{self, Decision, Decisions};
use crate::{chat, next_run, resume};

/// Who withdraws a request whose run cannot start.
const WORKER: &str = "worker";

/// Why no run was requested, or none withdrawn.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    BetweenRuns(#[from] between_runs::Error),
    #[error(transparent)]
    Ended(#[from] SessionEnded),
    #[error(transparent)]
    Chat(#[from] chat::Error),
    /// What the user says about an unknown outcome cannot be used.
    #[error(transparent)]
    Decision(#[from] next_run::Error),
    #[error("session `{name}` does not wait for a worker; it is {status}")]
    NotPending { name: Name, status: Status },
}

impl Error {
    /// Whether a run holds the session.
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::BetweenRuns(error) if error.is_held())
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::BetweenRuns(error) => error.diagnosis(),
            Self::Ended(error) => error.diagnosis(),
            Self::Chat(error) => error.diagnosis(),
            Self::Decision(error) => error.diagnosis(),
            Self::NotPending { name, .. } => Diagnosis::new(Kind::Conflict, "S0120")
                .hint(format!("`segno show {name}` shows its state")),
        }
    }
}

/// Creates a session from a spec file, for a worker to run. Everything that [`start::start`] checks
/// is checked, except the agents: they are prepared by the worker, in whose environment they run.
pub async fn submit(
    env: &Env,
    request: Request,
    by: String,
    notice: &(dyn Fn(&str) + Sync),
) -> Result<Summary, start::Error> {
    let (text, workflow) = read_spec(env, &request.spec)?;
    submit_parsed(env, start::new_id(env), text, workflow, request, by, notice).await
}

/// Creates a session from the text of a spec that has no file, for a worker to run.
pub async fn submit_text(
    env: &Env,
    session: SessionId,
    text: &str,
    request: Request,
    by: String,
    notice: &(dyn Fn(&str) + Sync),
) -> Result<Summary, start::Error> {
    let (text, workflow) = load_text(text)?;
    submit_parsed(env, session, text, workflow, request, by, notice).await
}

async fn submit_parsed(
    env: &Env,
    session: SessionId,
    text: String,
    workflow: Workflow,
    request: Request,
    by: String,
    notice: &(dyn Fn(&str) + Sync),
) -> Result<Summary, start::Error> {
    let (env, _) = &env.for_workflow(&workflow, &request.spec, notice);
    let variables = start::bind(env, &workflow, &request, notice)?;
    let (created, naming) = start::describe(env, &text, &workflow, request, variables).await?;
    let created = start::with_commit(env, created).await;
    let requested = requested(env, by, RunOptions::default(), None);
    let at = env.clock.now();
    let seal = |created| {
        let events = [Event::from(created), requested.clone().into()];
        let events = events.into_iter().map(|event| (at, event)).collect();
        start::seal(&mut State::empty(session), session, Run(1), events)
    };
    create_sealed(env, session, &created, naming, seal).await?;
    point(Point::BackgroundAfterRequest);
    Ok(env.store.summary(session).await?)
}

/// Opens a chat and hands its first message to a worker.
pub async fn submit_chat(
    env: &Env,
    session: SessionId,
    opening: NewChat,
    message: String,
    by: String,
    notice: &(dyn Fn(&str) + Sync),
) -> Result<Summary, Error> {
    let message = chat::validate_message(env, &message, &NoObserver)?;
    let summary = chat::open_idle(env, session, opening, notice).await?;
    let options = RunOptions {
        message: Some(message),
        ..RunOptions::default()
    };
    request(env, &summary, by, options, &[]).await
}

/// Requests a run of a session, for a user, and journals what the user says about unknown outcomes with
/// it. A request that waits already is replaced.
pub async fn request(
    env: &Env,
    summary: &Summary,
    by: String,
    mut options: RunOptions,
    decisions: &[Decision],
) -> Result<Summary, Error> {
    if let Some(message) = &options.message
        && chat::takes_messages(env, summary)
            .await
            .map_err(between_runs::Error::from)?
    {
        options.message = Some(chat::validate_message(env, message, &NoObserver)?);
    }
    append_request(env, summary, requested(env, by, options, None), decisions).await
}

/// Hands the next message of a chat to a worker. Refused while another one waits.
pub async fn send(
    env: &Env,
    summary: &Summary,
    by: String,
    message: String,
) -> Result<Summary, Error> {
    chat::is_chat(summary)?;
    let options = RunOptions {
        message: Some(message),
        ..RunOptions::default()
    };
    request(env, summary, by, options, &[]).await
}

/// Requests a run of a session whose run ended without a user's decision; `evidence` says why.
pub async fn request_automatically(
    env: &Env,
    summary: &Summary,
    evidence: String,
) -> Result<Summary, Error> {
    let options = RunOptions::default();
    let request = requested(env, WORKER.to_owned(), options, Some(evidence));
    append_request(env, summary, request, &[]).await
}

/// The event, without secrets (P12).
fn requested(env: &Env, by: String, options: RunOptions, evidence: Option<String>) -> RunRequested {
    let plain = |text: String| env.redactor.redact(&text).into_owned();
    RunRequested {
        by: plain(by),
        options: RunOptions {
            message: options.message.map(plain),
            agent: options.agent.map(plain),
            ..options
        },
        evidence: evidence.map(plain),
    }
}

/// Appends a request. One that replaces another keeps the message of that one: nobody loses a message.
async fn append_request(
    env: &Env,
    summary: &Summary,
    mut request: RunRequested,
    decisions: &[Decision],
) -> Result<Summary, Error> {
    let between_runs = BetweenRuns::acquire(env, summary).await?;
    let state = &between_runs.state;
    if state.status.is_final() {
        let ended = SessionEnded::new(summary, state.status);
        between_runs.release().await;
        return Err(ended.into());
    }
    let waiting = state.request();
    if let Some(message) = waiting.and_then(|waiting| waiting.options.message.clone()) {
        if request.options.message.is_some() {
            between_runs.release().await;
            let name = summary.name.clone();
            return Err(chat::Error::MessageWaits { name }.into());
        }
        request.options.message = Some(message);
    }
    let mut events = unknown::loss(state);
    let by = &request.by;
    let decided =
        next_run::events_between_runs(env, summary, state, Decisions { by, decisions }).await;
    match decided {
        Ok(decided) => events.extend(decided),
        Err(error) => {
            between_runs.release().await;
            return Err(error.into());
        }
    }
    events.push(request.into());
    between_runs.append(events).await?;
    point(Point::BackgroundAfterRequest);
    Ok(env.store.summary(summary.id).await?)
}

/// Withdraws the requested run of a session for a user. The session has its earlier status afterwards.
pub async fn withdraw(env: &Env, summary: &Summary, by: &str) -> Result<Summary, Error> {
    let by = env.redactor.redact(by).into_owned();
    append_withdrawal(env, summary, RunWithdrawn { by, error: None }, |_| true).await
}

/// Withdraws a request whose run could not start, unless the session has changed since `seen` was
/// read: then the run did start, and someone has requested another one, which stays.
pub async fn withdraw_failed(env: &Env, seen: &Summary, error: Failure) -> Result<Summary, Error> {
    let withdrawn = RunWithdrawn {
        by: WORKER.to_owned(),
        error: Some(error),
    };
    let is_unchanged = |state: &State| state.head.seq == seen.head.seq;
    append_withdrawal(env, seen, withdrawn, is_unchanged).await
}

async fn append_withdrawal(
    env: &Env,
    summary: &Summary,
    withdrawn: RunWithdrawn,
    is_meant: impl FnOnce(&State) -> bool,
) -> Result<Summary, Error> {
    let between_runs = BetweenRuns::acquire(env, summary).await?;
    let state = &between_runs.state;
    if state.request().is_none() || !is_meant(state) {
        let status = between_runs.state.status;
        between_runs.release().await;
        return Err(Error::NotPending {
            name: summary.name.clone(),
            status,
        });
    }
    between_runs.append(vec![withdrawn.into()]).await?;
    Ok(env.store.summary(summary.id).await?)
}

/// Why the requested run of a session did not take place, or failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Request(#[from] Error),
    #[error(transparent)]
    Resume(#[from] resume::Error),
}

impl Diagnose for RunError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Request(error) => error.diagnosis(),
            Self::Resume(error) => error.diagnosis(),
        }
    }
}

/// Runs a session as it was requested. If the run cannot start, the request is withdrawn with the
/// reason, unless another process has started it.
pub async fn run_requested(
    env: &Env,
    session: SessionId,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, RunError> {
    let summary = env.store.summary(session).await.map_err(Error::from)?;
    let Some(request) = pending_request(env, &summary).await? else {
        return Err(Error::NotPending {
            name: summary.name,
            status: summary.status,
        }
        .into());
    };
    let options = Options::from(RunOptions {
        // `resume` sends the message of the request by itself.
        message: None,
        ..request.options
    });
    let ran = resume::resume(env, summary.clone(), options, observer, stop_token).await;
    // A run that started and was stopped is an error, too, and may have been followed by another
    // request.
    let is_unchanged = async || {
        let now = env.store.summary(session).await;
        now.is_ok_and(|now| now.head == summary.head)
    };
    if let Err(error) = &ran
        && is_unchanged().await
    {
        let failure = Failure {
            kind: error.code().to_owned(),
            message: env.redactor.redact(&error.to_string()).into_owned(),
        };
        let _ = withdraw_failed(env, &summary, failure).await;
    }
    Ok(ran?)
}

/// Whether workers continue the session by themselves where no user has to decide.
pub async fn is_run_by_workers(env: &Env, summary: &Summary) -> Result<bool, history::Error> {
    let state = history::load_state(env, summary.id).await?;
    let is_handed_over = state.background.as_ref().is_some_and(|known| known.by_user);
    let workflow = history::recorded_spec(env, summary.id, &state).await?;
    Ok(match workflow.auto_resume.policy {
        Some(policy) => policy == OnLost::Auto,
        None => is_handed_over,
    })
}

/// The run that a session waits for.
pub async fn pending_request(env: &Env, summary: &Summary) -> Result<Option<RunRequest>, Error> {
    let state = history::load_state(env, summary.id).await;
    let state = state.map_err(between_runs::Error::from)?;
    Ok(state.request().cloned())
}
