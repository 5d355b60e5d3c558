use std::path::PathBuf;
use std::process::ExitCode;

use segno_engine::spec::outline;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Check a workflow's spec without running it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The spec, YAML or JSON
    spec: PathBuf,
    /// Print the answer as JSON
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
        let name = plain::plain(&workflow.name);
        data(&format!(
            "{} is valid: {pattern} `{name}` with {}",
            plain::plain(&args.spec.display().to_string()),
            plain::count(parts.len() as u64, "step")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
