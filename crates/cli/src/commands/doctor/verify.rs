//! `segno doctor` without an action: verifies all stored data and reports damage.

use std::process::ExitCode;

use segno_core::snapshot::Depth;
use segno_core::store::{Finding, Severity};
use segno_engine::Env;
use segno_sessions::doctor::{self, Report};
use segno_sessions::json as shapes;
use segno_sessions::remote;
use serde_json::json;

use super::Args;
use crate::commands::checkpoint::{bytes, progress};
use crate::config::Config;
use crate::failure::Failure;
use crate::machine::agent_environment;
use crate::output::{is_live, json_line, live_line, stdout_line, text};

/// The environment variables that agents do not get because they look like secrets.
pub(super) fn withheld_variables(config: &Config) -> Vec<String> {
    let environment = agent_environment(&config.pass_env);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut withheld: Vec<String> = names.filter(|name| environment.withholds(name)).collect();
    withheld.sort();
    withheld
}

pub(super) async fn run(args: &Args, env: &Env, withheld: &[String]) -> Result<ExitCode, Failure> {
    let live = is_live() && !args.json;
    let depth = if args.read_data {
        Depth::Content
    } else {
        Depth::Structure
    };
    let sessions = |done, total| {
        if live {
            live_line(&format!("reading session {} of {total}", done + 1));
        }
    };
    let reading = progress(env, "reading");
    let report = doctor::verify(env, depth, sessions, &reading).await?;
    drop(reading);
    if live {
        live_line("");
    }
    print_findings(args, &report.findings);
    let mut damaged = report.damaged();
    print_report(args, &report);
    if args.remote || (args.read_data && env.remote.is_some()) {
        damaged += verify_remote(args, env).await?;
    }
    print_unread(args, env, &report);
    print_withheld(args, withheld);
    if damaged > 0 {
        return Err(Failure::verification(format!(
            "{} damaged",
            text::count(damaged, "object") + if damaged == 1 { " is" } else { " are" }
        )));
    }
    Ok(ExitCode::SUCCESS)
}

fn count_damage(findings: &[Finding]) -> u64 {
    let damage = findings.iter();
    let damage = damage.filter(|finding| finding.severity == Severity::Damage);
    damage.count() as u64
}

fn print_findings(args: &Args, findings: &[Finding]) {
    for finding in findings {
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
}

fn print_report(args: &Args, report: &Report) {
    if args.json {
        json_line(&shapes::report(report, args.read_data));
        return;
    }
    stdout_line(&format!(
        "verified {}, {}, {}",
        text::count(report.sessions, "session"),
        text::count(report.events, "event"),
        text::count(report.blobs, "blob"),
    ));
    if report.checkpoints > 0 || report.packs > 0 {
        stdout_line(&format!(
            "verified {}, {} ({})",
            text::count(report.checkpoints, "checkpoint"),
            text::count(report.packs, "pack"),
            bytes(report.pack_bytes),
        ));
    }
}

/// Asks the remote, and compares it with what was pushed. Returns the number of damaged objects.
async fn verify_remote(args: &Args, env: &Env) -> Result<u64, Failure> {
    if !args.read_data {
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
        return Ok(0);
    }
    let report = doctor::compare(env).await?;
    print_findings(args, &report.findings);
    let damaged = count_damage(&report.findings);
    if args.json {
        json_line(
            &json!({"v": 1, "kind": "remote", "checkpoints": report.checkpoints, "objects": report.objects, "damaged": damaged}),
        );
    } else {
        stdout_line(&format!(
            "compared the remote: {}, {}",
            text::count(report.checkpoints, "checkpoint"),
            text::count(report.objects, "object")
        ));
    }
    Ok(damaged)
}

/// Says which environment variables agents do not get, without their values.
fn print_withheld(args: &Args, withheld: &[String]) {
    if args.json {
        json_line(&json!({"v": 1, "kind": "environment", "withheld": withheld}));
    } else if !withheld.is_empty() {
        stdout_line(&text::sanitize(&format!(
            "agents do not get {}, which by their names are secrets; `env.pass` in config.toml or in the spec passes variables by name",
            withheld.join(", ")
        )));
    }
}

/// Says what was not looked at.
fn print_unread(args: &Args, env: &Env, report: &Report) {
    if args.json || args.read_data {
        return;
    }
    let packs = (report.packs > 0).then(|| match report.packs {
        1 => "the content of 1 pack".to_owned(),
        packs => format!("the content of {} packs", text::number(packs)),
    });
    let remote = env.remote.as_ref().map(|_| "the remote".to_owned());
    let unread: Vec<String> = packs.into_iter().chain(remote).collect();
    if !unread.is_empty() {
        stdout_line(&format!(
            "not read: {}; `segno doctor --read-data` reads it",
            unread.join(" and ")
        ));
    }
}
