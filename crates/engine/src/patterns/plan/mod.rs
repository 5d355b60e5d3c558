//! Runs a plan of tasks in a git repository: one after the other, each in a fresh conversation and
//! with its own commit.
//!
//! The steps are `begin` (creates branch and worktree), `plan/N/planner` and `plan/N/approval` if
//! the plan must be made first, and for each task `tasks/ID/N/work`, `tasks/ID/N/review`,
//! `tasks/ID/N/approval` and `tasks/ID/commit`. A pause at the next boundary does not interrupt a
//! task: the run resumes with the next task.

mod decision;
mod draft;
mod prompts;
mod repository;
mod review;
mod task;

use segno_core::step::Path;
use segno_spec::checklist::{self, Checklist};
use segno_spec::{Goal, Pattern, Plan};

use super::Ending;
use crate::answers::Source;
use crate::error::Error;
use crate::resume::context::PlannedTask;
use crate::scope::TemplateValue;
use crate::steps::Runner;

pub use decision::{Decision, parse_decision};
pub use draft::MAX_DRAFTS;
pub(super) use repository::TaskCommit;
pub use repository::parse_commit;
pub use review::parse_review;

pub(super) async fn run(runner: &Runner, plan: &Plan) -> Result<Ending, Error> {
    if plan.goal == Goal::Plan {
        let list = draft::resolve_plan(runner, plan).await?;
        return Ok(ending(runner, &list, &[]));
    }
    let mut base = repository::begin(runner, plan).await?;
    let list = draft::resolve_plan(runner, plan).await?;
    runner.outline.set_plan(planned_tasks(&list));
    let order = list.order();
    runner.observer.planned(order.len());
    let mut done: Vec<(usize, TaskCommit)> = Vec::new();
    for index in order {
        if list.tasks[index].done {
            continue;
        }
        let job = task::Job {
            plan,
            list: &list,
            index,
            done: &done,
            base: &base,
        };
        let prefix = task::path_of(&list.tasks[index].id);
        let made = if let Some(done) = runner.earlier.finished.get(&prefix.join("commit")) {
            // A committed task is done, whatever its steps would be asked now.
            let answer = runner.rendering.answers.add(Source::Journal(done.seq));
            runner.skip_finished_below(&prefix);
            repository::parse_commit(&runner.text(answer).await?)
        } else {
            // Between tasks any stop request takes effect; inside a task, only an immediate one.
            runner.check_may_start().await?;
            runner.stop_token.set_in_task(true);
            let made = job.run(runner).await;
            runner.stop_token.set_in_task(false);
            runner.limits.auto_pause.count_step();
            made?
        };
        if let Some(commit) = &made.commit {
            base.clone_from(commit);
        }
        done.push((index, made));
    }
    Ok(ending(runner, &list, &done))
}

/// The tasks of a plan, for the resume context.
fn planned_tasks(list: &Checklist) -> Vec<PlannedTask> {
    let task = |task: &checklist::Task| {
        let path = task::path_of(&task.id);
        PlannedTask {
            id: task.id.clone(),
            title: task.title.clone(),
            is_done: task.done,
            last_step: path.join("commit"),
            path,
        }
    };
    list.tasks.iter().map(task).collect()
}

/// The result is the plan, with the commit of each task.
fn ending(runner: &Runner, list: &Checklist, done: &[(usize, TaskCommit)]) -> Ending {
    let text = if done.is_empty() {
        list.text().trim_end().to_owned()
    } else {
        let mut lines = list.lines(|_| true);
        for (index, made) in done {
            let what = match &made.commit {
                Some(commit) => commit.get(..12).unwrap_or(commit),
                None => "nothing to commit",
            };
            lines[*index] = format!("{} [{what}]", lines[*index]);
        }
        lines.join("\n")
    };
    let last = runner.rendering.answers.add(Source::InMemory(text.into()));
    Ending {
        last: Some(last),
        scope: runner
            .rendering
            .scope
            .with([("plan", TemplateValue::Answer(last))]),
    }
}

/// Whether a step is a git step: it checks whether it already took effect before it runs again, so
/// its unknown outcome needs no decision.
pub fn is_git_step(pattern: &Pattern, path: &Path) -> bool {
    let path = path.as_str();
    let commit = path.starts_with("tasks/") && path.ends_with("/commit");
    matches!(pattern, Pattern::Plan(_)) && (path == "begin" || commit)
}

/// The path of the n-th draft of the plan.
pub fn draft_path(n: u32) -> Path {
    Path::root("plan").join(n)
}

/// The path of a task.
pub fn task_path(id: &str) -> Path {
    task::path_of(id)
}
