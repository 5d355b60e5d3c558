//! Prepares the next run of a session under its lease.
//!
//! [`prepare`] rebuilds state and finished steps from the verified journal, chooses the spec (the
//! edited file or the recorded copy), checks the workspace for drift and applies the user's
//! overrides. It refuses before anything is written, so that a refused resume leaves nothing behind
//! but a run number.

use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, InFlight, OnChange, Seq, SpecChanged};
use segno_core::resume::Strategy;
use segno_core::session::Status;
use segno_core::state::{AttemptStatus, FinishedSteps, OpenStep, State};
use segno_core::step;
use segno_core::store::{Error as StoreError, Summary};
use segno_core::time::format_duration;
use segno_engine::history::{self, recorded_spec};
use segno_engine::resume::drift::{self, OnDrift};
use segno_engine::resume::{Overrides, Replacement, strategies_above};
use segno_engine::run::RunStart;
use segno_engine::steps::{self, Agents, PrepareError};
use segno_engine::{AgentDriver, Env, Observer, env, journal, patterns, workspace};
use segno_spec as spec;
use segno_spec::{Agent, Provider, Workflow};
use tokio::task::JoinHandle;

use crate::spec_edit::{self, Consent, SpecEdit};
use crate::start::{SpecError, read_spec};

/// Why no further run of a session can start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The replacement for an agent cannot be used.
    #[error(transparent)]
    Driver(#[from] env::Error),
    #[error(transparent)]
    Ended(#[from] SessionEnded),
    /// The run was lost while steps were in flight, and the spec says `in_flight: stop`.
    #[error("the outcome of {} is unknown: the run was lost while it was in flight", join_shown(.steps.iter().map(|path| format!("step {path}"))))]
    UnknownOutcome { name: Name, steps: Vec<step::Path> },
    /// The edited spec is not used.
    #[error(transparent)]
    SpecEdit(#[from] spec_edit::Error),
    /// The workspace changed since the last run, and the drift policy is to refuse.
    #[error("the workspace changed since session `{name}` last ran: {}", join_shown(.drift))]
    WorkspaceDrifted { name: Name, drift: Vec<String> },
    #[error("the workspace of session `{name}`, {folder}, does not exist")]
    WorkspaceMissing { name: Name, folder: String },
    /// An option that only affects started work, where no work was started.
    #[error("`{option}` has no effect on session `{name}`: {reason}")]
    OptionWithoutEffect {
        name: Name,
        option: &'static str,
        reason: &'static str,
    },
    #[error(transparent)]
    NoSuchAgent(#[from] NoSuchAgent),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Spec(error) => error.diagnosis(),
            Self::Prepare(error) => error.diagnosis(),
            Self::Driver(error) => error.diagnosis(),
            Self::Ended(error) => error.diagnosis(),
            Self::UnknownOutcome { name, .. } => {
                Diagnosis::new(Kind::NeedsUser, "R0103").hint(format!(
                    "check whether it took effect; `segno resume {name} --in-flight repeat` runs it again"
                ))
            }
            Self::SpecEdit(error) => error.diagnosis(),
            Self::WorkspaceDrifted { name, .. } => {
                Diagnosis::new(Kind::Changed, "R0114").hint(format!(
                    "`segno resume {name} --on-drift warn` continues and tells the agent the current state"
                ))
            }
            Self::WorkspaceMissing { name, .. } => {
                Diagnosis::new(Kind::Invalid, "R0118").hint(format!(
                    "if you moved it, run `segno sessions move {name} FOLDER`; nothing was started"
                ))
            }
            Self::OptionWithoutEffect { name, .. } => Diagnosis::new(Kind::Invalid, "R0127")
                .hint(format!("`segno resume {name}` resumes without the option")),
            Self::NoSuchAgent(error) => error.diagnosis(),
        }
    }
}

/// The session has a final status and cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[error("session `{name}` ({session}) is {status}; fork it to continue from it")]
pub struct SessionEnded {
    pub session: SessionId,
    pub name: Name,
    pub status: Status,
}

impl SessionEnded {
    pub(crate) fn new(summary: &Summary, status: Status) -> Self {
        Self {
            session: summary.id,
            name: summary.name.clone(),
            status,
        }
    }
}

impl Diagnose for SessionEnded {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Conflict, "S0108").hint(format!(
            "`segno fork {}` makes a copy that can be resumed; `segno run` starts a new session",
            self.name
        ))
    }
}

