//! `segno plan --explain`: describes a workflow spec for humans.

use std::time::Duration;

use segno_core::time;
use segno_spec::{Budgets, Input, Workflow, outline};
use serde_json::{Value, json};

use crate::output::{json_line, stdout_line, text};

/// Prints the description of a workflow.
pub(super) fn print(workflow: &Workflow, json: bool) {
    if json {
        json_line(&as_json(workflow));
        return;
    }
    for line in as_text(workflow) {
        stdout_line(&text::sanitize(&line));
    }
}

fn as_text(workflow: &Workflow) -> Vec<String> {
    let parts = outline(workflow);
    let mut lines = vec![format!("{}: {}", workflow.name, describe_pattern(workflow))];
    if let Some(description) = &workflow.description {
        lines.push(format!("  {description}"));
    }
    lines.push("inputs:".into());
    for (name, input) in &workflow.inputs.0 {
        lines.push(format!("  {name}: {}", describe_input(input)));
    }
    if workflow.inputs.0.is_empty() {
        lines.push("  none declared".into());
    }
    lines.push("agents:".into());
    for (name, agent) in &workflow.agents {
        let model = agent.provider.model();
        let model = model.map_or(String::new(), |model| format!(" {model}"));
        let tools = match agent.tools.join(", ") {
            none if none.is_empty() => String::new(),
            some => format!("; tools {some}"),
        };
        let first = agent.prompt.lines().next().unwrap_or_default();
        let name_of = agent.provider.name();
        lines.push(format!("  {name}: {name_of}{model}{tools}; {first}"));
    }
    lines.push("steps:".into());
    for part in &parts {
        let who = part.agent.as_deref().unwrap_or("human");
        lines.push(format!("  {}: {who}", part.path));
    }
    lines.push("limits:".into());
    lines.extend(limits(workflow).into_iter().map(|line| format!("  {line}")));
    lines.push("artifacts:".into());
    for artifact in &workflow.artifacts {
        lines.push(format!("  {}", artifact.path));
    }
    if workflow.artifacts.is_empty() {
        lines.push("  none; the result is printed to stdout".into());
    }
    lines
}

/// Describes what the pattern does.
fn describe_pattern(workflow: &Workflow) -> &'static str {
    match workflow.pattern.name() {
        "chain" => "a chain: one step after the other",
        "workflow" => "a workflow: each task starts when its dependencies are done",
        "routing" => "routing: an agent chooses which steps follow",
        "parallel" => "parallel: branches run concurrently",
        "evaluator_optimizer" => "an evaluator: drafts until one is good enough",
        "orchestrator_workers" => "an orchestrator: one agent delegates tasks to others",
        "plan" => "a plan: one task after the other, each with a commit",
        _ => "a graph: from node to node, along the first edge whose condition holds",
    }
}

fn describe_input(input: &Input) -> String {
    let mut words = input.kind.to_string();
    if input.required {
        words.push_str(", required");
    }
    if let Some(value) = &input.value {
        words = format!("{words}, default {value}");
    }
    if let Some(choices) = &input.choices {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        words = format!("{words}, one of {}", choices.join(", "));
    }
    match &input.description {
        Some(description) => format!("{words}; {description}"),
        None => words,
    }
}

fn limits(workflow: &Workflow) -> Vec<String> {
    let (runtime, retry) = (&workflow.runtime, &workflow.runtime.retry);
    let mut lines = vec![
        format!("{} agents concurrently", runtime.max_parallel),
        format!("a failed attempt is retried {} times", retry.retries),
    ];
    if let Some(timeout) = runtime.timeout {
        lines.push(format!("{} per attempt", time::format_duration(timeout)));
    }
    let Budgets {
        max_steps,
        max_tokens,
        max_duration_s,
        max_cost,
        ..
    } = workflow.budgets();
    let budgets = [
        max_steps.map(|most| text::count(most, "step")),
        max_tokens.map(|most| text::count(most, "token")),
        max_duration_s.map(|most| time::format_duration(Duration::from_secs(most))),
        max_cost.map(|most| most.to_string()),
    ];
    lines.extend(
        budgets
            .into_iter()
            .flatten()
            .map(|most| format!("{most} in total")),
    );
    lines
}

fn as_json(workflow: &Workflow) -> Value {
    let inputs: Vec<Value> = workflow
        .inputs
        .0
        .iter()
        .map(|(name, input)| {
            json!({
                "name": name,
                "type": input.kind.to_string(),
                "required": input.required,
                "value": input.value,
                "choices": input.choices,
                "description": input.description,
            })
        })
        .collect();
    let agents: Vec<Value> = workflow
        .agents
        .iter()
        .map(|(name, agent)| {
            json!({
                "name": name,
                "provider": agent.provider.name(),
                "model": agent.provider.model(),
                "tools": agent.tools,
                "prompt": agent.prompt,
            })
        })
        .collect();
    let budgets = workflow.budgets();
    json!({
        "v": 1,
        "kind": "explanation",
        "name": workflow.name,
        "description": workflow.description,
        "pattern": workflow.pattern.name(),
        "inputs": inputs,
        "agents": agents,
        "steps": outline(workflow).iter().map(|part| json!({"path": part.path, "agent": part.agent})).collect::<Vec<_>>(),
        "limits": {
            "max_parallel": workflow.runtime.max_parallel,
            "retries": workflow.runtime.retry.retries,
            "timeout_s": workflow.runtime.timeout.map(|timeout| timeout.as_secs_f64()),
            "max_steps": budgets.max_steps,
            "max_tokens": budgets.max_tokens,
            "max_duration_s": budgets.max_duration_s,
            "max_cost_usd": budgets.max_cost.map(segno_core::usage::Cost::usd),
        },
        "artifacts": workflow.artifacts.iter().map(|artifact| &artifact.path).collect::<Vec<_>>(),
    })
}
