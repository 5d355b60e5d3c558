//! Prepares the next run of a session under its lease.
//!
//! [`prepare`] rebuilds state and finished steps from the verified journal, chooses the spec (the
//! edited file or the recorded copy), checks the workspace for drift and applies the user's
//! overrides. It refuses before anything is written, so that a refused resume leaves nothing behind
//! but a run number.

mod chosen_spec;
mod error;
mod resolution;

use std::path::Path;

use segno_core::journal::{Event, InFlight, OnChange, OnDrift, RunOptions, RunPurpose};
use segno_core::resume::Strategy;
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::{OpenStep, State};
use segno_core::store::Summary;
use segno_engine::history::{self, recorded_spec};
use segno_engine::resume::drift;
use segno_engine::resume::{Overrides, Replacement};
use segno_engine::run::RunStart;
use segno_engine::steps::{self, Agents};
use segno_engine::{AgentDriver, Env, Observer, workspace};
use segno_spec as spec;
use segno_spec::{Agent, Provider, Workflow};

use crate::last_run::LastRun;
use crate::spec_edit::Consent;
use crate::unknown::Decision;
use chosen_spec::{ChosenSpec, choose_spec, start_reading_spec};

pub(crate) use chosen_spec::preview_spec;
pub use error::{Error, NoSuchAgent, SessionEnded};
pub(crate) use resolution::{events_between_runs, left_to_user};
pub use segno_core::journal::OnLimit;

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
    /// What the user says about some of them.
    pub decisions: Vec<Decision>,
    /// The user, for the journal.
    pub by: String,
    /// What to do if others changed the workspace.
    pub on_drift: OnDrift,
    /// Who continues the unfinished steps instead of the agent that started them: an agent of the
    /// spec, or a CLI agent.
    pub agent: Option<String>,
    /// The best resume strategy that is allowed.
    pub strategy: Option<Strategy>,
    /// Whether to end a process that has an agent's conversation open.
    pub take_over: bool,
    /// An additional message to the agent.
    pub message: Option<String>,
    /// What to do about rate limits; by default the spec decides.
    pub on_limit: Option<OnLimit>,
}

impl From<RunOptions> for Options {
    fn from(options: RunOptions) -> Self {
        Self {
            on_change: options.on_change,
            consent: if options.yes {
                Consent::All
            } else {
                Consent::None
            },
            in_flight: options.in_flight,
            decisions: Vec::new(),
            by: String::new(),
            on_drift: options.on_drift.unwrap_or_default(),
            agent: options.agent,
            strategy: options.strategy,
            take_over: options.take_over,
            message: options.message,
            on_limit: options.on_limit,
        }
    }
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
    end_orphans(env, summary, observer)?;
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
    let created = state
        .created
        .as_ref()
        .expect("an opened session has a creation event");
    let spec_path = Path::new(&created.spec_path);
    let notice = |message: &str| observer.notice(message);
    let (env, secrets) = env.for_workflow(&spec.workflow, spec_path, &notice);
    let resolution = resolution::resolve(&env, summary, &spec.workflow, &state, &options).await?;
    check_workspace_exists(summary, &spec.workflow, &created.workspace)?;
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
    let mut status = None;
    if !summary.kind.is_chat() && agents.work_in_workspace() {
        let now = workspace::workspace_status(&env, workspace, None).await;
        check_drift(summary, &state, &now, options.on_drift, observer)?;
        status = drift::to_event(&state, &now);
    }
    check_overrides_apply(summary, &state, &agents, &options)?;
    let agent = match &options.agent {
        Some(name) => Some(resolve_replacement(&env, &spec.workflow, spec_path, name)?),
        None => None,
    };
    let overrides = Overrides {
        agent,
        best_strategy: options.strategy,
        take_over: options.take_over,
        message: options.message,
        skip_earlier_wait: options.on_limit == Some(OnLimit::RetryNow),
        resolved: resolution.resolved,
    };
    let rate_limits = &mut spec.workflow.rate_limits;
    rate_limits.on_limit = match options.on_limit {
        Some(OnLimit::Wait) => spec::OnLimit::Wait,
        Some(OnLimit::Pause) => spec::OnLimit::Pause,
        Some(OnLimit::RetryNow) | None => rate_limits.on_limit,
    };
    if state.chat.is_some()
        && let Some(last) = LastRun::of(&state)
        && last.reason.is_some()
    {
        observer.notice(&last.describe(env.clock.now()));
    }
    let mut opening: Vec<Event> = vec![env.run_started(RunPurpose::Work)];
    opening.extend(steps::unknown_step_events(&state));
    opening.extend(resolution.events.into_iter().map(Event::from));
    opening.extend(status);
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

/// Reports or refuses what changed in the workspace since its status was last recorded.
fn check_drift(
    summary: &Summary,
    state: &State,
    status: &WorkspaceStatus,
    on_drift: OnDrift,
    observer: &dyn Observer,
) -> Result<(), Error> {
    let drift = drift::since_last_run(state, status).unwrap_or_default();
    if drift.is_empty() {
        return Ok(());
    }
    match on_drift {
        OnDrift::Accept => {}
        OnDrift::Refuse => {
            return Err(Error::WorkspaceDrifted {
                name: summary.name.clone(),
                drift,
            });
        }
        OnDrift::Warn => {
            // A lost run recorded nothing after its last finished step.
            let by = if state.in_flight().next().is_some() {
                " (by others, or by the step that was in flight)"
            } else {
                ""
            };
            observer.notice(&format!(
                "the workspace changed since this session last ran{by}: {}",
                drift.join("; ")
            ));
        }
    }
    Ok(())
}

/// Ends what earlier runs left behind: nothing of them may work beside this run.
fn end_orphans(env: &Env, summary: &Summary, observer: &dyn Observer) -> Result<(), Error> {
    let ended = env.processes.end_orphans(summary.id);
    let ended = ended.map_err(|error| Error::OrphansLeft {
        name: summary.name.clone(),
        reason: error.to_string(),
    })?;
    if !ended.is_empty() {
        let pids: Vec<String> = ended.iter().map(ToString::to_string).collect();
        observer.notice(&format!(
            "ended what an earlier run left behind: process {}",
            pids.join(", ")
        ));
    }
    Ok(())
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
