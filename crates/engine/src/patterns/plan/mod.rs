//! A plan of tasks in a git repository: one after the other, each in a fresh conversation and with a
//! commit of its own.
//!
//! The steps are `begin` (a branch and its folder), `plan/N/planner` and `plan/N/approval` if the plan is
//! to be made first, and for each task `tasks/ID/N/work`, `tasks/ID/N/review`, `tasks/ID/N/approval` and
//! `tasks/ID/commit`. A task is not left in the middle by a pause that waits for a boundary: whoever goes
//! on begins with the next.

mod decision;
mod draft;
mod ground;
mod review;
mod task;
mod words;

use segno_core::step::Path;

use super::Ending;
use crate::answers::Source;
use crate::error::Error;
use crate::flow::Flow;
use crate::scope::Seen;
use crate::spec::{Goal, Pattern, Plan};
use crate::work::checklist::Checklist;

pub(crate) use decision::{Decision, decide};
pub(crate) use draft::MOST_DRAFTS;
pub(crate) use ground::{Made, made};
pub(crate) use review::review_in;

pub(super) async fn run(flow: &Flow, plan: &Plan) -> Result<Ending, Error> {
    if plan.goal == Goal::Plan {
        let list = draft::settle(flow, plan).await?;
        return Ok(ending(flow, &list, &[]));
    }
    let mut base = ground::begin(flow, plan).await?;
    let list = draft::settle(flow, plan).await?;
    let order = list.order();
    flow.observer.planned(order.len());
    let mut done: Vec<(usize, Made)> = Vec::new();
    for place in order {
        if list.tasks[place].done {
            continue;
        }
        let job = task::Job {
            plan,
            list: &list,
            place,
            done: &done,
            base: &base,
        };
        let below = task::place(&list.tasks[place].id);
        let made = if let Some(done) = flow.finished.get(&below.then("commit")) {
            // Done is done: what its steps would be asked now does not matter any more.
            let answer = flow.answers.add(Source::Journal(done.seq));
            flow.pass(&below);
            ground::made(&flow.text(answer).await?)
        } else {
            // Between tasks anyone may stop the run; in the middle of one, only at once.
            flow.boundary().await?;
            flow.brake.set_in_task(true);
            let made = job.perform(flow).await;
            flow.brake.set_in_task(false);
            flow.pace.step();
            made?
        };
        if let Some(commit) = &made.commit {
            base.clone_from(commit);
        }
        done.push((place, made));
    }
    Ok(ending(flow, &list, &done))
}

/// The result is the plan, with what became of each task.
fn ending(flow: &Flow, list: &Checklist, done: &[(usize, Made)]) -> Ending {
    let text = if done.is_empty() {
        list.text().trim_end().to_owned()
    } else {
        let mut lines = list.lines(|_| true);
        for (place, made) in done {
            let what = match &made.commit {
                Some(commit) => commit.get(..12).unwrap_or(commit),
                None => "nothing to commit",
            };
            lines[*place] = format!("{} [{what}]", lines[*place]);
        }
        lines.join("\n")
    };
    let last = flow.answers.add(Source::Held(text.into()));
    Ending {
        last: Some(last),
        scope: flow.scope.with([("plan", Seen::Answer(last))]),
    }
}

/// Whether a step is one that git does: whether it took effect is looked up before it is done again, so
/// nobody has to decide about it.
pub(crate) fn is_looked_up(pattern: &Pattern, path: &Path) -> bool {
    let path = path.as_str();
    let commit = path.starts_with("tasks/") && path.ends_with("/commit");
    matches!(pattern, Pattern::Plan(_)) && (path == "begin" || commit)
}

/// Where a plan is made, for the n-th time.
pub(crate) fn drafted(n: u32) -> Path {
    Path::first("plan").then(n)
}

/// Where a task is done.
pub(crate) fn task_place(id: &str) -> Path {
    task::place(id)
}
