//! The progress of a session that works through a plan, computed from its journal only.

use segno_core::id::SessionId;
use segno_core::session::Status as SessionStatus;
use segno_core::state::{AttemptStatus, FinishedSteps, State};
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, Summary};
use segno_core::usage::Usage;
use segno_engine::patterns::{
    Decision, MAX_DRAFTS, draft_path, parse_commit, parse_decision, parse_review, task_path,
};
use segno_engine::{Env, history, journal};
use segno_spec as spec;
use segno_spec::checklist::{self, Checklist};
use segno_spec::{Approve, Pattern};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub issue: String,
    pub branch: Option<String>,
    /// The commit that the work started at, if it has started.
    pub start: Option<String>,
    /// Whether this plan is final, rather than a draft that a human is asked about.
    pub is_final: bool,
    /// In the order of the plan; empty if there is no plan yet.
    pub tasks: Vec<Task>,
    /// The task in progress, or the one that failed.
    pub current: Option<String>,
    pub next: Option<String>,
    /// How many tasks are done, including those done before the plan.
    pub done: usize,
    pub remaining: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub description: String,
    pub status: Status,
    pub depends_on: Vec<String>,
    /// Its commit; absent also if there was nothing to commit.
    pub commit: Option<String>,
    /// Oldest first.
    pub reviews: Vec<Review>,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Counted from 1.
    pub round: u32,
    /// The name of an agent, or `hitl` for a human.
    pub by: String,
    pub approved: bool,
    pub severity: String,
    pub comments: Vec<String>,
    /// Whether the task was done again after the review.
    pub addressed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Pending,
    InProgress,
    Done,
    /// Failed; a resume tries again.
    Failed,
    /// A dependency failed.
    Blocked,
    /// It was checked in the plan from the start.
    Skipped,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
        }
    }

    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }
}

impl Plan {
    /// The plan as a checklist, one line per task.
    pub fn lines(&self) -> Vec<String> {
        let line = |task: &Task| {
            let after = task.depends_on.join(", ");
            checklist::line(task.status.is_over(), &task.id, &task.title, &after)
        };
        self.tasks.iter().map(line).collect()
    }
}

/// The plan of a session; `None` if the session has no plan.
pub async fn plan(env: &Env, summary: &Summary) -> Result<Option<Plan>, history::Error> {
    let (state, finished) = history::load_verified(env, summary.id).await?;
    let workflow = history::recorded_spec(env, summary.id, &state).await?;
    let Pattern::Plan(config) = &workflow.pattern else {
        return Ok(None);
    };
    Ok(Some(
        plan_at(env, summary.id, config, &state, &finished).await?,
    ))
}

/// The plan of a session at a state of its journal.
pub(crate) async fn plan_at(
    env: &Env,
    session: SessionId,
    config: &spec::Plan,
    state: &State,
    finished: &FinishedSteps,
) -> Result<Plan, StoreError> {
    let past = History {
        env,
        session,
        state,
        finished,
    };
    past.plan(config).await
}

/// The state and finished steps of a session.
struct History<'a> {
    env: &'a Env,
    session: SessionId,
    state: &'a State,
    finished: &'a FinishedSteps,
}

