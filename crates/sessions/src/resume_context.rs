//! Collects the input of a resume context from a session.

mod edit;

use std::path::Path as Folder;

use segno_core::handoff::Handoff;
use segno_core::journal::NotesWritten;
use segno_core::note::{Feedback, Note, Severity, Source};
use segno_core::session::Status;
use segno_core::snapshot::WorkspaceStatus;
use segno_core::state::State;
use segno_core::store::Summary;
use segno_core::usage::Usage;
use segno_engine::history::{self, recorded_spec};
use segno_engine::resume::context::{
    ContextInput, Outline, Progress, Task, TaskStatus, compile, edited, why_ended,
};
use segno_engine::{Env, lease, workspace};
use segno_spec::Pattern;

use crate::{notes, work};

pub use edit::{Error, edit};
pub use segno_engine::resume::context::{MAX_TOKENS, ResumeContext, Section, quote};

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
pub async fn collect(env: &Env, summary: Summary) -> Result<ContextSource, history::Error> {
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
        let Progress { tasks, done } = outline.progress(&state, finished.as_ref());
        (tasks, done, outline.issue)
    };
    Ok(ContextSource {
        handoff,
        tasks,
        done,
        issue,
        workspace_status: workspace::workspace_status(
            env,
            Folder::new(&summary.workspace),
            state.start_commit(),
        )
        .await,
        ended: lost.or_else(|| why_ended(&state)),
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
pub(crate) fn add_reviews(handoff: &mut Handoff, plan: &work::Plan, state: &State) {
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

impl ContextSource {
    /// Compiles the resume context.
    pub fn compile(&self) -> ResumeContext {
        let known = ContextInput {
            name: self.summary.name.as_str(),
            session_number: self.state.session_number,
            issue: self.issue.as_deref(),
            tasks: &self.tasks,
            done: self.done,
            handoff: &self.handoff,
            workspace_status: Some(&self.workspace_status),
            ended: self.ended.as_deref(),
            usage: self.state.usage,
            has_tools: true,
        };
        compile(&known, MAX_TOKENS)
    }
}
