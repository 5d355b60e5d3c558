//! The JSON shape of a plan.

use serde_json::{Value, json};

use super::usage;
use crate::work::{Plan, Review, Task};

/// A plan with the status of each task.
pub fn work_plan(plan: &Plan) -> Value {
    json!({
        "issue": plan.issue,
        "branch": plan.branch,
        "start": plan.start,
        "final": plan.is_final,
        "tasks": plan.tasks.iter().map(task).collect::<Vec<_>>(),
        "current": plan.current,
        "next": plan.next,
        "done": plan.done,
        "remaining": plan.remaining,
    })
}

fn task(task: &Task) -> Value {
    json!({
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "status": task.status.as_str(),
        "depends_on": task.depends_on,
        "commit": task.commit,
        "reviews": task.reviews.iter().map(review).collect::<Vec<_>>(),
        "usage": usage(&task.usage),
    })
}

fn review(review: &Review) -> Value {
    json!({
        "round": review.round,
        "by": review.by,
        "approved": review.approved,
        "severity": review.severity,
        "comments": review.comments,
        "addressed": review.addressed,
    })
}
