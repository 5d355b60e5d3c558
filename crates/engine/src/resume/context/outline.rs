//! What a workflow says about itself, for the resume context.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use segno_core::id::SessionId;
use segno_core::journal::Event;
use segno_core::state::{self, AttemptStatus, FinishedSteps, State};
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
    /// Whether the pattern runs several branches, tasks or workers at once.
    is_concurrent: bool,
    /// The tasks of a plan, once the plan is final.
    planned: OnceLock<Vec<PlannedTask>>,
}

/// A task of a plan.
#[derive(Debug)]
pub struct PlannedTask {
    pub id: String,
    pub title: String,
    /// Whether it was done before the plan.
    pub is_done: bool,
    /// All its steps are below this path.
    pub path: Path,
    /// The step that completes it.
    pub last_step: Path,
}

/// How far the work is.
#[derive(Debug)]
pub struct Progress {
    /// Finished, started and remaining tasks; of finished steps, only the newest.
    pub tasks: Vec<Task>,
    /// How many are finished.
    pub done: u64,
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
            issue: match &workflow.pattern {
                Pattern::Plan(plan) if !plan.issue.is_empty() => Some(plan.issue.clone()),
                _ => workflow.description.clone(),
            },
            steps: parts.into_iter().map(|part| part.path).collect(),
            is_linear: matches!(workflow.pattern, Pattern::Chain(_)),
            is_concurrent: matches!(
                workflow.pattern,
                Pattern::Workflow(_) | Pattern::Parallel(_) | Pattern::Orchestrator(_)
            ),
            planned: OnceLock::new(),
        }
    }

    /// Sets the tasks of a plan; the first call counts.
    pub(crate) fn set_plan(&self, tasks: Vec<PlannedTask>) {
        let _ = self.planned.set(tasks);
    }

    /// The branch, task or worker that a step belongs to, if the pattern runs several at once; empty
    /// for the steps outside of them.
    pub(crate) fn branch(&self, path: &Path) -> String {
        let parts: Vec<&str> = path.as_str().splitn(5, '/').take(4).collect();
        match parts[..] {
            ["branches" | "tasks", id, ..] if self.is_concurrent => format!("{}/{id}", parts[0]),
            ["rounds", _, "workers", _] if self.is_concurrent => parts.join("/"),
            _ => String::new(),
        }
    }

    /// How far the work is. `finished` has the steps that finished before the newest ones.
    pub fn progress(&self, state: &State, finished: Option<&FinishedSteps>) -> Progress {
        let Some(planned) = self.planned.get() else {
            return Progress {
                tasks: self.tasks(state, finished),
                done: state.finished,
            };
        };
        let known = Steps { state, finished };
        let tasks: Vec<Task> = planned.iter().map(|task| known.task(task)).collect();
        let done = tasks
            .iter()
            .filter(|task| task.standing == TaskStatus::Done);
        Progress {
            done: done.count() as u64,
            tasks,
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
    fn tasks(&self, state: &State, finished: Option<&FinishedSteps>) -> Vec<Task> {
        let newest: BTreeSet<&Path> = state.newest_finished.iter().collect();
        let is_done = |path: &Path| {
            newest.contains(path) || finished.is_some_and(|finished| finished.get(path).is_some())
        };
        let behind = self
            .steps
            .iter()
            .rposition(|path| self.is_linear && is_done(path));
        let ahead = self.steps.get(behind.unwrap_or(0)..);
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

/// The steps of a session.
struct Steps<'a> {
    state: &'a State,
    finished: Option<&'a FinishedSteps>,
}

impl Steps<'_> {
    fn is_finished(&self, path: &Path) -> bool {
        self.state.newest_finished.contains(path)
            || self.finished.is_some_and(|all| all.get(path).is_some())
    }

    fn task(&self, planned: &PlannedTask) -> Task {
        let below = format!("{}/", planned.path);
        let is_below = |path: &Path| path.as_str().starts_with(&below);
        let mut open = self
            .state
            .open_steps
            .iter()
            .filter(|(path, _)| is_below(path));
        let failed = |status: &AttemptStatus| matches!(status, AttemptStatus::Failed(_));
        let finished = self.finished.into_iter().flat_map(FinishedSteps::iter);
        let mut ended = finished.map(|(path, _)| path);
        let is_begun = self.state.newest_finished.iter().any(is_below) || ended.any(is_below);
        let standing = if planned.is_done || self.is_finished(&planned.last_step) {
            TaskStatus::Done
        } else if let Some((_, step)) = open.next() {
            if failed(&step.status) {
                TaskStatus::Failed
            } else {
                TaskStatus::Started
            }
        } else if is_begun {
            TaskStatus::Started
        } else {
            TaskStatus::Pending
        };
        Task {
            id: planned.id.clone(),
            title: Some(planned.title.clone()),
            standing,
        }
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
