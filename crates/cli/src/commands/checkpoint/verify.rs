//! `segno checkpoint verify`: reads and verifies all data of checkpoints.

use std::process::ExitCode;

use segno_sessions::checkpoint;
use serde_json::json;

use super::progress;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, stdout_line, text};

/// Verify all data of checkpoints and report damage.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checkpoints to verify [default: all]
    checkpoints: Vec<String>,
    /// Print JSON, one finding per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let env = context.env_inline()?;
    let (mut wanted, mut wrong) = (Vec::new(), Vec::new());
    if args.checkpoints.is_empty() {
        let (manifests, damaged) = checkpoint::list(&env, None).await?;
        wanted = manifests;
        wrong.extend(damaged.iter().map(ToString::to_string));
    }
    for reference in &args.checkpoints {
        wanted.push(checkpoint::find(&env, reference).await?);
    }
    let control = context.control(&env, String::new());
    for manifest in &wanted {
        let progress = progress(&env, "verifying");
        let found = match control.verify(manifest, &progress).await {
            Ok(found) => found,
            Err(error) => vec![error.to_string()],
        };
        wrong.extend(
            found
                .into_iter()
                .map(|problem| format!("checkpoint {}: {problem}", manifest.id)),
        );
    }
    for problem in &wrong {
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": problem}),
            );
        } else {
            stdout_line(&text::sanitize(problem));
        }
    }
    let count = text::count(wanted.len() as u64, "checkpoint");
    if !wrong.is_empty() {
        let problems = text::count(wrong.len() as u64, "problem");
        return Err(Failure::verification(format!("{problems} in {count}")));
    }
    if args.json {
        json_line(&json!({"v": 1, "kind": "verified", "checkpoints": wanted.len()}));
    } else {
        stdout_line(&format!("{count} verified: nothing is damaged"));
    }
    Ok(ExitCode::SUCCESS)
}
