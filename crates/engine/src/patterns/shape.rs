//! Checks a result that a user gives for a step in the way that an answer of its agent is checked.

use segno_core::step::Path;
use segno_spec::checklist;
use segno_spec::{Pattern, Plan, Workflow, outline, outline_path};

use super::{evaluator, orchestrator, parse_review, routing};
use crate::steps::fits_schema;

/// Why `text` cannot be the answer of a step: it does not match the output schema of the step's
/// agent, or its pattern cannot read it.
pub fn check_result(workflow: &Workflow, path: &Path, text: &str) -> Result<(), String> {
    let place = outline_path(path);
    let place = place.strip_suffix("/repair").unwrap_or(&place);
    let agent = agent_of(workflow, place);
    let agent = agent.and_then(|name| workflow.agents.get(&name));
    if let Some(schema) = agent.and_then(|agent| agent.output_schema.as_ref()) {
        fits_schema(schema, text)?;
    }
    match (&workflow.pattern, place) {
        (Pattern::Routing(config), "router") => routing::check(config, text),
        (Pattern::Evaluator(_), "evaluator") => evaluator::check(text),
        (Pattern::Orchestrator(config), "orchestrator") => orchestrator::check(config, text),
        (Pattern::Plan(_), place) => match role(place) {
            Role::Planner => checklist::read(text).map(drop).map_err(|problems| {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                problems.join("; ")
            }),
            Role::Reviewer => parse_review(text).map(drop),
            Role::Worker => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The agent of the spec that answers a step.
fn agent_of(workflow: &Workflow, place: &str) -> Option<String> {
    if let Pattern::Plan(plan) = &workflow.pattern {
        return Some(agent_of_plan(plan, place).to_owned());
    }
    let is_at = |step: &Path| {
        let below = place.strip_prefix(step.as_str());
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut steps = outline(workflow).into_iter();
    steps.find(|step| is_at(&step.path))?.agent
}

fn agent_of_plan<'a>(plan: &'a Plan, place: &str) -> &'a str {
    match role(place) {
        Role::Planner => &plan.planner,
        Role::Reviewer => plan.reviewer.as_ref().unwrap_or(&plan.agent),
        Role::Worker => &plan.agent,
    }
}

/// Who answers a step of a plan.
enum Role {
    Planner,
    Reviewer,
    Worker,
}

fn role(place: &str) -> Role {
    match place.rsplit('/').next() {
        Some("planner") => Role::Planner,
        Some("review") => Role::Reviewer,
        _ => Role::Worker,
    }
}
