//! Resumes a session where it stopped.
//!
//! [`resume`] acquires the lease, has [`next_run`] prepare the run from the verified journal, and
//! hands it to [`run::execute`]. Which resume strategy a CLI agent uses is decided when its step
//! runs ([`segno_engine::resume`]). `plan` says beforehand what a resume would do.

pub mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::checkpoint::Trigger;
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind as ErrorKind};
use segno_core::journal::InFlight;
use segno_core::session::Status;
use segno_core::state::Created;
use segno_core::step;
use segno_core::store::{Error as StoreError, Summary};
use segno_engine::between_runs::BetweenRuns;
use segno_engine::run::RunStart;
use segno_engine::steps::chat::Audience;
use segno_engine::{
    Env, Observer, Outcome, StopToken, between_runs, checkpoint, checkpointer, history, lease, run,
};

use crate::last_run::LastRun;
use crate::listing::resumable_sessions;
use crate::next_run::SessionEnded;
use crate::progress::Progress;
use crate::spec_edit::{self, Consent};
use crate::start::{self, Request, SpecError, read_spec};
use crate::unknown::Decisions;
use crate::{chat, next_run, unknown};

pub use crate::next_run::{OnLimit, Options};

/// Why a session was not resumed or planned, or its run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    BetweenRuns(#[from] between_runs::Error),
    #[error(transparent)]
    Lease(#[from] lease::Error),
    /// The stored copy of a conversation cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    #[error(transparent)]
    NextRun(#[from] next_run::Error),
    #[error(transparent)]
    Chat(#[from] chat::Error),
    #[error(transparent)]
    Run(#[from] segno_engine::Error),
    #[error("no session in {} can be resumed", .workspace.display())]
    NothingToResume { workspace: PathBuf },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::BetweenRuns(error) => error.diagnosis(),
            Self::Lease(error) => error.diagnosis(),
            Self::Checkpoint(error) => error.diagnosis(),
            Self::NextRun(error) => error.diagnosis(),
            Self::Chat(error) => error.diagnosis(),
            Self::Run(error) => error.diagnosis(),
            Self::NothingToResume { .. } => Diagnosis::new(ErrorKind::NotFound, "S0106")
                .hint("`segno sessions list --all` lists the sessions of all folders"),
        }
    }
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        Self::NextRun(error.into())
    }
}

impl From<SessionEnded> for Error {
    fn from(error: SessionEnded) -> Self {
        Self::NextRun(error.into())
    }
}

/// Resumes a session.
pub async fn resume(
    env: &Env,
    summary: Summary,
    options: Options,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    let requested = requested_message(env, &summary).await?;
    if chat::takes_messages(env, &summary).await? {
        let audience = Audience::Absent;
        if let (Some(message), None) = (&requested, &options.message) {
            let sending = chat::send_with(
                env, &summary, message, options, audience, observer, stop_token,
            );
            return Ok(Box::pin(sending).await?);
        }
        let resuming = chat::resume(env, &summary, options, audience, observer, stop_token);
        return Ok(Box::pin(resuming).await?);
    }
    next_run::check_resumable(&summary)?;
    let mut options = options;
    options.message = options.message.or(requested);
    let (env, run_start) = loop {
        let lease = lease::acquire(env, &summary).await?;
        let preparing = next_run::prepare(env, &summary, lease.run, options.clone(), &*observer);
        match preparing.await {
            Ok(begun) => break begun,
            Err(error) => {
                // Nothing was written, so nothing is left behind but a run number.
                let _ = env.store.release(summary.id, lease.run).await;
                // The lease is not held while the user reads.
                match error {
                    next_run::Error::UnknownOutcome { steps, .. } => {
                        let said = ask_about_steps(env, &summary, &mut options, steps);
                        said.await?;
                    }
                    error => options.consent = ask_for_consent(env, error).await?,
                }
            }
        }
    };
    announce(&env, &run_start, &*observer).await;
    let lost = run_start.state.status == Status::Running;
    if lost && run_start.workflow.checkpoints.on.contains(&Trigger::Crash) {
        // A checkpoint of what the lost run left behind, before this run changes anything.
        Box::pin(checkpointer::take_checkpoint(
            &env,
            run_start.session,
            Trigger::Crash,
            &*observer,
        ))
        .await;
    }
    Ok(Box::pin(run::execute(&env, run_start, observer, stop_token)).await?)
}

/// The message of the run that the session waits for. The process that starts that run sends it.
async fn requested_message(env: &Env, summary: &Summary) -> Result<Option<String>, history::Error> {
    if summary.status != Status::Pending {
        return Ok(None);
    }
    let state = history::load_state(env, summary.id).await?;
    let request = state.request();
    Ok(request.and_then(|request| request.options.message.clone()))
}

