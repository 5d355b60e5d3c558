use std::process::ExitCode;

use segno_core::session::Summary;
use segno_engine::recover::{self, Recovered};
use segno_engine::{World, sessions};
use serde_json::json;

use super::checkpoint::progress;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::plain::{count, plain};
use crate::output::{data, json_line, say};

/// Find sessions whose run was lost, keep what it left behind, and mark them as interrupted.
///
/// A checkpoint of each is taken before anything else happens in its folder. Nothing is gone on with:
/// `segno resume` does that.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this session: its id, its name, or the beginning of either [default: all]
    session: Option<String>,
    /// Only show which ones
    #[arg(long)]
    dry_run: bool,
    /// Print sessions as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let only = match &args.session {
        Some(reference) => Some(sessions::find(&world, reference).await?.id),
        None => None,
    };
    let (mut lost, damaged) = recover::lost(&world).await?;
    lost.retain(|summary| only.is_none_or(|only| summary.id == only));
    for error in damaged {
        say(&format!("passed over: {}", plain(&error.to_string())));
    }
    let found = if args.dry_run {
        lost.iter().for_each(|summary| shown(summary, args.json));
        lost.len()
    } else {
        mark(&world, &lost, args.json).await?
    };
    if found == 0 && !args.json {
        data("no run was lost");
    }
    Ok(ExitCode::SUCCESS)
}

/// Keeps and marks sessions whose run was lost, and says so. Returns how many there were.
pub(crate) async fn mark(
    world: &World,
    lost: &[Summary],
    json: bool,
) -> Result<usize, segno_engine::Error> {
    let mut found = 0;
    for summary in lost {
        let progress = progress(world, "keeping");
        let recovered = recover::recover(world, summary, &progress).await?;
        drop(progress);
        if let Some(recovered) = recovered {
            found += 1;
            show(&recovered, json);
        }
    }
    Ok(found)
}

fn shown(summary: &Summary, json: bool) {
    if json {
        json_line(
            &json!({"v": 1, "kind": "lost", "session": summary.id, "name": summary.name, "workspace": summary.workspace}),
        );
    } else {
        data(&format!("{} ({}) was lost", summary.name, summary.id));
    }
}

fn show(recovered: &Recovered, json: bool) {
    let Recovered {
        summary,
        checkpoint,
        unknown,
    } = recovered;
    let problem = checkpoint.as_ref().err().map(ToString::to_string);
    let kept = checkpoint.as_ref().ok().map(|manifest| manifest.id);
    if json {
        json_line(&json!({
            "v": 1,
            "kind": "recovered",
            "session": summary.id,
            "name": summary.name,
            "status": summary.status,
            "checkpoint": kept,
            "problem": problem,
            "unknown": unknown,
        }));
        return;
    }
    let steps = match unknown.len() as u64 {
        0 => String::new(),
        steps => format!(", with {} of unknown outcome", count(steps, "step")),
    };
    data(&format!(
        "{} ({}) is {}{steps}",
        summary.name, summary.id, summary.status
    ));
    if let Some(kept) = kept {
        data(&format!("checkpoint {kept}"));
    }
    if let Some(problem) = problem {
        say(&format!("there is no checkpoint: {}", plain(&problem)));
    }
    say(&format!("`segno resume {}` goes on", summary.name));
}