/// No agent of this name can do the work.
#[derive(Debug, thiserror::Error)]
#[error("`{agent}` cannot take over: {reason}")]
pub struct NoSuchAgent {
    pub agent: String,
    pub reason: String,
}

impl Diagnose for NoSuchAgent {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Invalid, "R0115")
            .hint("use `claude`, `codex`, or an agent of the spec")
    }
}

/// What the user asks for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What to do if the spec was edited; by default the edited spec is used, unless it has other
    /// steps in the places of finished ones.
    pub on_change: Option<OnChange>,
    /// What the edited spec may start that the recorded one does not.
    pub consent: Consent,
    /// What to do about steps with unknown outcome; by default the spec decides.
    pub in_flight: Option<InFlight>,
    /// What to do if others changed the workspace.
    pub on_drift: OnDrift,
    /// Who continues the unfinished steps instead of the agent that started them: an agent of the
    /// spec, or a CLI agent.
    pub agent: Option<String>,
    /// The best resume strategy that is allowed.
    pub strategy: Option<Strategy>,
    /// An additional message to the agent.
    pub message: Option<String>,
    /// What to do about rate limits; by default the spec decides.
    pub on_limit: Option<OnLimit>,
}

/// What to do about rate limits whose end the provider announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLimit {
    /// As the spec says, but without waiting for the rest of an earlier run's wait.
    RetryNow,
    /// Wait, whatever the spec says.
    Wait,
    /// Pause, whatever the spec says.
    Pause,
}

/// The provider of a replacement: an agent of the spec, or a CLI agent, by name.
pub(crate) fn replacement_provider(
    workflow: &Workflow,
    name: &str,
) -> Result<Provider, NoSuchAgent> {
    let program = || {
        let name = if name == "claude" {
            "claude-code"
        } else {
            name
        };
        let program = name.parse().map_err(|_| NoSuchAgent {
            agent: name.to_owned(),
            reason: "it is neither an agent of the spec nor a CLI agent".to_owned(),
        })?;
        Ok(Provider::Program {
            program,
            model: None,
        })
    };
    let own = workflow.agents.get(name);
    own.map_or_else(program, |agent| Ok(agent.provider.clone()))
}

/// Refuses a session whose status cannot be resumed.
pub(crate) fn check_resumable(summary: &Summary) -> Result<(), SessionEnded> {
    if summary.status.is_resumable() {
        return Ok(());
    }
    Err(SessionEnded::new(summary, summary.status))
}