/// Tells the user how the last run ended, how far the session is, and its new number.
async fn announce(env: &Env, run_start: &RunStart, observer: &dyn Observer) {
    let RunStart {
        session,
        workflow,
        state,
        finished,
        ..
    } = run_start;
    let before = match (LastRun::of(state), &state.forked) {
        (Some(last), _) => last.describe(env.clock.now()),
        (None, Some(forked)) => format!("forked from {}", forked.name),
        (None, None) => "never started".to_owned(),
    };
    // The run reports what cannot be read.
    let Ok(progress) = Progress::at(env, *session, workflow, state, finished).await else {
        return;
    };
    observer.notice(&format!(
        "{before}; {}; this is session number {}",
        progress.describe(),
        state.session_number + 1
    ));
}

/// Asks the user at the terminal what happened in steps with an unknown outcome, if that is the policy.
/// If the user leaves some of them open, what is said about the others is journaled, and the error
/// names those that are left.
async fn ask_about_steps(
    env: &Env,
    summary: &Summary,
    options: &mut Options,
    steps: Vec<step::Path>,
) -> Result<(), Error> {
    let asked = env.human.as_ref();
    let asked = asked.filter(|_| options.in_flight == Some(InFlight::Ask));
    let said = match asked {
        Some(human) => unknown::ask(&**human, &steps).await,
        None => Vec::new(),
    };
    let left = steps[said.len()..].to_vec();
    options.decisions.extend(said);
    if left.is_empty() {
        return Ok(());
    }
    record(env, summary, options).await?;
    let name = summary.name.clone();
    Err(next_run::Error::UnknownOutcome { name, steps: left }.into())
}

/// Journals what the user said, without a run: the resume is refused because of other steps.
async fn record(env: &Env, summary: &Summary, options: &Options) -> Result<(), Error> {
    let said = Decisions {
        by: &options.by,
        decisions: &options.decisions,
    };
    let between_runs = BetweenRuns::acquire(env, summary)
        .await
        .map_err(Error::from)?;
    match next_run::events_between_runs(env, summary, &between_runs.state, said).await {
        Ok(events) if events.is_empty() => between_runs.release().await,
        Ok(events) => {
            let mut all = unknown::loss(&between_runs.state);
            all.extend(events);
            between_runs.append(all).await?;
        }
        Err(error) => {
            between_runs.release().await;
            return Err(error.into());
        }
    }
    Ok(())
}

/// Asks the user at the terminal whether an edited spec may start what it adds. Returns the error if
/// it is another one, if there is no user, or if the user declines.
async fn ask_for_consent(env: &Env, error: next_run::Error) -> Result<Consent, next_run::Error> {
    let (Some(human), next_run::Error::SpecEdit(spec_edit::Error::StartsOthers { added, .. })) =
        (&env.human, &error)
    else {
        return Err(error);
    };
    let listed: Vec<String> = added.iter().map(|item| format!("  {item}")).collect();
    let question = "Did you make this edit, and may it use these? (y/N)";
    let shown = format!("{error}:\n{}", listed.join("\n"));
    match human.ask(question, Some(&shown)).await {
        Some(answer) if answer.trim().eq_ignore_ascii_case("y") => Ok(Consent::To(added.clone())),
        _ => Err(error),
    }
}

/// The newest resumable session of a workspace that has no active run.
pub async fn newest(env: &Env, workspace: &Path) -> Result<Summary, Error> {
    let mut found = resumable_sessions(env, workspace).await?;
    found.pop().ok_or_else(|| Error::NothingToResume {
        workspace: workspace.to_owned(),
    })
}

/// The newest resumable session without an active run that `request` would start again: the same
/// spec, workspace, variables and artifact folder, and the same name if one is given.
pub async fn unfinished(env: &Env, request: &Request) -> Result<Option<Summary>, Error> {
    let (text, workflow) = read_spec(env, &request.spec)?;
    let (spec_env, _) = env.for_workflow(&workflow, &request.spec, &|_| {});
    let variables = start::bind(&spec_env, &workflow, request, &|_| {})?;
    let digest = Some(Digest::of(text.as_bytes()));
    for summary in resumable_sessions(env, &request.workspace)
        .await?
        .into_iter()
        .rev()
    {
        let named = request
            .name
            .as_ref()
            .is_none_or(|name| *name == summary.name);
        if !named || summary.spec_digest != digest {
            continue;
        }
        let created = history::load_state(env, summary.id).await?.created;
        let alike = |created: &Created| {
            created.variables == variables && Path::new(&created.out) == request.out
        };
        if created.as_ref().is_some_and(alike) {
            return Ok(Some(summary));
        }
    }
    Ok(None)
}
