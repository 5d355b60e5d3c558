//! Renders resume plans for users.

use std::fmt::Write;
use std::path::Path;

use segno_core::error::join_shown;
use segno_core::id::Name;
use segno_core::step::Path as StepPath;
use segno_core::store::Summary;
use segno_engine::workspace;
use segno_sessions::fork::ForkPlan;
use segno_sessions::resume::plan::{
    CliAgentPlan, Continuation, Estimate, Plan, PlannedOutcome, StepPlan,
};
use segno_sessions::unknown::commands;

use super::text::{count, number, sanitize};
use super::timestamp;

/// Renders what a resume would do.
pub(crate) fn render(summary: &Summary, plan: &Plan) -> String {
    let mut out = format!(
        "session {} ({}) is {}\n",
        sanitize(summary.name.as_str()),
        summary.id,
        plan.status
    );
    if let Some(owner) = &plan.held_by {
        let _ = writeln!(
            out,
            "held by process {} on {}: a resume would be refused",
            owner.pid,
            sanitize(&owner.host)
        );
    }
    let _ = writeln!(
        out,
        "{} finished, not run again",
        count(plan.finished, "step")
    );
    if let Some(notice) = &plan.spec_notice {
        let _ = writeln!(out, "{}", sanitize(notice));
    }
    let _ = writeln!(
        out,
        "the folder {}{}",
        sanitize(&summary.workspace),
        sanitize(&workspace::describe_status(&plan.workspace_status))
    );
    match &plan.drift {
        None => {}
        Some(drift) if drift.is_empty() => out.push_str("not changed by others\n"),
        Some(drift) => {
            let _ = writeln!(out, "changed by others: {}", sanitize(&drift.join("; ")));
        }
    }
    if plan.steps.is_empty() {
        out.push_str("no step is in progress; the next one starts\n");
    }
    for step in &plan.steps {
        render_step(&mut out, step);
    }
    render_unresolved(&mut out, &summary.name, &plan.unresolved);
    out.truncate(out.trim_end().len());
    out
}

/// Renders the steps because of which a resume would be refused.
fn render_unresolved(out: &mut String, name: &Name, steps: &[StepPath]) {
    if steps.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\na resume would be refused: the outcome of {} is unknown",
        join_shown(steps.iter().map(|step| format!("step {step}")))
    );
    for step in steps {
        for command in commands(name, step, steps.len() == 1) {
            let _ = writeln!(out, "  {command}");
        }
    }
}

/// Renders what a fork would contain, and how it would be resumed.
pub(crate) fn render_fork(summary: &Summary, plan: &ForkPlan) -> String {
    let folder = plan.workspace.display().to_string();
    let mut out = format!(
        "session {} ({}) would be forked into {}, which would be resumed; the session itself stays unchanged\n",
        sanitize(summary.name.as_str()),
        summary.id,
        plan.name
    );
    let _ = writeln!(
        out,
        "{} finished, not run again",
        count(plan.finished, "step")
    );
    match (&plan.checkpoint, &plan.replaced) {
        (Some(checkpoint), Some(files)) => {
            let _ = writeln!(
                out,
                "the files of checkpoint {checkpoint} would be restored to {}: {} written, {} removed; the current files are saved in a checkpoint first",
                sanitize(&folder),
                number(files.written),
                number(files.removed.len() as u64),
            );
        }
        (Some(checkpoint), None) => {
            let _ = writeln!(
                out,
                "the files of checkpoint {checkpoint} would be restored to {}",
                sanitize(&folder)
            );
        }
        (None, _) if Path::new(&summary.workspace) != plan.workspace => {
            let _ = writeln!(
                out,
                "a checkpoint would be taken, and its files restored to {}",
                sanitize(&folder)
            );
        }
        (None, _) => {
            let _ = writeln!(
                out,
                "it would work in the same folder, {}",
                sanitize(&folder)
            );
        }
    }
    if let Some(owner) = &plan.held_by {
        let _ = writeln!(
            out,
            "process {} on {} is working there: this would be refused",
            owner.pid,
            sanitize(&owner.host)
        );
    }
    if plan.steps.is_empty() {
        out.push_str("no step is in progress; the next one starts\n");
    }
    for step in &plan.steps {
        render_step(&mut out, step);
    }
    out.truncate(out.trim_end().len());
    out
}

