//! Collects the input of a resume context from a session.

use std::collections::BTreeSet;
use std::path::Path as Folder;

use segno_core::handoff::Handoff;
use segno_core::id::SessionId;
use segno_core::journal::{Event, NotesWritten};
use segno_core::note::{Feedback, Note, Severity, Source};
use segno_core::session::Status;
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::{self, FinishedSteps, State};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::usage::Usage;

use super::{ContextInput, MAX_TOKENS, ResumeContext, Task, TaskStatus, compile};
use crate::env::Env;
use crate::error::Error;
use crate::resume::recorded_spec;
use crate::{history, journal, lease, notes, reconcile, work};
use segno_spec::{Pattern, Workflow, outline};

/// What a workflow says about itself before it runs.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// What the session is about.
    pub(crate) issue: Option<String>,
    /// The steps that will run, as far as they are known in advance.
    steps: Vec<Path>,
    /// Whether they run one after the other.
    is_linear: bool,
}

impl Outline {
    pub(crate) fn new(workflow: &Workflow) -> Self {
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

    /// Whether the state alone determines the remaining steps.
    fn is_determined_by(&self, state: &State) -> bool {
        self.is_linear
            || self.steps.is_empty()
            || state.finished <= state.newest_finished.len() as u64
    }

    /// The tasks: recently finished, started, and remaining. `finished` has the steps that finished
    /// before the newest ones.
    pub(crate) fn tasks(&self, state: &State, finished: Option<&FinishedSteps>) -> Vec<Task> {
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

/// Why the newest run ended, if that is recorded.
fn ended(state: &State) -> Option<String> {
    let stopped = state.stopped.as_ref().map(|stopped| match &stopped.reason {
        Some(reason) => format!("requested by {}: {reason}", stopped.by),
        None => format!("requested by {}", stopped.by),
    });
    let failed = state.error.as_ref();
    let failed = failed.map(|error| format!("{} ({})", error.message, error.kind));
    stopped.or(failed)
}

/// Everything that a resume context is compiled from.
#[derive(Debug)]
pub struct ContextSource {
    summary: Summary,
    state: State,
    handoff: Handoff,
    issue: Option<String>,
    tasks: Vec<Task>,
    done: u64,
    workspace_status: WorkspaceStatus,
    ended: Option<String>,
    /// The user's replacement text, if there is one.
    pub edited: Option<String>,
}

/// Collects what is known about a session.
pub async fn collect(env: &Env, summary: Summary) -> Result<ContextSource, Error> {
    let state = history::load_state(env, summary.id).await?;
    let lease = env.store.lease(summary.id).await?;
    let lost = lease::effective_status(env, &summary, &lease) == Status::Interrupted;
    let lost = lost.then(|| "the process was lost".to_owned());
    let mut handoff = notes::merged(env, &summary).await?;
    // An unreadable spec does not prevent the rest.
    let workflow = recorded_spec(env, summary.id, &state).await.ok();
    let outline = workflow.as_ref().map(Outline::new).unwrap_or_default();
    let planned =
        matches!(&workflow, Some(workflow) if matches!(workflow.pattern, Pattern::Plan(_)));
    let plan = if planned {
        work::plan(env, &summary).await?
    } else {
        None
    };
    let finished = if outline.is_determined_by(&state) {
        None
    } else {
        Some(history::load_verified(env, summary.id).await?.1)
    };
    let (tasks, done, issue) = if let Some(plan) = plan {
        add_reviews(&mut handoff, &plan, &state);
        let tasks = plan.tasks.iter().map(task).collect();
        (tasks, plan.done as u64, Some(plan.issue))
    } else {
        let tasks = outline.tasks(&state, finished.as_ref());
        (tasks, state.finished, outline.issue)
    };
    Ok(ContextSource {
        handoff,
        tasks,
        done,
        issue,
        workspace_status: reconcile::workspace_status(
            env,
            Folder::new(&summary.workspace),
            state.start_commit(),
        )
        .await,
        ended: ended(&state).or(lost),
        edited: edited(env, summary.id, &state).await?,
        summary,
        state,
    })
}

/// A task of a plan as a task of the resume context.
fn task(task: &work::Task) -> Task {
    let standing = match task.status {
        work::Status::Done | work::Status::Skipped => TaskStatus::Done,
        work::Status::InProgress => TaskStatus::Started,
        work::Status::Failed => TaskStatus::Failed,
        work::Status::Pending | work::Status::Blocked => TaskStatus::Pending,
    };
    Task {
        id: task.id.clone(),
        title: Some(task.title.clone()),
        standing,
    }
}

/// Adds the reviews of a plan's tasks to the feedback.
fn add_reviews(handoff: &mut Handoff, plan: &work::Plan, state: &State) {
    for review in plan.tasks.iter().flat_map(|task| &task.reviews) {
        let feedback = Note::Feedback(Feedback {
            persona: review.by.clone(),
            approved: review.approved,
            severity: review.severity.parse().unwrap_or(Severity::Minor),
            comments: review.comments.clone(),
            addressed: review.addressed,
        });
        let event = NotesWritten {
            source: Source::Agent,
            by: review.by.clone(),
            path: None,
            notes: vec![feedback.truncated().into()],
            read_to: None,
            usage: Usage::default(),
        };
        handoff.add_derived(&event, state.head.seq, state.updated_at);
    }
}

/// The user's replacement for the resume context, if there is one.
pub(crate) async fn edited(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<Option<String>, Error> {
    let Some(seq) = state.resume_context else {
        return Ok(None);
    };
    match env.store.event(session, seq).await?.event {
        Event::ResumeContextEdited(event) => Ok(Some(journal::load_text(env, &event.text).await?)),
        _ => Ok(None),
    }
}

impl ContextSource {
    /// Compiles the resume context.
    pub fn compile(&self) -> ResumeContext {
        let known = ContextInput {
            name: self.summary.name.as_str(),
            runs: self.state.runs,
            issue: self.issue.as_deref(),
            tasks: &self.tasks,
            done: self.done,
            handoff: &self.handoff,
            workspace_status: Some(&self.workspace_status),
            ended: self.ended.as_deref(),
            usage: self.state.usage,
        };
        compile(&known, MAX_TOKENS)
    }
}
