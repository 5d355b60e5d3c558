//! One task: done, looked at, done again if need be, and committed.

use segno_core::agent::Conduct;
use segno_core::step::Path;
use segno_core::worktree::{Deed, Made as Committed};
use serde_json::json;

use super::decision::{Decision, YES_OR_NO, decide};
use super::draft::ask;
use super::ground::{Made, made};
use super::review::{Review, SHAPE, review_in};
use super::words;
use crate::answers::Answer;
use crate::error::Error;
use crate::flow::{Flow, Input, Question};
use crate::patterns::insist::{Demand, Wording, insist};
use crate::scope::Scope;
use crate::spec::{Approve, Plan};
use crate::work::checklist::{Checklist, Task};

/// How much of what was changed a reviewer is shown, in bytes.
const REVIEWED: usize = 128 * 1024;
/// How much of it a person is shown.
const SHOWN: usize = 8 * 1024;
/// How often a review that is none is asked for again.
const RETRIES: u32 = 2;
/// The longest first line of a commit's message, in characters.
const SUBJECT: usize = 100;

/// A task that is to be done.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan,
    pub(super) list: &'a Checklist,
    pub(super) place: usize,
    /// The tasks before it, and what became of them.
    pub(super) done: &'a [(usize, Made)],
    /// The commit that it begins at.
    pub(super) base: &'a str,
}

/// Where a task is done.
pub(super) fn place(id: &str) -> Path {
    Path::first("tasks").then(id)
}

impl Job<'_> {
    pub(super) fn task(&self) -> &Task {
        &self.list.tasks[self.place]
    }

    /// The plan, with what is done.
    pub(super) fn plan_so_far(&self) -> String {
        let lines = self.list.lines(|task| {
            let done = |(place, _): &(usize, Made)| self.list.tasks[*place].id == task.id;
            task.done || self.done.iter().any(done)
        });
        lines.join("\n")
    }

    /// Does it.
    pub(super) async fn perform(&self, flow: &Flow) -> Result<Made, Error> {
        // Nobody remembers what another task was about.
        let scope = flow.scope.remembering([]);
        let mut feedback: Option<Vec<String>> = None;
        for round in 1.. {
            let place = place(&self.task().id).then(round);
            let done = self.work(flow, &place, feedback.as_deref(), &scope).await?;
            let review = match &self.plan.reviewer {
                None => None,
                Some(reviewer) => Some(self.review(flow, &place, reviewer, done).await?),
            };
            let sent_back = review.as_ref().filter(|review| !review.approved);
            if let Some(review) = sent_back
                && round <= self.plan.max_revisions
            {
                feedback = Some(review.comments.clone());
                continue;
            }
            if sent_back.is_some() || self.plan.approve == Approve::Tasks {
                match self.approval(flow, &place, done, review.as_ref()).await? {
                    None => {}
                    Some(reason) => {
                        feedback = Some(vec![reason]);
                        continue;
                    }
                }
            }
            let answer = self.commit(flow, &flow.text(done).await?).await?;
            return Ok(made(&flow.text(answer).await?));
        }
        unreachable!("a person is asked until it is approved")
    }

    async fn work(
        &self,
        flow: &Flow,
        place: &Path,
        feedback: Option<&[String]>,
        scope: &Scope,
    ) -> Result<Answer, Error> {
        let path = place.then("work");
        let question = Question {
            input: Input::Words(words::task(flow, &path, self, feedback)),
            path,
            agent: &self.plan.agent,
            scope,
            tools: None,
            conduct: Conduct::Work,
        };
        flow.ask(question).await
    }

    async fn review(
        &self,
        flow: &Flow,
        place: &Path,
        reviewer: &str,
        done: Answer,
    ) -> Result<Review, Error> {
        let path = place.then("review");
        let diff = self.diff(flow, REVIEWED).await?;
        let said = flow.text(done).await?;
        let demand = Demand {
            input: Wording::Words(words::review(flow, &path, self, &said, &diff)),
            path,
            agent: reviewer,
            shape: SHAPE,
            alone: "the JSON",
            retries: RETRIES,
            scope: &flow.scope.remembering([]),
            conduct: Conduct::Look,
        };
        let (review, _) = insist(flow, demand, review_in).await?;
        Ok(review)
    }

    /// A person's word on it: `None` if it is good, otherwise what must change.
    async fn approval(
        &self,
        flow: &Flow,
        place: &Path,
        done: Answer,
        review: Option<&Review>,
    ) -> Result<Option<String>, Error> {
        let task = self.task();
        let prompt = match review {
            Some(review) if !review.approved => format!(
                "The reviewer does not approve task {} ({}). Answer `approve` to commit it nevertheless, or `reject REASON` to have it done again.",
                task.id, task.title
            ),
            _ => format!(
                "Approve task {} ({})? Answer `approve`, or `reject REASON` to have it done again.",
                task.id, task.title
            ),
        };
        let said = flow.text(done).await?;
        let diff = self.diff(flow, SHOWN).await?;
        let shown = words::shown(&said, review, &diff);
        let path = place.then("approval");
        let answer = ask(flow, &path, &prompt, &shown, YES_OR_NO).await?;
        Ok(match decide(&answer) {
            Decision::Reject(reason) if reason.is_empty() => {
                Some("A person rejected it and gave no reason.".to_owned())
            }
            Decision::Reject(reason) => Some(reason),
            Decision::Approve | Decision::Plan(_) | Decision::BadPlan(_) => None,
        })
    }

    async fn diff(&self, flow: &Flow, limit: usize) -> Result<String, Error> {
        let (folder, since) = (flow.workspace.clone(), self.base.to_owned());
        let diff = flow.world.worktrees.diff(folder, since, limit).await?;
        Ok(flow.world.redactor.redact(&diff).into_owned())
    }

    /// Commits it; `said` is what whoever did it had to say.
    pub(super) async fn commit(&self, flow: &Flow, said: &str) -> Result<Answer, Error> {
        let task = self.task();
        let whole = format!("{}: {}", task.id, task.title);
        let subject: String = whole.chars().take(SUBJECT).collect();
        let cut = subject.len() < whole.len();
        let body = [cut.then_some(whole.as_str()), Some(said.trim())];
        let body: Vec<&str> = body.into_iter().flatten().collect();
        let deed = Deed {
            folder: flow.workspace.clone(),
            since: self.base.to_owned(),
            body: words::message(&body.join("\n\n")),
            subject: if cut {
                format!("{subject}…")
            } else {
                subject
            },
            trailers: vec![
                ("Segno-Session".to_owned(), flow.session.to_string()),
                ("Segno-Task".to_owned(), task.id.clone()),
            ],
        };
        let words = format!("commit {whole}");
        let act = async {
            Ok(match flow.world.worktrees.commit(deed).await? {
                Committed::Commit(commit) => json!({"commit": commit}),
                Committed::Others(commit) => json!({"commit": commit, "by": "others"}),
                Committed::Nothing => json!({"commit": null}),
            }
            .to_string())
        };
        flow.deed(&place(&task.id).then("commit"), &words, act)
            .await
    }
}