fn render_step(out: &mut String, step: &StepPlan) {
    let _ = write!(
        out,
        "\nstep {} (agent {}): ",
        step.path,
        sanitize(&step.agent)
    );
    match step.outcome {
        None => {}
        Some(PlannedOutcome::Unknown) => out.push_str("its outcome is unknown; "),
        Some(PlannedOutcome::Done) => {
            out.push_str("counts as finished, with the result that a user gave\n");
            return;
        }
        Some(PlannedOutcome::Failed { retried: false }) => {
            out.push_str("counts as failed; the step has no retries, so it fails\n");
            return;
        }
        Some(PlannedOutcome::Failed { retried: true }) => {
            out.push_str("the attempt counts as failed and is retried; ");
        }
    }
    match &step.continuation {
        Continuation::Restart => out.push_str("runs again from the start\n"),
        Continuation::Journal => out
            .push_str("continues from the journal; at most the model call in flight is repeated\n"),
        Continuation::AsText => {
            out.push_str("taken over; receives what was said and done so far\n");
        }
        Continuation::CliAgent(climb) => render_strategy(out, climb),
    }
    if let Some(suspension) = &step.suspended {
        let _ = writeln!(
            out,
            "  {}; `--on-limit ask` tries immediately",
            timestamp::suspended(suspension)
        );
    }
}

fn render_strategy(out: &mut String, climb: &CliAgentPlan) {
    let _ = write!(out, "{} ({})", climb.plan.strategy, climb.program);
    if let Some(native) = &climb.conversation_id {
        let _ = write!(out, ", conversation {}", sanitize(native));
    }
    out.push('\n');
    if let Some(before) = &climb.moved_from {
        let _ = writeln!(
            out,
            "  moved from {}: the agent is told that the folder moved",
            sanitize(before)
        );
    }
    if let Some(source) = &climb.copied_from {
        let source = source.to_string();
        let _ = writeln!(out, "  the transcript comes from {}", sanitize(&source));
    }
    for (strategy, reason) in &climb.plan.rejected {
        let _ = writeln!(out, "  not {strategy}: {}", sanitize(reason));
    }
    for holder in &climb.holders {
        let _ = writeln!(
            out,
            "  open in process {} ({}): a resume would be refused; `--take-over` ends that process",
            holder.pid,
            sanitize(&holder.program)
        );
    }
    if let Some(reason) = &climb.unexamined {
        let _ = writeln!(
            out,
            "  the step would fail, and the conversation be kept, until this is fixed: {}",
            sanitize(reason)
        );
    }
    for unknown in &climb.plan.unknown {
        let _ = writeln!(out, "  not known: {}", sanitize(unknown));
    }
    for lost in &climb.plan.lost {
        let _ = writeln!(out, "  lost: {}", sanitize(lost));
    }
    if let Some(percent) = climb
        .context_usage
        .and_then(|context_usage| context_usage.percent())
    {
        let _ = writeln!(out, "  context: {percent} % used");
    }
    let _ = writeln!(out, "  reads {}", estimated(&climb.estimate));
}

fn estimated(estimate: &Estimate) -> String {
    let about = if estimate.counted { "" } else { "about " };
    let mut text = format!("{about}{} tokens", number(estimate.tokens));
    if let (Some(warm), Some(cold)) = (estimate.warm, estimate.cold) {
        let _ = write!(
            text,
            ": {cold}, or {warm} if they are in the vendor's cache"
        );
    }
    text
}
