//! What the next run takes as the outcome of steps that were in flight when their run was lost.

use std::collections::HashMap;

use segno_core::journal::{Event, InFlight, StepResolved};
use segno_core::state::State;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_spec::Workflow;

use super::{Error, Options, preview_spec};
use crate::unknown::{self, Checked, Decisions};

/// What a resume does about unknown outcomes.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    /// What the user says now, to be journaled at the start of the run.
    pub(super) events: Vec<StepResolved>,
    /// What the run takes as the end of attempts.
    pub(super) resolved: HashMap<Path, StepResolved>,
}

/// Checks what a resume says about unknown outcomes, and that its policy leaves none to a user.
pub(super) async fn resolve(
    env: &Env,
    summary: &Summary,
    workflow: &Workflow,
    state: &State,
    options: &Options,
) -> Result<Resolution, Error> {
    let said = Decisions {
        by: &options.by,
        decisions: &options.decisions,
    };
    let checked = unknown::check(env, &summary.name, workflow, state, said)?;
    let steps = left_to_user(workflow, state, options, &checked);
    if !steps.is_empty() {
        let name = summary.name.clone();
        return Err(Error::UnknownOutcome { name, steps });
    }
    let events = unknown::to_events(env, checked).await?;
    let recorded = unknown::recorded(env, summary.id, state).await?;
    let resolved = recorded.into_iter().chain(events.iter().cloned());
    Ok(Resolution {
        resolved: resolved.map(|it| (it.path.clone(), it)).collect(),
        events,
    })
}

/// The steps about which the policy of a resume leaves the decision to a user who said nothing.
pub(crate) fn left_to_user(
    workflow: &Workflow,
    state: &State,
    options: &Options,
    checked: &[Checked<'_>],
) -> Vec<Path> {
    if options.in_flight.unwrap_or(workflow.in_flight) == InFlight::Repeat {
        return Vec::new();
    }
    let is_decided = |path: &Path| checked.iter().any(|decision| decision.path == path);
    let left = unknown::unknown_steps(state).filter(|(path, _)| !is_decided(path));
    left.map(|(path, _)| path.clone()).collect()
}

/// The events of decisions that are journaled between runs.
pub(crate) async fn events_between_runs(
    env: &Env,
    summary: &Summary,
    state: &State,
    said: Decisions<'_>,
) -> Result<Vec<Event>, Error> {
    if said.decisions.is_empty() {
        return Ok(Vec::new());
    }
    let workflow = preview_spec(env, summary, &Options::default()).await;
    let workflow = workflow?.workflow;
    let spec_path = state.created.as_ref().map_or("", |it| &it.spec_path);
    let (env, _) = env.for_workflow(&workflow, spec_path.as_ref(), &|_| {});
    let checked = unknown::check(&env, &summary.name, &workflow, state, said)?;
    let events = unknown::to_events(&env, checked).await?;
    Ok(events.into_iter().map(Event::from).collect())
}