/// Prepares the next run under the acquired lease: state, spec, agents and overrides. Writes no
/// events.
pub(crate) async fn prepare(
    env: &Env,
    summary: &Summary,
    run: segno_core::journal::Run,
    options: Options,
    observer: &dyn Observer,
) -> Result<(Env, RunStart), Error> {
    let session = summary.id;
    let spec_file = start_reading_spec(env, session).await?;
    let (state, finished) = history::load_verified(env, session).await?;
    // Checked again under the lease: the session may have ended in between.
    check_resumable(&Summary {
        status: state.status,
        ..summary.clone()
    })?;
    let mut spec = match spec_file {
        Some(spec_file) => {
            let spec_file = spec_file.finish(env, &state).await;
            let chosen = choose_spec(env, summary, &state, &finished, spec_file, &options).await?;
            chosen.notice.iter().for_each(|text| observer.notice(text));
            chosen
        }
        None => ChosenSpec::recorded(
            recorded_spec(env, session, &state).await?,
            options.on_change.unwrap_or_default(),
        ),
    };
    let policy = options.in_flight.unwrap_or(spec.workflow.in_flight);
    let unknown: Vec<step::Path> = state
        .open_steps
        .iter()
        .filter(|(_, open)| {
            matches!(
                open.status,
                AttemptStatus::InFlight | AttemptStatus::Unknown
            )
        })
        .filter(|(path, _)| !patterns::is_git_step(&spec.workflow.pattern, path))
        .map(|(path, _)| path.clone())
        .collect();
    if policy == InFlight::Stop && !unknown.is_empty() {
        return Err(Error::UnknownOutcome {
            name: summary.name.clone(),
            steps: unknown,
        });
    }
    let created = state
        .created
        .as_ref()
        .expect("an opened session has a creation event");
    check_workspace_exists(summary, &spec.workflow, &created.workspace)?;
    let spec_path = Path::new(&created.spec_path);
    let notice = |message: &str| observer.notice(message);
    let (env, secrets) = env.for_workflow(&spec.workflow, spec_path, &notice);
    let workspace = Path::new(&created.workspace);
    let preparing = Agents::prepare(
        &env,
        &spec.workflow,
        &secrets,
        spec_path,
        workspace,
        observer,
    );
    let agents = preparing.await?;
    if options.on_drift != OnDrift::Accept && state.workspace_status.is_some() {
        let status = workspace::workspace_status(&env, workspace, None).await;
        let drift = drift::since_last_run(&state, &status).unwrap_or_default();
        if !drift.is_empty() && options.on_drift == OnDrift::Refuse {
            return Err(Error::WorkspaceDrifted {
                name: summary.name.clone(),
                drift,
            });
        }
        if !drift.is_empty() {
            observer.notice(&format!(
                "the workspace changed since this session last ran: {}",
                drift.join("; ")
            ));
        }
    }
    check_overrides_apply(summary, &state, &agents, &options)?;
    if let Some(stopped) = &state.stopped
        && let Some(reason) = &stopped.reason
    {
        let age = format_duration(env.clock.now().since(stopped.at));
        observer.notice(&format!("stopped {age} ago: {reason}"));
    }
    let agent = match &options.agent {
        Some(name) => Some(resolve_replacement(&env, &spec.workflow, spec_path, name)?),
        None => None,
    };
    let overrides = Overrides {
        agent,
        skipped_strategies: strategies_above(options.strategy),
        message: options.message,
        skip_earlier_wait: options.on_limit == Some(OnLimit::RetryNow),
    };
    let rate_limits = &mut spec.workflow.rate_limits;
    rate_limits.on_limit = match options.on_limit {
        Some(OnLimit::Wait) => spec::OnLimit::Wait,
        Some(OnLimit::Pause) => spec::OnLimit::Pause,
        Some(OnLimit::RetryNow) | None => rate_limits.on_limit,
    };
    let mut opening: Vec<Event> = vec![env.run_started()];
    opening.extend(steps::unknown_step_events(&state));
    if let Some(edited) = spec.edited {
        opening.extend(edited.events(&env, spec.policy).await?);
    }
    let run_start = RunStart {
        session,
        name: summary.name.clone(),
        run,
        workflow: spec.workflow,
        agents,
        state,
        finished,
        opening,
        on_change: spec.policy,
        overrides,
        exchange: None,
    };
    Ok((env, run_start))
}

/// Refuses overrides that would have no effect.
fn check_overrides_apply(
    summary: &Summary,
    state: &State,
    agents: &Agents,
    options: &Options,
) -> Result<(), Error> {
    let refuse = |option, reason| {
        Err(Error::OptionWithoutEffect {
            name: summary.name.clone(),
            option,
            reason,
        })
    };
    let given = [("--agent", &options.agent), ("--message", &options.message)];
    let given = given.iter().find(|(_, value)| value.is_some());
    if let (Some((option, _)), true) = (given, state.open_steps.is_empty()) {
        return refuse(*option, "it has no unfinished step");
    }
    let receives =
        |open: &OpenStep| open.current_cli_agent().is_some() || agents.is_cli_agent(&open.agent);
    if options.message.is_some()
        && options.agent.is_none()
        && !state.open_steps.values().any(receives)
    {
        return refuse("--message", "no CLI agent has an unfinished conversation");
    }
    Ok(())
}

