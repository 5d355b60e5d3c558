//! A session that works through a plan, as it stands: computed from its journal alone.

use segno_core::id::SessionId;
use segno_core::session::{Status as SessionStatus, Summary};
use segno_core::state::{Finished, Standing, State};
use segno_core::step::Path;
use segno_core::usage::Usage;

use super::checklist::{self, Checklist};
use crate::error::Error;
use crate::patterns::{Decision, MOST_DRAFTS, decide, drafted, made, review_in, task_place};
use crate::spec::{self, Approve, Pattern};
use crate::world::World;
use crate::{history, pen, resume};

/// A plan, and how far it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What it is for.
    pub issue: String,
    /// The branch that the work is on, if it is on one.
    pub branch: Option<String>,
    /// The commit that the work began at, once it has begun.
    pub start: Option<String>,
    /// Whether the plan is the one that is worked on, rather than one that a person is asked about.
    pub settled: bool,
    /// The tasks, in the order in which they are written; none if the plan is not made yet.
    pub tasks: Vec<Task>,
    /// The task that is being done, or that failed.
    pub current: Option<String>,
    /// The task that comes next.
    pub next: Option<String>,
    /// How many tasks are done, those that were done before included.
    pub done: usize,
    /// How many are not.
    pub remaining: usize,
}

/// A task, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: String,
    /// What is to be done.
    pub title: String,
    /// The same at length.
    pub description: String,
    /// Where it stands.
    pub status: Status,
    /// The tasks that come before it.
    pub depends_on: Vec<String>,
    /// Its commit; absent also if there was nothing to commit.
    pub commit: Option<String>,
    /// What was said about it, oldest first.
    pub reviews: Vec<Review>,
    /// What it took.
    pub usage: Usage,
}

/// What someone said about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Which time it was done, from 1.
    pub round: u32,
    /// Who said it; an agent's name, or `hitl` for a person.
    pub by: String,
    /// Whether it may be committed as it was.
    pub approved: bool,
    /// How bad it was.
    pub severity: String,
    /// What must change.
    pub comments: Vec<String>,
    /// Whether it was done again since.
    pub addressed: bool,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It was not begun.
    Pending,
    /// It was begun.
    InProgress,
    /// It is committed.
    Done,
    /// It could not be done; a resume tries again.
    Failed,
    /// One that it needs failed.
    Blocked,
    /// It was done before there was a plan.
    Skipped,
}

impl Status {
    /// The word for it.
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

    /// Whether nothing is left to do.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }
}

impl Plan {
    /// The plan as a checklist, a line for each task.
    pub fn lines(&self) -> Vec<String> {
        let line = |task: &Task| {
            let after = task.depends_on.join(", ");
            checklist::line(task.status.is_over(), &task.id, &task.title, &after)
        };
        self.tasks.iter().map(line).collect()
    }
}

/// The plan of a session; `None` if it does not work through one.
pub async fn plan(world: &World, summary: &Summary) -> Result<Option<Plan>, Error> {
    let (state, finished) = history::open(world, summary.id).await?;
    let workflow = resume::kept_spec(world, summary.id, &state).await?;
    let Pattern::Plan(config) = &workflow.pattern else {
        return Ok(None);
    };
    let past = Past {
        world,
        session: summary.id,
        state: &state,
        finished: &finished,
    };
    past.plan(config).await.map(Some)
}

/// What happened in a session.
struct Past<'a> {
    world: &'a World,
    session: SessionId,
    state: &'a State,
    finished: &'a Finished,
}

impl Past<'_> {
    async fn plan(&self, config: &spec::Plan) -> Result<Plan, Error> {
        let (list, settled) = match &config.tasks {
            Some(list) => (list.clone(), true),
            None => self.draft(config).await?,
        };
        let begun = self.answer(&Path::first("begin")).await?;
        let value: serde_json::Value = begun
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let word = |key: &str| value[key].as_str().map(str::to_owned);
        let mut plan = Plan {
            issue: config.issue.clone(),
            branch: word("branch"),
            start: word("commit"),
            settled,
            ..Plan::default()
        };
        for task in &list.tasks {
            let names = task.depends_on.iter();
            let (commit, status) = self.standing(task).await?;
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

    /// The newest plan that was made, and whether it is the one that is worked on.
    async fn draft(&self, config: &spec::Plan) -> Result<(Checklist, bool), Error> {
        let mut draft = None;
        for n in 1.. {
            let place = drafted(n);
            for again in 1..=MOST_DRAFTS {
                let text = self.answer(&place.then("planner").again(again)).await?;
                if let Some(list) = text.and_then(|text| checklist::read(&text).ok()) {
                    draft = Some(list);
                }
            }
            if let (Approve::None, Some(list)) = (config.approve, &draft) {
                return Ok((list.clone(), true));
            }
            let said = self.answer(&place.then("approval")).await?;
            match (said.as_deref().map(decide), &draft) {
                (None, _) => break,
                (Some(Decision::Approve), Some(list)) => return Ok((list.clone(), true)),
                (Some(Decision::Plan(list)), _) => return Ok((list, true)),
                (Some(_), _) => {}
            }
        }
        Ok((draft.unwrap_or_default(), false))
    }

    async fn standing(&self, task: &checklist::Task) -> Result<(Option<String>, Status), Error> {
        if task.done {
            return Ok((None, Status::Skipped));
        }
        let place = task_place(&task.id);
        if let Some(text) = self.answer(&place.then("commit")).await? {
            return Ok((made(&text).commit, Status::Done));
        }
        let below = format!("{place}/");
        let is_below = |path: &Path| path.as_str().starts_with(&below);
        let open = self.state.open.iter().filter(|(path, _)| is_below(path));
        let failed = open
            .clone()
            .any(|(_, open)| matches!(open.standing, Standing::Failed(_)));
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

    async fn reviews(&self, id: &str) -> Result<Vec<Review>, Error> {
        let mut reviews: Vec<Review> = Vec::new();
        for round in 1.. {
            let place = task_place(id).then(round);
            if self.finished.get(&place.then("work")).is_none() {
                break;
            }
            // Whatever was said about the round before, it was done again.
            reviews
                .iter_mut()
                .for_each(|review| review.addressed = true);
            for again in 1..=MOST_DRAFTS {
                let path = place.then("review").again(again);
                let Some(text) = self.answer(&path).await? else {
                    break;
                };
                if let Ok(review) = review_in(&text) {
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
            let path = place.then("approval");
            let Some(text) = self.answer(&path).await? else {
                continue;
            };
            let (approved, comments) = match decide(&text) {
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
        let below = format!("{}/", task_place(id));
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

    /// What a finished step answered.
    async fn answer(&self, path: &Path) -> Result<Option<String>, Error> {
        let Some(done) = self.finished.get(path) else {
            return Ok(None);
        };
        let entry = self.world.store.entry(self.session, done.seq).await?;
        match entry.event.text() {
            Some(text) => Ok(Some(pen::recall(self.world, text).await?)),
            None => Ok(None),
        }
    }
}
