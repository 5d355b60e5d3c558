//! `segno plan`: shows the steps of a workflow.

mod explain;

use std::path::PathBuf;
use std::process::ExitCode;

use segno_spec::{OutlineStep, Predecessor, Workflow, outline};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{columns, json_line, stdout_line, table, text};

/// Show the steps of a workflow and their order, without running it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Workflow spec, YAML or JSON
    spec: PathBuf,
    /// Explain the spec: its inputs, agents, steps, limits and artifacts
    #[arg(long)]
    explain: bool,
    /// Print the steps as a Mermaid graph
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    mermaid: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let workflow = context.read(&args.spec)?;
    if args.explain {
        explain::print(&workflow, args.json);
        return Ok(ExitCode::SUCCESS);
    }
    let parts = outline(&workflow);
    if args.json {
        json_line(&as_json(&workflow, &parts));
    } else if args.mermaid {
        stdout_line(&as_mermaid(&parts));
    } else {
        as_text(&workflow, &parts);
    }
    Ok(ExitCode::SUCCESS)
}

fn as_text(workflow: &Workflow, parts: &[OutlineStep]) {
    stdout_line(&format!(
        "{} `{}`, {}",
        workflow.pattern.name(),
        text::sanitize(&workflow.name),
        text::count(parts.len() as u64, "step")
    ));
    let rows: Vec<Vec<String>> = parts.iter().map(|part| row(workflow, part)).collect();
    for line in table::table(
        &["STEP", "AGENT", "PROVIDER", "TOOLS", "AFTER"],
        &rows,
        columns(),
    ) {
        stdout_line(&line);
    }
}

fn row(workflow: &Workflow, part: &OutlineStep) -> Vec<String> {
    let after: Vec<String> = part.after.iter().map(described).collect();
    vec![
        part.path.to_string(),
        part.agent.clone().unwrap_or_else(|| "human".to_owned()),
        provider(workflow, part).unwrap_or_else(|| "-".to_owned()),
        match tools(workflow, part).join(", ") {
            none if none.is_empty() => "-".to_owned(),
            some => some,
        },
        if after.is_empty() {
            "-".to_owned()
        } else {
            after.join(", ")
        },
    ]
}

fn described(after: &Predecessor) -> String {
    match &after.when {
        Some(when) => format!("{} ({when})", after.path),
        None => after.path.to_string(),
    }
}

fn provider(workflow: &Workflow, part: &OutlineStep) -> Option<String> {
    let agent = workflow.agents.get(part.agent.as_ref()?)?;
    Some(match agent.provider.model() {
        Some(model) => format!("{} {model}", agent.provider.name()),
        None => agent.provider.name().to_owned(),
    })
}

fn tools(workflow: &Workflow, part: &OutlineStep) -> Vec<String> {
    let own = || {
        let agent = workflow.agents.get(part.agent.as_ref()?)?;
        Some(agent.tools.clone())
    };
    part.tools.clone().or_else(own).unwrap_or_default()
}

fn as_json(workflow: &Workflow, parts: &[OutlineStep]) -> Value {
    let steps: Vec<Value> = parts
        .iter()
        .map(|part| {
            let after: Vec<Value> = part
                .after
                .iter()
                .map(|after| json!({"path": after.path, "when": after.when}))
                .collect();
            json!({
                "path": part.path,
                "agent": part.agent,
                "provider": provider(workflow, part),
                "tools": tools(workflow, part),
                "after": after,
            })
        })
        .collect();
    json!({
        "v": 1,
        "kind": "plan",
        "name": workflow.name,
        "pattern": workflow.pattern.name(),
        "steps": steps,
        "inputs": workflow.inputs.0.keys().collect::<Vec<_>>(),
        "artifacts": workflow.artifacts.iter().map(|artifact| &artifact.path).collect::<Vec<_>>(),
    })
}

/// Renders a Mermaid graph: rounded boxes are agents, slanted boxes are users.
fn as_mermaid(parts: &[OutlineStep]) -> String {
    let name = |path: &segno_core::step::Path| {
        let place = parts.iter().position(|part| part.path == *path);
        format!("n{}", place.unwrap_or_default())
    };
    let mut lines = vec!["flowchart TD".to_owned()];
    for (index, part) in parts.iter().enumerate() {
        lines.push(match &part.agent {
            Some(agent) => format!("  n{index}(\"{}<br/>{agent}\")", part.path),
            None => format!("  n{index}[/\"{}<br/>human\"/]", part.path),
        });
    }
    for (index, part) in parts.iter().enumerate() {
        for after in &part.after {
            let from = name(&after.path);
            lines.push(match &after.when {
                Some(when) => format!("  {from} -->|\"{}\"| n{index}", quoted(when)),
                None => format!("  {from} --> n{index}"),
            });
        }
    }
    lines.join("\n")
}

/// Escapes a label for Mermaid.
fn quoted(text: &str) -> String {
    text::sanitize(text)
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('|', "&#124;")
}
