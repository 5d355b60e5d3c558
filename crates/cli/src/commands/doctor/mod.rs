//! `segno doctor`: verifies all stored data, recovers crashed runs, and deletes unreferenced data.

mod gc;
pub(crate) mod recover;

use std::process::ExitCode;

use segno_core::store::Severity;
use segno_engine::Env;
use segno_sessions::json as shapes;
use segno_sessions::{doctor, remote};
use serde_json::json;

use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{is_live, json_line, live_line, stdout_line, text};

/// Verify all stored data, recover crashed runs, or free disk space.
///
/// Without options, reads every journal event and every blob, compares them with their hashes,
/// reports damage, and changes nothing.
///
/// With `--recover`, finds sessions whose run crashed, takes a checkpoint of each before anything
/// else changes its folder, and marks it as interrupted. Resumes nothing: use `segno resume`.
///
/// With `--gc`, deletes snapshot data that no checkpoint references, locally and in the remote, and
/// permanently deletes checkpoints that were pruned more than 7 days ago (`trash.keep_days` in
/// config.toml). Data that became unreferenced recently stays for a grace period, because a new
/// checkpoint may be about to reference it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Session to recover: id, name, or unique prefix of either [default: all]
    #[arg(requires = "recover")]
    session: Option<String>,
    /// Recover sessions whose run crashed
    #[arg(long, group = "action")]
    recover: bool,
    /// Delete unreferenced snapshot data
    #[arg(long, group = "action")]
    gc: bool,
    /// Grace period for unreferenced data [default: 24]
    #[arg(long, value_name = "HOURS", requires = "gc", value_parser = clap::value_parser!(u64).range(0..=8760))]
    grace_hours: Option<u64>,
    /// Only show which sessions would be recovered, or which checkpoints deleted
    #[arg(long, requires = "action")]
    dry_run: bool,
    /// Also check that the remote responds
    #[arg(long, conflicts_with = "action")]
    remote: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    if args.recover {
        return recover::run(args, &env).await;
    }
    if args.gc {
        return gc::run(args, &env).await;
    }
    verify(args, &env).await
}

async fn verify(args: &Args, env: &Env) -> Result<ExitCode, Failure> {
    let live = is_live() && !args.json;
    let report = doctor::verify(env, |done, total| {
        if live {
            live_line(&format!("reading session {} of {total}", done + 1));
        }
    })
    .await?;
    if live {
        live_line("");
    }
    for finding in &report.findings {
        if args.json {
            json_line(&shapes::finding(finding));
            continue;
        }
        let word = if finding.severity == Severity::Damage {
            "damaged"
        } else {
            "note"
        };
        let session = finding
            .session
            .map_or(String::new(), |session| format!("session {session}: "));
        stdout_line(&text::sanitize(&format!(
            "{word}: {session}{}: {}",
            finding.object, finding.problem
        )));
    }
    let damaged = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Damage)
        .count();
    if args.json {
        json_line(
            &json!({"v": 1, "kind": "report", "sessions": report.sessions, "events": report.events, "blobs": report.blobs, "damaged": damaged}),
        );
    } else {
        stdout_line(&format!(
            "verified {}, {}, {}",
            text::count(report.sessions, "session"),
            text::count(report.events, "event"),
            text::count(report.blobs, "blob"),
        ));
    }
    if args.remote {
        let (stored, unreadable) = remote::list(env).await?;
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "remote", "checkpoints": stored.len(), "unreadable": unreadable.len()}),
            );
        } else {
            for error in &unreadable {
                stdout_line(&text::sanitize(&format!("damaged: {error}")));
            }
            let count = text::count(stored.len() as u64, "checkpoint");
            stdout_line(&format!("the remote responds, and has {count}"));
        }
    }
    if report.is_damaged() {
        return Err(Failure::verification(format!(
            "{} damaged",
            text::count(damaged as u64, "object") + if damaged == 1 { " is" } else { " are" }
        )));
    }
    Ok(ExitCode::SUCCESS)
}
