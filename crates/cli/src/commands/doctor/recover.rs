//! `segno doctor --recover`: finds sessions whose run crashed, takes a checkpoint of their files, and
//! marks them as interrupted.

use std::process::ExitCode;

use segno_core::store::Summary;
use segno_engine::{Env, between_runs};
use segno_sessions as sessions;
use segno_sessions::recover::{self, Recovered};
use segno_supervisor::notices::Notices;
use serde_json::json;

use super::Args;
use crate::commands::checkpoint::progress;
use crate::commands::run::NOTICE_LIMIT;
use crate::config::Config;
use crate::context::notices;
use crate::failure::Failure;
use crate::output::text::{count, sanitize};
use crate::output::{json_line, stderr_line, stdout_line};

pub(super) async fn run(args: &Args, env: &Env, config: &Config) -> Result<ExitCode, Failure> {
    let only = match &args.session {
        Some(reference) => Some(sessions::find(env, reference).await?.id),
        None => None,
    };
    let (mut lost, damaged) = recover::find_lost(env).await?;
    lost.retain(|summary| only.is_none_or(|only| summary.id == only));
    for error in damaged {
        stderr_line(&format!("skipped: {}", sanitize(&error.to_string())));
    }
    let found = if args.dry_run {
        lost.iter()
            .for_each(|summary| print_lost(summary, args.json));
        lost.len()
    } else {
        let notices = notices(env, config);
        let found = recover_all(env, &notices, &lost, args.json).await?;
        notices.finish(NOTICE_LIMIT).await;
        found
    };
    if found == 0 && !args.json {
        stdout_line("no crashed runs");
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes a checkpoint of each crashed session, marks it as interrupted and prints the result.
/// Returns how many sessions were recovered.
pub(crate) async fn recover_all(
    env: &Env,
    notices: &Notices,
    lost: &[Summary],
    json: bool,
) -> Result<usize, between_runs::Error> {
    let mut found = 0;
    for summary in lost {
        let progress = progress(env, "saving");
        let recovered = recover::recover(env, summary, &progress).await?;
        drop(progress);
        if let Some(recovered) = recovered {
            found += 1;
            notices.report_since(summary).await;
            print_recovered(&recovered, json);
        }
    }
    Ok(found)
}

fn print_lost(summary: &Summary, json: bool) {
    if json {
        json_line(
            &json!({"v": 1, "kind": "would_recover", "session": summary.id, "name": summary.name, "workspace": summary.workspace}),
        );
    } else {
        stdout_line(&format!("{} ({}) crashed", summary.name, summary.id));
    }
}

fn print_recovered(recovered: &Recovered, json: bool) {
    let Recovered {
        summary,
        checkpoint,
        unknown,
    } = recovered;
    let problem = checkpoint.as_ref().err().map(ToString::to_string);
    let checkpoint_id = checkpoint.as_ref().ok().map(|manifest| manifest.id);
    if json {
        json_line(&json!({
            "v": 1,
            "kind": "recovered",
            "session": summary.id,
            "name": summary.name,
            "status": summary.status,
            "checkpoint": checkpoint_id,
            "problem": problem,
            "unknown": unknown,
        }));
        return;
    }
    let steps = match unknown.len() as u64 {
        0 => String::new(),
        steps => format!(", with {} of unknown outcome", count(steps, "step")),
    };
    stdout_line(&format!(
        "{} ({}) is {}{steps}",
        summary.name, summary.id, summary.status
    ));
    if let Some(checkpoint_id) = checkpoint_id {
        stdout_line(&format!("checkpoint {checkpoint_id}"));
    }
    if let Some(problem) = problem {
        stderr_line(&format!("no checkpoint: {}", sanitize(&problem)));
    }
    stderr_line(&format!("resume it with `segno resume {}`", summary.name));
}
