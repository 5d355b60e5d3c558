//! `segno doctor`: verifies all stored data.

use std::process::ExitCode;

use segno_core::store::Severity;
use segno_engine::{doctor, remote};
use serde_json::json;

use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{is_live, json as shapes, json_line, live_line, stdout_line, text};

/// Verify all stored data and report damage.
///
/// Reads every journal event and every blob and compares them with their hashes. Changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also check that the remote responds
    #[arg(long)]
    storage: bool,
    /// Print JSON: one finding per line, then a summary
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let live = is_live() && !args.json;
    let report = doctor::verify(&env, |done, total| {
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
            &json!({"v": 1, "kind": "report", "sessions": report.sessions, "entries": report.events, "blobs": report.blobs, "damaged": damaged}),
        );
    } else {
        stdout_line(&format!(
            "verified {}, {}, {}",
            text::count(report.sessions, "session"),
            if report.events == 1 {
                "1 entry".into()
            } else {
                format!("{} entries", text::number(report.events))
            },
            text::count(report.blobs, "blob"),
        ));
    }
    if args.storage {
        let (stored, unreadable) = remote::list(&env).await?;
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "storage", "checkpoints": stored.len(), "unreadable": unreadable.len()}),
            );
        } else {
            for error in &unreadable {
                stdout_line(&text::sanitize(&format!("damaged: {error}")));
            }
            let count = text::count(stored.len() as u64, "checkpoint");
            stdout_line(&format!("the storage answers, and has {count}"));
        }
    }
    if report.is_damaged() {
        return Err(Failure::verification(format!(
            "{} damaged",
            text::count(damaged as u64, "thing") + if damaged == 1 { " is" } else { " are" }
        )));
    }
    Ok(ExitCode::SUCCESS)
}
