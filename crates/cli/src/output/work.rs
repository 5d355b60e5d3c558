//! Renders the plan of a session.

use segno_sessions::work::{Plan, Status, Task};

use super::text;

/// Renders the plan as a checklist with the status of each task.
pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    if plan.tasks.is_empty() {
        return vec!["there is no plan yet".to_owned()];
    }
    let mut lines = vec![match &plan.branch {
        Some(branch) => format!("{} on branch {branch}", count(plan)),
        None => count(plan),
    }];
    if !plan.is_final {
        lines.push("the plan is not approved yet".to_owned());
    }
    for (line, task) in plan.lines().into_iter().zip(&plan.tasks) {
        lines.push(format!("{line}{}", note(task)));
        let open = task.reviews.iter().filter(|review| !review.addressed);
        for comment in open.flat_map(|review| &review.comments) {
            lines.push(format!("      {comment}"));
        }
    }
    if let Some(next) = plan.next.as_ref().filter(|_| plan.is_final) {
        lines.push(format!("next: {next}"));
    }
    lines
}

fn count(plan: &Plan) -> String {
    let (done, of) = (plan.done, text::count(plan.tasks.len() as u64, "task"));
    format!("{done} of {of} done")
}

fn note(task: &Task) -> String {
    let word = match (task.status, &task.commit) {
        (Status::Done, Some(commit)) => commit.get(..12).unwrap_or(commit),
        (Status::Done, None) => "nothing to commit",
        (Status::Pending, _) => return String::new(),
        (Status::InProgress, _) => "in progress",
        (Status::Skipped, _) => "already done",
        (status, _) => status.as_str(),
    };
    format!(" [{word}]")
}