/// The replacement that `--agent` names.
fn resolve_replacement(
    env: &Env,
    workflow: &Workflow,
    spec_path: &Path,
    name: &str,
) -> Result<Replacement, Error> {
    let provider = replacement_provider(workflow, name)?;
    if workflow.agents.contains_key(name) {
        return Ok(Replacement::Agent(name.to_owned()));
    }
    let folder = spec_path.parent().unwrap_or(Path::new("."));
    match env.drivers.driver(&provider, folder)? {
        AgentDriver::CliAgent(cli_agent) => Ok(Replacement::Program(cli_agent)),
        AgentDriver::Stateless(_) | AgentDriver::Model(_) => Err(NoSuchAgent {
            agent: name.to_owned(),
            reason: "it is not a CLI agent".to_owned(),
        }
        .into()),
    }
}

/// The spec to resume with.
pub(crate) struct ChosenSpec {
    pub(crate) workflow: Workflow,
    /// What is done about finished steps whose question changed.
    pub(crate) policy: OnChange,
    /// What the user is told about the choice.
    pub(crate) notice: Option<String>,
    /// The edit, if the edited spec is used.
    pub(crate) edited: Option<EditedSpec>,
}

pub(crate) struct EditedSpec {
    text: String,
    pub(crate) edit: SpecEdit,
}

impl ChosenSpec {
    fn recorded(workflow: Workflow, policy: OnChange) -> Self {
        Self {
            workflow,
            policy,
            notice: None,
            edited: None,
        }
    }
}

impl EditedSpec {
    /// The events that record the edit and what it discards.
    async fn events(self, env: &Env, policy: OnChange) -> Result<Vec<Event>, Error> {
        let (spec, _) = journal::redact_and_store(env, &self.text).await?;
        let discarded = self.edit.discarded(policy);
        let changed = SpecChanged {
            spec,
            spec_digest: Digest::of(self.text.as_bytes()),
            steps: self.edit.into_paths(),
            policy,
        };
        Ok([changed.into()].into_iter().chain(discarded).collect())
    }
}

/// A spec file that is being read in the background.
struct SpecReading {
    path: PathBuf,
    reading: JoinHandle<Result<(String, Workflow), SpecError>>,
}

impl SpecReading {
    /// The content of the spec file; read again if the session was moved since it started.
    async fn finish(self, env: &Env, state: &State) -> Result<(String, Workflow), SpecError> {
        let read = self
            .reading
            .await
            .expect("the task that reads the spec does not panic");
        match state.created.as_ref().map(|it| Path::new(&it.spec_path)) {
            Some(now) if now != self.path => read_spec(env, now),
            _ => read,
        }
    }
}

/// Starts to read the spec file. For a long chain that takes as long as reading the journal, so
/// both happen at once. The path is the one recorded at the start, which is almost always still
/// right. `None` if the session was started without a file.
async fn start_reading_spec(
    env: &Env,
    session: SessionId,
) -> Result<Option<SpecReading>, history::Error> {
    let path = match env.store.event(session, Seq(1)).await?.event {
        Event::SessionCreated(created) => PathBuf::from(created.spec_path),
        other => {
            return Err(history::Error::InvalidJournal {
                session,
                reason: format!("its journal begins with {}", other.kind()),
            });
        }
    };
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let (env, from) = (env.clone(), path.clone());
    let reading = tokio::task::spawn_blocking(move || read_spec(&env, &from));
    Ok(Some(SpecReading { path, reading }))
}

/// Chooses the spec that a resume would use, without preparing a run.
pub(crate) async fn preview_spec(
    env: &Env,
    summary: &Summary,
    options: &Options,
) -> Result<ChosenSpec, Error> {
    let spec_file = start_reading_spec(env, summary.id).await?;
    let state = history::load_state(env, summary.id).await?;
    let Some(spec_file) = spec_file else {
        let recorded = recorded_spec(env, summary.id, &state).await?;
        let policy = options.on_change.unwrap_or_default();
        return Ok(ChosenSpec::recorded(recorded, policy));
    };
    let spec_file = spec_file.finish(env, &state).await;
    let finished = match &spec_file {
        Ok((text, _)) if is_unchanged(text, &state) => FinishedSteps::default(),
        _ => history::load_verified(env, summary.id).await?.1,
    };
    choose_spec(env, summary, &state, &finished, spec_file, options).await
}

