//! How far a session is: its tasks at the newest or at an earlier state of its journal.

use segno_core::id::SessionId;
use segno_core::session::Status as SessionStatus;
use segno_core::state::{FinishedSteps, State};
use segno_core::store::Error as StoreError;
use segno_engine::Env;
use segno_engine::resume::context::{self, Outline};
use segno_spec::{Pattern, Workflow};

use crate::work::{self, Plan, Status};

/// The tasks of a session: those of its plan, or its steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Of steps: the newest finished ones, those in progress, and those known to come.
    pub tasks: Vec<Task>,
    /// The task in progress, or the one that failed.
    pub current: Option<String>,
    pub next: Option<String>,
    pub done: u64,
    /// How many tasks are not done; absent if only the run finds out what there is to do.
    pub remaining: Option<u64>,
    /// The plan, if the session works through one.
    pub plan: Option<Plan>,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub title: Option<String>,
    pub status: Status,
}

impl Progress {
    /// The progress at a state of the session's journal.
    pub async fn at(
        env: &Env,
        session: SessionId,
        workflow: &Workflow,
        state: &State,
        finished: &FinishedSteps,
    ) -> Result<Self, StoreError> {
        Ok(match &workflow.pattern {
            Pattern::Plan(config) => {
                Self::of_plan(work::plan_at(env, session, config, state, finished).await?)
            }
            _ if state.chat.is_some() => Self {
                done: state.finished,
                ..Self::default()
            },
            _ => Self::of_steps(&Outline::new(workflow), state, finished),
        })
    }

    fn of_plan(plan: Plan) -> Self {
        let task = |task: &work::Task| Task {
            id: task.id.clone(),
            title: Some(task.title.clone()),
            status: task.status,
        };
        Self {
            tasks: plan.tasks.iter().map(task).collect(),
            current: plan.current.clone(),
            next: plan.next.clone(),
            done: plan.done as u64,
            remaining: (!plan.tasks.is_empty()).then_some(plan.remaining as u64),
            plan: Some(plan),
        }
    }

    fn of_steps(outline: &Outline, state: &State, finished: &FinishedSteps) -> Self {
        let task = |task: context::Task| Task {
            id: task.id,
            title: task.title,
            status: match task.standing {
                context::TaskStatus::Done => Status::Done,
                context::TaskStatus::Started => Status::InProgress,
                context::TaskStatus::Failed => Status::Failed,
                context::TaskStatus::Pending => Status::Pending,
            },
        };
        let tasks = outline.progress(state, Some(finished)).tasks;
        let tasks: Vec<Task> = tasks.into_iter().map(task).collect();
        let first = |wanted: &[Status]| {
            let found = tasks.iter().find(|task| wanted.contains(&task.status));
            found.map(|task| task.id.clone())
        };
        let left = tasks.iter().filter(|task| !task.status.is_over()).count();
        let is_known = outline.knows_steps() || state.status == SessionStatus::Completed;
        Self {
            current: first(&[Status::InProgress, Status::Failed]),
            next: first(&[Status::Pending]),
            done: state.finished,
            remaining: is_known.then_some(left as u64),
            plan: None,
            tasks,
        }
    }

    /// What is counted.
    pub fn unit(&self) -> &'static str {
        match self.plan {
            Some(_) => "task",
            None => "step",
        }
    }

    /// The counts in words: `2 steps done, 1 remaining`.
    pub fn describe(&self) -> String {
        let plural = if self.done == 1 { "" } else { "s" };
        let done = format!("{} {}{plural} done", self.done, self.unit());
        match self.remaining {
            Some(remaining) => format!("{done}, {remaining} remaining"),
            None => done,
        }
    }
}
