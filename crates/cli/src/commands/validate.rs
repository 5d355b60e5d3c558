//! `segno validate`: checks a workflow spec.

use std::path::PathBuf;
use std::process::ExitCode;

use segno_spec::outline;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Check a workflow spec without running it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Workflow spec, YAML or JSON
    spec: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let workflow = context.read(&args.spec)?;
    let (pattern, parts) = (workflow.pattern.name(), outline(&workflow));
    if args.json {
        let steps: Vec<_> = parts
            .iter()
            .map(|part| json!({"path": part.path, "agent": part.agent}))
            .collect();
        let answer = json!({"v": 1, "kind": "valid", "name": workflow.name, "pattern": pattern, "steps": steps, "inputs": workflow.inputs.0.keys().collect::<Vec<_>>()});
        json_line(&answer);
    } else {
        let name = text::sanitize(&workflow.name);
        stdout_line(&format!(
            "{} is valid: {pattern} `{name}` with {}",
            text::sanitize(&args.spec.display().to_string()),
            text::count(parts.len() as u64, "step")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
