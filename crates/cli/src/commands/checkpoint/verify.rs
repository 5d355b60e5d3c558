use std::process::ExitCode;

use segno_engine::checkpoint;
use serde_json::json;

use super::progress;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{data, json_line, plain};

/// Read everything that a checkpoint needs, and name what is damaged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The checkpoints [default: all]
    checkpoints: Vec<String>,
    /// Print what is found as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let world = context.still_world()?;
    let (mut wanted, mut wrong) = (Vec::new(), Vec::new());
    if args.checkpoints.is_empty() {
        let (kept, damaged) = checkpoint::list(&world, None).await?;
        wanted = kept;
        wrong.extend(damaged.iter().map(ToString::to_string));
    }
    for reference in &args.checkpoints {
        wanted.push(checkpoint::find(&world, reference).await?);
    }
    for manifest in &wanted {
        let progress = progress(&world, "verifying");
        let found = match checkpoint::verify(&world, manifest, &progress).await {
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
            data(&plain::plain(problem));
        }
    }
    let count = plain::count(wanted.len() as u64, "checkpoint");
    if !wrong.is_empty() {
        let problems = plain::count(wrong.len() as u64, "problem");
        return Err(Failure::verification(format!("{problems} in {count}")));
    }
    if args.json {
        json_line(&json!({"v": 1, "kind": "verified", "checkpoints": wanted.len()}));
    } else {
        data(&format!("{count} verified: nothing is damaged"));
    }
    Ok(ExitCode::SUCCESS)
}
