//! Runs one task: work, review, revisions, commit.

use segno_core::agent::AccessMode;
use segno_core::step::Path;
use segno_core::worktree::{CommitOutcome as Committed, CommitRequest};
use segno_spec::checklist::{Checklist, Task};
use segno_spec::{Approve, Plan};
use serde_json::json;

use super::decision::{Decision, YES_OR_NO, parse_decision};
use super::draft::ask_human;
use super::prompts;
use super::repository::{TaskCommit, parse_commit};
use super::review::{Review, SHAPE, parse_review};
use crate::answers::Answer;
use crate::error::Error;
use crate::patterns::structured_output::{StructuredQuestion, Wording, ask_structured};
use crate::scope::Scope;
use crate::steps::{Input, Question, Runner};

/// How many bytes of the diff a reviewer sees.
const REVIEW_DIFF_BYTES: usize = 128 * 1024;
/// How many bytes of the diff a human sees.
const HUMAN_DIFF_BYTES: usize = 8 * 1024;
/// How often an invalid review is asked for again.
const REVIEW_RETRIES: u32 = 2;
/// The longest subject line of a commit message, in characters.
const SUBJECT_CHARS: usize = 100;

/// A task to run.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan,
    pub(super) list: &'a Checklist,
    pub(super) index: usize,
    /// The tasks before it, and their commits.
    pub(super) done: &'a [(usize, TaskCommit)],
    /// The commit that it starts at.
    pub(super) base: &'a str,
}

/// The path of a task.
pub(super) fn path_of(id: &str) -> Path {
    Path::root("tasks").join(id)
}

impl Job<'_> {
    pub(super) fn task(&self) -> &Task {
        &self.list.tasks[self.index]
    }

    /// The plan, with finished tasks checked.
    pub(super) fn plan_so_far(&self) -> String {
        let lines = self.list.lines(|task| {
            let done = |(index, _): &(usize, TaskCommit)| self.list.tasks[*index].id == task.id;
            task.done || self.done.iter().any(done)
        });
        lines.join("\n")
    }

    /// Runs the task until its result is committed.
    pub(super) async fn run(&self, runner: &Runner) -> Result<TaskCommit, Error> {
        // Agents remember nothing of other tasks.
        let scope = runner.rendering.scope.remembering([]);
        let mut feedback: Option<Vec<String>> = None;
        for round in 1.. {
            let prefix = path_of(&self.task().id).join(round);
            let done = self
                .run_worker(runner, &prefix, feedback.as_deref(), &scope)
                .await?;
            let review = match &self.plan.reviewer {
                None => None,
                Some(reviewer) => Some(self.review(runner, &prefix, reviewer, done).await?),
            };
            let sent_back = review.as_ref().filter(|review| !review.approved);
            if let Some(review) = sent_back
                && round <= self.plan.max_revisions
            {
                feedback = Some(review.comments.clone());
                continue;
            }
            if sent_back.is_some() || self.plan.approve == Approve::Tasks {
                match self
                    .ask_approval(runner, &prefix, done, review.as_ref())
                    .await?
                {
                    None => {}
                    Some(reason) => {
                        feedback = Some(vec![reason]);
                        continue;
                    }
                }
            }
            let answer = self.commit(runner, &runner.text(done).await?).await?;
            return Ok(parse_commit(&runner.text(answer).await?));
        }
        unreachable!("the user is asked until the task is approved")
    }

    async fn run_worker(
        &self,
        runner: &Runner,
        prefix: &Path,
        feedback: Option<&[String]>,
        scope: &Scope,
    ) -> Result<Answer, Error> {
        let path = prefix.join("work");
        let question = Question {
            input: Input::Text(prompts::task(runner, &path, self, feedback)),
            path,
            agent: &self.plan.agent,
            scope,
            tools: None,
            access: AccessMode::ReadWrite,
        };
        runner.ask(question).await
    }

    async fn review(
        &self,
        runner: &Runner,
        prefix: &Path,
        reviewer: &str,
        done: Answer,
    ) -> Result<Review, Error> {
        let path = prefix.join("review");
        let diff = self.diff(runner, REVIEW_DIFF_BYTES).await?;
        let report = runner.text(done).await?;
        let structured = StructuredQuestion {
            input: Wording::Text(prompts::review(runner, &path, self, &report, &diff)),
            path,
            agent: reviewer,
            shape: SHAPE,
            alone: "the JSON",
            retries: REVIEW_RETRIES,
            scope: &runner.rendering.scope.remembering([]),
            access: AccessMode::ReadOnly,
        };
        let (review, _) = ask_structured(runner, structured, parse_review).await?;
        Ok(review)
    }

    /// Asks a human: `None` if the task is approved, otherwise what must change.
    async fn ask_approval(
        &self,
        runner: &Runner,
        prefix: &Path,
        done: Answer,
        review: Option<&Review>,
    ) -> Result<Option<String>, Error> {
        let task = self.task();
        let prompt = match review {
            Some(review) if !review.approved => format!(
                "The reviewer does not approve task {} ({}). Answer `approve` to commit it anyway, or `reject REASON` to have it redone.",
                task.id, task.title
            ),
            _ => format!(
                "Approve task {} ({})? Answer `approve`, or `reject REASON` to have it redone.",
                task.id, task.title
            ),
        };
        let report = runner.text(done).await?;
        let diff = self.diff(runner, HUMAN_DIFF_BYTES).await?;
        let shown = prompts::approval_context(&report, review, &diff);
        let path = prefix.join("approval");
        let answer = ask_human(runner, &path, &prompt, &shown, YES_OR_NO).await?;
        Ok(match parse_decision(&answer) {
            Decision::Reject(reason) if reason.is_empty() => {
                Some("The user rejected it without a reason.".to_owned())
            }
            Decision::Reject(reason) => Some(reason),
            Decision::Approve | Decision::Plan(_) | Decision::BadPlan(_) => None,
        })
    }

    async fn diff(&self, runner: &Runner, limit: usize) -> Result<String, Error> {
        let (folder, since) = (runner.id.workspace.clone(), self.base.to_owned());
        let diff = runner.env.worktrees.diff(folder, since, limit).await?;
        Ok(runner.env.redactor.redact(&diff).into_owned())
    }

    /// Commits the task; `report` is the worker's report.
    pub(super) async fn commit(&self, runner: &Runner, report: &str) -> Result<Answer, Error> {
        let task = self.task();
        let whole = format!("{}: {}", task.id, task.title);
        let subject: String = whole.chars().take(SUBJECT_CHARS).collect();
        let cut = subject.len() < whole.len();
        let body = [cut.then_some(whole.as_str()), Some(report.trim())];
        let body: Vec<&str> = body.into_iter().flatten().collect();
        let request = CommitRequest {
            folder: runner.id.workspace.clone(),
            since: self.base.to_owned(),
            body: prompts::commit_body(&body.join("\n\n")),
            subject: if cut {
                format!("{subject}…")
            } else {
                subject
            },
            trailers: vec![
                ("Segno-Session".to_owned(), runner.id.session.to_string()),
                ("Segno-Task".to_owned(), task.id.clone()),
            ],
        };
        let description = format!("commit {whole}");
        let operation = async {
            Ok(match runner.env.worktrees.commit(request).await? {
                Committed::Commit(commit) => json!({"commit": commit}),
                Committed::OthersCommitted(commit) => json!({"commit": commit, "by": "others"}),
                Committed::NothingChanged => json!({"commit": null}),
            }
            .to_string())
        };
        runner
            .run_git_step(&path_of(&task.id).join("commit"), &description, operation)
            .await
    }
}