impl History<'_> {
    async fn plan(&self, config: &spec::Plan) -> Result<Plan, StoreError> {
        let (list, settled) = match &config.tasks {
            Some(list) => (list.clone(), true),
            None => self.draft(config).await?,
        };
        let begun = self.answer(&Path::root("begin")).await?;
        let value: serde_json::Value = begun
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let word = |key: &str| value[key].as_str().map(str::to_owned);
        let mut plan = Plan {
            issue: config.issue.clone(),
            branch: word("branch"),
            start: word("commit"),
            is_final: settled,
            ..Plan::default()
        };
        for task in &list.tasks {
            let names = task.depends_on.iter();
            let (commit, status) = self.status_of(task).await?;
            plan.tasks.push(Task {
                id: task.id.clone(),
                title: task.title.clone(),
                description: task.description.clone(),
                status,
                depends_on: names.map(|place| list.tasks[*place].id.clone()).collect(),
                commit,
                reviews: self.reviews(&task.id).await?,
                usage: self.usage(&task.id),
            });
        }
        let order = list.order();
        for place in &order {
            let mut before = list.tasks[*place].depends_on.iter();
            let stuck = |before: &usize| {
                matches!(plan.tasks[*before].status, Status::Failed | Status::Blocked)
            };
            if plan.tasks[*place].status == Status::Pending && before.any(stuck) {
                plan.tasks[*place].status = Status::Blocked;
            }
        }
        let first = |wanted: &[Status]| {
            let mut tasks = order.iter().map(|place| &plan.tasks[*place]);
            let found = tasks.find(|task| wanted.contains(&task.status));
            found.map(|task| task.id.clone())
        };
        plan.current = first(&[Status::InProgress, Status::Failed]);
        plan.next = first(&[Status::Pending]);
        plan.done = plan
            .tasks
            .iter()
            .filter(|task| task.status.is_over())
            .count();
        plan.remaining = plan.tasks.len() - plan.done;
        Ok(plan)
    }

    /// The newest draft of the plan, and whether it is final.
    async fn draft(&self, config: &spec::Plan) -> Result<(Checklist, bool), StoreError> {
        let mut draft = None;
        for n in 1.. {
            let place = draft_path(n);
            for again in 1..=MAX_DRAFTS {
                let text = self.answer(&place.join("planner").nth(again)).await?;
                if let Some(list) = text.and_then(|text| checklist::read(&text).ok()) {
                    draft = Some(list);
                }
            }
            if let (Approve::None, Some(list)) = (config.approve, &draft) {
                return Ok((list.clone(), true));
            }
            let said = self.answer(&place.join("approval")).await?;
            match (said.as_deref().map(parse_decision), &draft) {
                (None, _) => break,
                (Some(Decision::Approve), Some(list)) => return Ok((list.clone(), true)),
                (Some(Decision::Plan(list)), _) => return Ok((list, true)),
                (Some(_), _) => {}
            }
        }
        Ok((draft.unwrap_or_default(), false))
    }

    async fn status_of(
        &self,
        task: &checklist::Task,
    ) -> Result<(Option<String>, Status), StoreError> {
        if task.done {
            return Ok((None, Status::Skipped));
        }
        let place = task_path(&task.id);
        if let Some(text) = self.answer(&place.join("commit")).await? {
            return Ok((parse_commit(&text).commit, Status::Done));
        }
        let below = format!("{place}/");
        let is_below = |path: &Path| path.as_str().starts_with(&below);
        let open = self
            .state
            .open_steps
            .iter()
            .filter(|(path, _)| is_below(path));
        let failed = open
            .clone()
            .any(|(_, open)| matches!(open.status, AttemptStatus::Failed(_)));
        let begun = open.count() > 0
            || self.finished.iter().any(|(path, _)| is_below(path))
            || self.state.questions.keys().any(is_below);
        Ok((
            None,
            if failed && self.state.status == SessionStatus::Failed {
                Status::Failed
            } else if begun {
                Status::InProgress
            } else {
                Status::Pending
            },
        ))
    }

    async fn reviews(&self, id: &str) -> Result<Vec<Review>, StoreError> {
        let mut reviews: Vec<Review> = Vec::new();
        for round in 1.. {
            let place = task_path(id).join(round);
            if self.finished.get(&place.join("work")).is_none() {
                break;
            }
            // The task was done again after the reviews of earlier rounds.
            reviews
                .iter_mut()
                .for_each(|review| review.addressed = true);
            for again in 1..=MAX_DRAFTS {
                let path = place.join("review").nth(again);
                let Some(text) = self.answer(&path).await? else {
                    break;
                };
                if let Ok(review) = parse_review(&text) {
                    reviews.push(Review {
                        round,
                        by: self.by(&path),
                        approved: review.approved,
                        severity: review.severity,
                        comments: review.comments,
                        addressed: review.approved,
                    });
                }
            }
            let path = place.join("approval");
            let Some(text) = self.answer(&path).await? else {
                continue;
            };
            let (approved, comments) = match parse_decision(&text) {
                Decision::Reject(reason) => (false, vec![reason]),
                _ => (true, Vec::new()),
            };
            reviews.push(Review {
                round,
                by: self.by(&path),
                approved,
                severity: "none".to_owned(),
                comments,
                addressed: approved,
            });
        }
        Ok(reviews)
    }

    fn usage(&self, id: &str) -> Usage {
        let below = format!("{}/", task_path(id));
        let mut usage = Usage::default();
        for (path, done) in self.finished.iter() {
            if path.as_str().starts_with(&below) {
                usage += done.usage;
            }
        }
        usage
    }

    fn by(&self, path: &Path) -> String {
        let done = self.finished.get(path);
        done.map(|done| done.agent.clone()).unwrap_or_default()
    }

    /// The answer of a finished step.
    async fn answer(&self, path: &Path) -> Result<Option<String>, StoreError> {
        let Some(done) = self.finished.get(path) else {
            return Ok(None);
        };
        let entry = self.env.store.event(self.session, done.seq).await?;
        match entry.event.text() {
            Some(text) => Ok(Some(journal::load_text(self.env, text).await?)),
            None => Ok(None),
        }
    }
}
