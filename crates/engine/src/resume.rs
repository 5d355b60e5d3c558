//! Resumes a session where it stopped.
//!
//! [`resume`] acquires the lease, rebuilds state and finished steps from the verified journal,
//! chooses the spec (the edited file or the recorded copy), checks the workspace for drift, applies
//! the user's overrides, and starts the next run. It refuses before anything is written, so that a
//! refused resume leaves nothing behind but a run number. Which resume strategy a CLI agent uses is
//! decided in [`crate::steps`] when the step runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::checkpoint::Trigger;
use segno_core::cli_agent::CliAgent;
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, InFlight, OnChange, Seq, SpecChanged};
use segno_core::resume::Strategy;
use segno_core::session::{Kind, Status};
use segno_core::state::{AttemptStatus, Created, OpenStep, State};
use segno_core::step;
use segno_core::store::Summary;
use segno_core::time::format_duration;
use tokio::task::JoinHandle;

use crate::drift::OnDrift;
use crate::env::{AgentDriver, Env};
use crate::error::Error;
use crate::observe::Observer;
use crate::run::{self, Outcome, RunStart};
use crate::start::{self, Request, read_spec};
use crate::steps::Agents;
use crate::stop::StopToken;
use crate::{
    chat, checkpointer, history, journal, lease, patterns, plan, reconcile, relocate, steps,
};
use segno_spec::{self as spec, Change, Provider, StepChange, Workflow};

/// What the user asks for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What to do if the spec was edited.
    pub on_change: OnChange,
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

/// How to resume unfinished steps where the user wants something other than the default.
#[derive(Clone, Default)]
pub(crate) struct ResumeOverrides {
    /// Who continues.
    pub(crate) with: Option<Replacement>,
    /// Resume strategies that must not be used.
    pub(crate) skipped: Vec<Strategy>,
    /// An additional message to the agent.
    pub(crate) say: Option<String>,
    /// Whether to ignore the rest of an earlier run's wait for a rate limit.
    pub(crate) skip_earlier_wait: bool,
}

/// Who continues a step instead of the agent that had it.
#[derive(Clone)]
pub(crate) enum Replacement {
    /// Another agent of the spec.
    Agent(String),
    /// A CLI agent that the spec does not name.
    Program(Arc<dyn CliAgent>),
}

/// The resume strategies that are better than the best one allowed.
pub(crate) fn strategies_above(best: Option<Strategy>) -> Vec<Strategy> {
    let best = best.unwrap_or(Strategy::Native);
    let above = Strategy::ALL.iter().copied();
    above.take_while(|strategy| *strategy != best).collect()
}

/// The provider of a replacement: an agent of the spec, or a CLI agent, by name.
pub(crate) fn replacement_provider(workflow: &Workflow, name: &str) -> Result<Provider, Error> {
    let program = || {
        let name = if name == "claude" {
            "claude-code"
        } else {
            name
        };
        let program = name.parse().map_err(|_| Error::NoSuchAgent {
            agent: name.to_owned(),
            reason: "it is neither an agent of the spec nor a CLI agent".to_owned(),
        })?;
        Ok::<_, Error>(Provider::Program {
            program,
            model: None,
        })
    };
    let own = workflow.agents.get(name);
    own.map_or_else(program, |agent| Ok(agent.provider.clone()))
}

/// Resumes a session.
pub async fn resume(
    env: &Env,
    summary: Summary,
    options: Options,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    if summary.kind == Kind::Chat {
        let audience = chat::Audience::Absent;
        return Box::pin(chat::resume(
            env, &summary, options, audience, observer, stop_token,
        ))
        .await;
    }
    check_resumable(&summary)?;
    let lease = lease::acquire(env, &summary).await?;
    let (env, run_start) = match prepare(env, &summary, lease.run, options, &*observer).await {
        Ok(begun) => begun,
        Err(error) => {
            // Nothing was written, so nothing is left behind but a run number.
            let _ = env.store.release(summary.id, lease.run).await;
            return Err(error);
        }
    };
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
    Box::pin(run::execute(&env, run_start, observer, stop_token)).await
}

/// Refuses a session whose status cannot be resumed.
pub(crate) fn check_resumable(summary: &Summary) -> Result<(), Error> {
    if summary.status.is_resumable() {
        return Ok(());
    }
    Err(Error::SessionEnded {
        session: summary.id,
        name: summary.name.clone(),
        status: summary.status,
    })
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
            choose_spec(env, summary, &state, spec_file, options.on_change, observer).await?
        }
        None => ChosenSpec {
            workflow: recorded_spec(env, session, &state).await?,
            event: None,
        },
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
    relocate::check_workspace_exists(summary, &spec.workflow, &created.workspace)?;
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
        let status = reconcile::workspace_status(&env, workspace, None).await;
        let drift = plan::drift_since_last_run(&state, &status).unwrap_or_default();
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
    let with = match &options.agent {
        Some(name) => Some(resolve_replacement(&env, &spec.workflow, spec_path, name)?),
        None => None,
    };
    let overrides = ResumeOverrides {
        with,
        skipped: strategies_above(options.strategy),
        say: options.message,
        skip_earlier_wait: options.on_limit == Some(OnLimit::RetryNow),
    };
    let patience = &mut spec.workflow.rate_limits;
    patience.on_limit = match options.on_limit {
        Some(OnLimit::Wait) => spec::OnLimit::Wait,
        Some(OnLimit::Pause) => spec::OnLimit::Pause,
        Some(OnLimit::RetryNow) | None => patience.on_limit,
    };
    let mut opening: Vec<Event> = vec![env.run_started()];
    opening.extend(steps::unknown_step_events(&state));
    opening.extend(spec.event);
    let run_start = RunStart {
        session,
        name: summary.name.clone(),
        run,
        workflow: spec.workflow,
        agents,
        state,
        finished,
        opening,
        on_change: options.on_change,
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
        AgentDriver::Stateless(_) | AgentDriver::Model(_) => Err(Error::NoSuchAgent {
            agent: name.to_owned(),
            reason: "it is not a CLI agent".to_owned(),
        }),
    }
}

