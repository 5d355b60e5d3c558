//! What a brief is made of, gathered from a session.

use std::collections::BTreeSet;
use std::path::Path as Folder;

use segno_core::id::SessionId;
use segno_core::journal::{Event, MemosWritten};
use segno_core::memo::{Feedback, Handoff, Memo, Severity, Source};
use segno_core::session::{Status, Summary};
use segno_core::snapshot::Sight;
use segno_core::state::{self, Finished, State};
use segno_core::step::Path;
use segno_core::usage::Usage;

use super::{Brief, Known, Standing, TOKENS, Task, compile};
use crate::error::Error;
use crate::resume::kept_spec;
use crate::spec::{Pattern, Workflow, outline};
use crate::world::World;
use crate::{claim, history, memos, pen, reconcile, work};

/// What a workflow says about itself before it runs.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// What it is all about.
    pub(crate) issue: Option<String>,
    /// The steps that it will come to, as far as that is known.
    steps: Vec<Path>,
    /// Whether they come one after the other.
    in_line: bool,
}

impl Outline {
    pub(crate) fn new(workflow: &Workflow) -> Self {
        // Elsewhere it shows only on the way which steps there are, and how often.
        let known = matches!(
            workflow.pattern,
            Pattern::Chain(_) | Pattern::Workflow(_) | Pattern::Parallel(_)
        );
        let parts = if known { outline(workflow) } else { Vec::new() };
        Self {
            issue: workflow.description.clone(),
            steps: parts.into_iter().map(|part| part.path).collect(),
            in_line: matches!(workflow.pattern, Pattern::Chain(_)),
        }
    }

    /// Whether the state alone says what is to come.
    fn is_told_by(&self, state: &State) -> bool {
        self.in_line || self.steps.is_empty() || state.finished <= state.newest.len() as u64
    }

    /// The parts of the work: what was done last, what is begun, and what is to come. `finished` is
    /// what is done besides the newest.
    pub(crate) fn tasks(&self, state: &State, finished: Option<&Finished>) -> Vec<Task> {
        let newest: BTreeSet<&Path> = state.newest.iter().collect();
        let is_done = |path: &Path| {
            newest.contains(path) || finished.is_some_and(|finished| finished.get(path).is_some())
        };
        let behind = self
            .steps
            .iter()
            .rposition(|path| self.in_line && is_done(path));
        let ahead = self.steps.get(behind.map_or(0, |behind| behind + 1)..);
        let ahead = ahead.into_iter().flatten();
        let pending = ahead.filter(|path| !is_done(path) && !state.open.contains_key(path));
        let task = |path: &Path, standing| Task {
            id: path.to_string(),
            title: None,
            standing,
        };
        let open = state.open.iter().map(|(path, open)| match open.standing {
            state::Standing::Failed(_) => task(path, Standing::Failed),
            state::Standing::Discarded => task(path, Standing::Pending),
            _ => task(path, Standing::Begun),
        });
        let mut tasks: Vec<Task> = Vec::new();
        tasks.extend(state.newest.iter().map(|path| task(path, Standing::Done)));
        tasks.extend(open);
        tasks.extend(pending.map(|path| task(path, Standing::Pending)));
        tasks
    }
}

/// Why the newest run ended, if it says so.
fn ended(state: &State) -> Option<String> {
    let stopped = state.stopped.as_ref().map(|stopped| match &stopped.reason {
        Some(reason) => format!("{} asked for it: {reason}", stopped.by),
        None => format!("{} asked for it", stopped.by),
    });
    let failed = state.error.as_ref();
    let failed = failed.map(|error| format!("{} ({})", error.message, error.kind));
    stopped.or(failed)
}

/// Everything that a brief is made of.
#[derive(Debug)]
pub struct Whole {
    summary: Summary,
    state: State,
    handoff: Handoff,
    issue: Option<String>,
    tasks: Vec<Task>,
    done: u64,
    sight: Sight,
    ended: Option<String>,
    /// What a person wants to be told instead, if they have said so.
    pub edited: Option<String>,
}