/// Chooses the spec to resume with: the file as it is now, or the recorded copy. The recorded
/// digest tells whether the file was edited; the notice names the steps that the edit changes.
async fn choose_spec(
    env: &Env,
    summary: &Summary,
    state: &State,
    finished: &FinishedSteps,
    spec_file: Result<(String, Workflow), SpecError>,
    options: &Options,
) -> Result<ChosenSpec, Error> {
    let policy = match options.on_change {
        Some(policy) => policy,
        None => recorded_policy(env, summary.id, state).await?,
    };
    let spec_file = match spec_file {
        // Compares the file itself, not the recorded copy: in the copy, secrets are redacted.
        Ok((text, workflow)) if is_unchanged(&text, state) => {
            return Ok(ChosenSpec::recorded(workflow, policy));
        }
        spec_file => spec_file,
    };
    let kept = recorded_spec(env, summary.id, state).await?;
    if policy == OnChange::Pinned {
        return Ok(ChosenSpec::recorded(kept, policy));
    }
    let (text, workflow) = match spec_file {
        Err(SpecError::Unreadable { path, reason }) => {
            let notice = format!(
                "{} can no longer be read ({reason}); continuing with the stored copy",
                path.display()
            );
            return Ok(ChosenSpec {
                notice: Some(notice),
                ..ChosenSpec::recorded(kept, policy)
            });
        }
        Err(SpecError::Invalid { path, problems }) => {
            let name = summary.name.clone();
            return Err(spec_edit::Error::Invalid {
                name,
                path,
                problems,
            }
            .into());
        }
        spec_file => spec_file?,
    };
    let spec_path = state
        .created
        .as_ref()
        .map_or("the spec", |created| created.spec_path.as_str());
    // The recorded copy is redacted, so it is compared with the redacted text of the file.
    let (spec_env, _) = env.for_workflow(&workflow, Path::new(spec_path), &|_| {});
    let alike = spec::parse(&spec_env.redactor.redact(&text));
    let alike = alike.as_ref().unwrap_or(&workflow);
    let edit = SpecEdit::new(&kept, alike, state, finished);
    edit.check(&summary.name, options.on_change, &options.consent)?;
    Ok(ChosenSpec {
        policy,
        notice: Some(edit.describe(spec_path, policy)),
        edited: Some(EditedSpec { text, edit }),
        workflow,
    })
}

fn is_unchanged(text: &str, state: &State) -> bool {
    Some(Digest::of(text.as_bytes())) == state.spec_digest
}

/// The policy that holds until the user chooses another one. A run that was to run changed steps
/// again may have been lost before it reached all of them, so the next run has the same duty.
async fn recorded_policy(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<OnChange, StoreError> {
    match env.store.event(session, state.spec_seq).await?.event {
        Event::SpecChanged(SpecChanged {
            policy: OnChange::Rerun,
            ..
        }) => Ok(OnChange::Rerun),
        _ => Ok(OnChange::Warn),
    }
}

/// Refuses a resume if the workspace is gone and an agent would work in it. Every such agent would
/// fail and lose its conversation, although only the path is wrong.
pub(crate) fn check_workspace_exists(
    summary: &Summary,
    workflow: &Workflow,
    workspace: &str,
) -> Result<(), Error> {
    let works_there = |agent: &Agent| {
        matches!(
            agent.provider,
            Provider::Program { .. } | Provider::Acp { .. } | Provider::Command { .. }
        )
    };
    if Path::new(workspace).is_dir() || !workflow.agents.values().any(works_there) {
        return Ok(());
    }
    Err(Error::WorkspaceMissing {
        name: summary.name.clone(),
        folder: workspace.to_owned(),
    })
}