/// The spec to resume with, and the event that records a change.
struct ChosenSpec {
    workflow: Workflow,
    event: Option<Event>,
}

/// A spec file that is being read in the background.
struct SpecReading {
    path: PathBuf,
    reading: JoinHandle<Result<(String, Workflow), Error>>,
}

impl SpecReading {
    /// The content of the spec file; read again if the session was moved since it started.
    async fn finish(self, env: &Env, state: &State) -> Result<(String, Workflow), Error> {
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
async fn start_reading_spec(env: &Env, session: SessionId) -> Result<Option<SpecReading>, Error> {
    let path = match env.store.event(session, Seq(1)).await?.event {
        Event::SessionCreated(created) => PathBuf::from(created.spec_path),
        other => {
            return Err(Error::InvalidJournal {
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

/// Chooses the spec to resume with: the file as it is now, or the recorded copy. The recorded
/// digest tells whether the file was edited; the notice names the steps that the edit changes.
async fn choose_spec(
    env: &Env,
    summary: &Summary,
    state: &State,
    spec_file: Result<(String, Workflow), Error>,
    on_change: OnChange,
    observer: &dyn Observer,
) -> Result<ChosenSpec, Error> {
    let unchanged = |workflow| ChosenSpec {
        workflow,
        event: None,
    };
    let digest = |text: &str| Digest::of(text.as_bytes());
    let spec_file = match spec_file {
        // Compares the file itself, not the recorded copy: in the copy, secrets are redacted.
        Ok((text, workflow)) if Some(digest(&text)) == state.spec_digest => {
            return Ok(unchanged(workflow));
        }
        spec_file => spec_file,
    };
    let kept = recorded_spec(env, summary.id, state).await?;
    if on_change == OnChange::Pinned {
        return Ok(unchanged(kept));
    }
    let (text, workflow) = match spec_file {
        Err(Error::Unreadable { path, reason }) => {
            observer.notice(&format!(
                "{} can no longer be read ({reason}); continuing with the stored copy",
                path.display()
            ));
            return Ok(unchanged(kept));
        }
        spec_file => spec_file?,
    };
    // The recorded copy is redacted, so it is compared with the redacted text of the file.
    let spec_path = state
        .created
        .as_ref()
        .map_or("", |created| &created.spec_path);
    let (spec_env, _) = env.for_workflow(&workflow, Path::new(spec_path), &|_| {});
    let alike = spec::parse(&spec_env.redactor.redact(&text));
    let changes = spec::changed_steps(&kept, alike.as_ref().unwrap_or(&workflow));
    let named: Vec<String> = changes.iter().map(describe).collect();
    if on_change == OnChange::Fail {
        return Err(Error::SpecChanged {
            name: summary.name.clone(),
            steps: named,
        });
    }
    let what = if named.is_empty() {
        "no step".to_owned()
    } else {
        named.join(", ")
    };
    let then = match on_change {
        OnChange::Rerun => "finished steps among them run again",
        _ => "finished steps among them keep their results",
    };
    let path = state
        .created
        .as_ref()
        .map_or("the spec", |created| created.spec_path.as_str());
    observer.notice(&format!(
        "{path} was edited since this session last ran; it changes {what}; {then}",
    ));
    let (spec, _) = journal::redact_and_store(env, &text).await?;
    let steps = changes.into_iter().map(|change| change.path).collect();
    let event = SpecChanged {
        spec,
        spec_digest: digest(&text),
        steps,
        policy: on_change,
    };
    Ok(ChosenSpec {
        workflow,
        event: Some(event.into()),
    })
}

fn describe(change: &StepChange) -> String {
    match change.change {
        Change::Changed => change.path.to_string(),
        Change::Added => format!("{} (added)", change.path),
        Change::Removed => format!("{} (removed)", change.path),
    }
}

/// The spec as the journal recorded it, with secrets redacted.
pub(crate) async fn recorded_spec(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<Workflow, Error> {
    let entry = env.store.event(session, state.spec_seq).await?;
    let digest = state.spec_digest.unwrap_or_else(|| Digest::of(&[]));
    let unusable = |reason: String| Error::InvalidStoredSpec {
        session,
        digest,
        reason,
    };
    let text = entry
        .event
        .text()
        .ok_or_else(|| unusable(format!("event {} has no text", state.spec_seq)))?;
    let text = journal::load_text(env, text).await?;
    spec::parse(&text).map_err(|problems| unusable(problems.to_string()))
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

/// The resumable sessions of a workspace that have no active run, least recently updated first. A
/// damaged session is an error: it may be the one that the user means, and starting over costs
/// money.
pub(crate) async fn resumable_sessions(env: &Env, workspace: &Path) -> Result<Vec<Summary>, Error> {
    let mut found = Vec::new();
    for summary in env.store.list().await? {
        let summary = summary?;
        let open = summary.status.is_resumable() && !summary.status.is_archived();
        if Path::new(&summary.workspace) != workspace || !open {
            continue;
        }
        let lease = env.store.lease(summary.id).await?;
        if lease::effective_status(env, &summary, &lease) != Status::Running {
            found.push(summary);
        }
    }
    found.sort_by_key(|summary| (summary.updated_at, summary.id));
    Ok(found)
}