/// Gathers what is known of a session.
pub async fn gather(world: &World, summary: Summary) -> Result<Whole, Error> {
    let state = history::look(world, summary.id).await?;
    let lease = world.store.lease(summary.id).await?;
    let lost = claim::standing(world, &summary, &lease) == Status::Interrupted;
    let lost = lost.then(|| "its process was lost".to_owned());
    let mut handoff = memos::handoff(world, &summary).await?;
    // A spec that cannot be read any more is no reason not to tell the rest.
    let workflow = kept_spec(world, summary.id, &state).await.ok();
    let outline = workflow.as_ref().map(Outline::new).unwrap_or_default();
    let planned =
        matches!(&workflow, Some(workflow) if matches!(workflow.pattern, Pattern::Plan(_)));
    let plan = if planned {
        work::plan(world, &summary).await?
    } else {
        None
    };
    let finished = if outline.is_told_by(&state) {
        None
    } else {
        Some(history::open(world, summary.id).await?.1)
    };
    let (tasks, done, issue) = if let Some(plan) = plan {
        learn(&mut handoff, &plan, &state);
        let tasks = plan.tasks.iter().map(task).collect();
        (tasks, plan.done as u64, Some(plan.issue))
    } else {
        let tasks = outline.tasks(&state, finished.as_ref());
        (tasks, state.finished, outline.issue)
    };
    Ok(Whole {
        handoff,
        tasks,
        done,
        issue,
        sight: reconcile::look(world, Folder::new(&summary.workspace), state.began()).await,
        ended: ended(&state).or(lost),
        edited: edited(world, summary.id, &state).await?,
        summary,
        state,
    })
}

/// A task of a plan, as a part of the work.
fn task(task: &work::Task) -> Task {
    let standing = match task.status {
        work::Status::Done | work::Status::Skipped => Standing::Done,
        work::Status::InProgress => Standing::Begun,
        work::Status::Failed => Standing::Failed,
        work::Status::Pending | work::Status::Blocked => Standing::Pending,
    };
    Task {
        id: task.id.clone(),
        title: Some(task.title.clone()),
        standing,
    }
}

/// Takes what reviewers said about the tasks of a plan for what it is.
fn learn(handoff: &mut Handoff, plan: &work::Plan, state: &State) {
    for review in plan.tasks.iter().flat_map(|task| &task.reviews) {
        let feedback = Memo::Feedback(Feedback {
            persona: review.by.clone(),
            approved: review.approved,
            severity: review.severity.parse().unwrap_or(Severity::Minor),
            comments: review.comments.clone(),
            addressed: review.addressed,
        });
        let said = MemosWritten {
            source: Source::Agent,
            by: review.by.clone(),
            path: None,
            memos: vec![feedback.bounded().into()],
            read_to: None,
            usage: Usage::default(),
        };
        handoff.learn(&said, state.head.seq, state.updated_at);
    }
}

/// What a person wants to be told instead of a brief, if they have said so.
pub(crate) async fn edited(
    world: &World,
    session: SessionId,
    state: &State,
) -> Result<Option<String>, Error> {
    let Some(seq) = state.brief else {
        return Ok(None);
    };
    match world.store.entry(session, seq).await?.event {
        Event::BriefEdited(event) => Ok(Some(pen::recall(world, &event.text).await?)),
        _ => Ok(None),
    }
}

impl Whole {
    /// The brief of it.
    pub fn brief(&self) -> Brief {
        let known = Known {
            name: self.summary.name.as_str(),
            runs: self.state.runs,
            issue: self.issue.as_deref(),
            tasks: &self.tasks,
            done: self.done,
            handoff: &self.handoff,
            sight: Some(&self.sight),
            ended: self.ended.as_deref(),
            usage: self.state.usage,
        };
        compile(&known, TOKENS)
    }
}
