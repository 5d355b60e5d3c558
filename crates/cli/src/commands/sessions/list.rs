//! `segno sessions list`: lists sessions with their status.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use segno_core::session::Status;
use segno_core::store::Filter;
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
    /// List only the newest N; 0 lists all [default: 100, with `--json` all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print JSON, one session per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many sessions are listed unless the user asks for more.
const LIMIT: usize = 100;

impl Args {
    fn filter(&self) -> Result<Filter, Failure> {
        let base = if self.all {
            Filter::default()
        } else {
            sessions::in_folder(&workspace()?)
        };
        let statuses = match &self.status {
            // In the journal, a session whose run was lost is still running.
            Some(status) if status == Status::Interrupted.as_str() => {
                vec![Status::Running, Status::Interrupted]
            }
            Some(status) => Status::ALL
                .iter()
                .copied()
                .filter(|known| known.as_str() == status)
                .collect(),
            None if self.all => return Ok(base),
            None => Status::ALL
                .iter()
                .copied()
                .filter(|status| !status.is_archived())
                .collect(),
        };
        Ok(Filter {
            statuses: Some(statuses),
            ..base
        })
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let limit = match args.limit {
        Some(0) => None,
        None => (!args.json).then_some(LIMIT),
        given => given,
    };
    let mut filter = args.filter()?;
    if args.status.is_none() {
        // One more, to know whether there are more.
        filter.limit = limit.map(|limit| limit.saturating_add(1));
    }
    let (mut shown, damaged) = sessions::list(&env, filter).await?;
    shown.retain(|listed| {
        args.status
            .as_ref()
            .is_none_or(|status| listed.status.as_str() == status)
    });
    let is_cut = limit.is_some_and(|limit| shown.len() > limit);
    shown.truncate(limit.unwrap_or(usize::MAX));
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
            summary.kind.to_string(),
            summary.id.to_string(),
        ];
        if args.all {
            row.push(summary.workspace.clone());
        }
        row
    };
    let head: &[&str] = if args.all {
        &["NAME", "STATUS", "LAST EVENT", "KIND", "ID", "FOLDER"]
    } else {
        &["NAME", "STATUS", "LAST EVENT", "KIND", "ID"]
    };
    if shown.is_empty() {
        let elsewhere = if args.all || args.status.is_some() {
            0
        } else {
            env.store.list(Filter::default()).await?.len()
        };
        if elsewhere == 0 {
            stdout_line("no sessions");
        } else {
            let elsewhere = text::number(elsewhere as u64);
            stdout_line(&format!(
                "no sessions; `--all` shows {elsewhere} of other folders"
            ));
        }
    } else {
        let rows: Vec<_> = shown.iter().map(row).collect();
        table::table(head, &rows, columns())
            .iter()
            .for_each(|line| stdout_line(line));
    }
    if is_cut {
        stdout_line("older sessions are not shown; `--limit 0` lists all");
    }
    damaged
        .iter()
        .for_each(|error| stdout_line(&text::sanitize(&format!("damaged: {error}"))));
    Ok(ExitCode::SUCCESS)
}
