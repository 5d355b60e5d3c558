use std::process::ExitCode;

use segno_core::store::Severity;
use segno_engine::{doctor, remote};
use serde_json::json;

use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, is_live, json as shapes, json_line, passing, plain};

/// Verify everything that is kept, and name what is damaged.
///
/// Reads every journal entry and every blob and compares them with their hashes. Changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also see whether the storage answers
    #[arg(long)]
    storage: bool,
    /// Print findings as JSON, one per line, and a summary
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let live = is_live() && !args.json;
    let report = doctor::examine(&world, |done, total| {
        if live {
            passing(&format!("reading session {} of {total}", done + 1));
        }
    })
    .await?;
    if live {
        passing("");
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
        data(&plain::plain(&format!(
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
            &json!({"v": 1, "kind": "report", "sessions": report.sessions, "entries": report.entries, "blobs": report.blobs, "damaged": damaged}),
        );
    } else {
        data(&format!(
            "verified {}, {}, {}",
            plain::count(report.sessions, "session"),
            if report.entries == 1 {
                "1 entry".into()
            } else {
                format!("{} entries", plain::number(report.entries))
            },
            plain::count(report.blobs, "blob"),
        ));
    }
    if args.storage {
        let (stored, unreadable) = remote::list(&world).await?;
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "storage", "checkpoints": stored.len(), "unreadable": unreadable.len()}),
            );
        } else {
            for error in &unreadable {
                data(&plain::plain(&format!("damaged: {error}")));
            }
            let count = plain::count(stored.len() as u64, "checkpoint");
            data(&format!("the storage answers, and has {count}"));
        }
    }
    if report.is_damaged() {
        return Err(Failure::verification(format!(
            "{} damaged",
            plain::count(damaged as u64, "thing") + if damaged == 1 { " is" } else { " are" }
        )));
    }
    Ok(ExitCode::SUCCESS)
}
