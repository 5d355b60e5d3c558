//! What a workflow says about itself, for the resume context.

use std::collections::BTreeSet;

use segno_core::id::SessionId;
use segno_core::journal::Event;
use segno_core::state::{self, FinishedSteps, State};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_spec::{Pattern, Workflow, outline};

use super::{Task, TaskStatus};
use crate::env::Env;
use crate::journal;

/// What a workflow says about itself before it runs.
#[derive(Debug, Default)]
pub struct Outline {
    /// What the session is about.
    pub issue: Option<String>,
    /// The steps that will run, as far as they are known in advance.
    steps: Vec<Path>,
    /// Whether they run one after the other.
    is_linear: bool,
}

impl Outline {
    pub fn new(workflow: &Workflow) -> Self {
        // In other patterns the run determines which steps there are, and how often they run.
        let known = matches!(
            workflow.pattern,
            Pattern::Chain(_) | Pattern::Workflow(_) | Pattern::Parallel(_)
        );
        let parts = if known { outline(workflow) } else { Vec::new() };
        Self {
            issue: workflow.description.clone(),
            steps: parts.into_iter().map(|part| part.path).collect(),
            is_linear: matches!(workflow.pattern, Pattern::Chain(_)),
        }
    }

    /// Whether the steps that will run are known before they run.
    pub fn knows_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether the state alone determines the remaining steps.
    pub fn is_determined_by(&self, state: &State) -> bool {
        self.is_linear
            || self.steps.is_empty()
            || state.finished <= state.newest_finished.len() as u64
    }

    /// The tasks: recently finished, started, and remaining. `finished` has the steps that finished
    /// before the newest ones.
    pub fn tasks(&self, state: &State, finished: Option<&FinishedSteps>) -> Vec<Task> {
        let newest: BTreeSet<&Path> = state.newest_finished.iter().collect();
        let is_done = |path: &Path| {
            newest.contains(path) || finished.is_some_and(|finished| finished.get(path).is_some())
        };
        let behind = self
            .steps
            .iter()
            .rposition(|path| self.is_linear && is_done(path));
        let ahead = self.steps.get(behind.map_or(0, |behind| behind + 1)..);
        let ahead = ahead.into_iter().flatten();
        let pending = ahead.filter(|path| !is_done(path) && !state.open_steps.contains_key(path));
        let task = |path: &Path, standing| Task {
            id: path.to_string(),
            title: None,
            standing,
        };
        let open = state
            .open_steps
            .iter()
            .map(|(path, open)| match open.status {
                state::AttemptStatus::Failed(_) => task(path, TaskStatus::Failed),
                state::AttemptStatus::Discarded => task(path, TaskStatus::Pending),
                _ => task(path, TaskStatus::Started),
            });
        let mut tasks: Vec<Task> = Vec::new();
        tasks.extend(
            state
                .newest_finished
                .iter()
                .map(|path| task(path, TaskStatus::Done)),
        );
        tasks.extend(open);
        tasks.extend(pending.map(|path| task(path, TaskStatus::Pending)));
        tasks
    }
}

/// The user's replacement for the resume context, if there is one.
pub async fn edited(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<Option<String>, StoreError> {
    let Some(seq) = state.resume_context else {
        return Ok(None);
    };
    match env.store.event(session, seq).await?.event {
        Event::ResumeContextEdited(event) => Ok(Some(journal::load_text(env, &event.text).await?)),
        _ => Ok(None),
    }
}
