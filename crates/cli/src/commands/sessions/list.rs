//! `segno sessions list`: lists sessions with their status.

use std::path::Path;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use segno_core::session::Status;
use segno_sessions as sessions;
use segno_sessions::json as shapes;
use serde_json::json;

use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::{columns, json_line, stdout_line, table, text, timestamp};

/// List the sessions of this folder, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Include all folders and expired chats
    #[arg(short, long)]
    all: bool,
    /// List only sessions with this status
    #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(Status::ALL.iter().map(|status| status.as_str())))]
    status: Option<String>,
    /// Print JSON, one session per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let here = workspace()?;
    let (listed, damaged) = sessions::list(&env).await?;
    let total = listed.len();
    let shown: Vec<_> = listed
        .into_iter()
        .filter(|listed| args.all || Path::new(&listed.summary.workspace) == here)
        .filter(|listed| {
            args.status
                .as_ref()
                .map_or(args.all || !listed.status.is_archived(), |status| {
                    listed.status.as_str() == status
                })
        })
        .collect();
    let waits = sessions::suspensions(&env, &shown).await;
    if args.json {
        for listed in &shown {
            let waits = waits.get(&listed.summary.id);
            json_line(&shapes::session_line(
                listed,
                waits.map(|(path, of)| (path, of)),
            ));
        }
        for error in &damaged {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": error.to_string()}),
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let now = env.clock.now();
    let row = |listed: &sessions::ListedSession| {
        let summary = &listed.summary;
        let mut row = vec![
            summary.name.to_string(),
            match waits.get(&summary.id) {
                Some((_, of)) => format!("{}, {}", listed.status, timestamp::suspended(of)),
                None => listed.status.to_string(),
            },
            format!(
                "{} ago",
                segno_core::time::format_duration(now.since(summary.updated_at))
            ),
            summary.run.to_string(),
            summary.kind.to_string(),
            summary.id.to_string(),
        ];
        if args.all {
            row.push(summary.workspace.clone());
        }
        row
    };
    let head: &[&str] = if args.all {
        &[
            "NAME",
            "STATUS",
            "LAST EVENT",
            "RUNS",
            "KIND",
            "ID",
            "FOLDER",
        ]
    } else {
        &["NAME", "STATUS", "LAST EVENT", "RUNS", "KIND", "ID"]
    };
    if shown.is_empty() {
        let elsewhere = if args.all || args.status.is_some() || total == 0 {
            String::new()
        } else {
            format!(
                "; `--all` shows {} of other folders",
                text::number(total as u64)
            )
        };
        stdout_line(&format!("no sessions{elsewhere}"));
    } else {
        let rows: Vec<_> = shown.iter().map(row).collect();
        table::table(head, &rows, columns())
            .iter()
            .for_each(|line| stdout_line(line));
    }
    damaged
        .iter()
        .for_each(|error| stdout_line(&text::sanitize(&format!("damaged: {error}"))));
    Ok(ExitCode::SUCCESS)
}
