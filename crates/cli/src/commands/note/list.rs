use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use segno_core::memo::Sort;
use segno_engine::{World, memos};

use super::row::{Row, rows};
use super::session;
use super::write::word;
use crate::failure::Failure;
use crate::output::{columns, data, json_line, memo, say, table};

/// List the memos of a session, a line for each.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either [default: the newest one of this
    /// folder]
    session: Option<String>,
    /// Only those of one sort
    #[arg(long, value_parser = word!(Sort))]
    sort: Option<Sort>,
    /// Also those that were withdrawn
    #[arg(long)]
    all: bool,
    /// Print memos as JSON, one per line
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args, world: &World) -> Result<ExitCode, Failure> {
    let summary = session(world, args.session.as_deref()).await?;
    let handoff = memos::handoff(world, &summary).await?;
    let rows = rows(&handoff).into_iter();
    let rows = rows.filter(|row| args.sort.is_none() || row.memo.sort() == args.sort);
    let rows: Vec<Row> = rows
        .filter(|row| args.all || row.withdrawn.is_none())
        .collect();
    if args.json {
        rows.iter().for_each(|row| json_line(&row.json()));
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        say(&format!("{} has no memos", summary.name));
        return Ok(ExitCode::SUCCESS);
    }
    let cells = rows.into_iter().map(|row| {
        let withdrawn = row.withdrawn.as_ref().map_or("", |_| "(withdrawn) ");
        let name = row.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let line = format!("{withdrawn}{}", memo::line(&row.memo));
        vec![name, row.from(), line]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    for line in table::table(&["MEMO", "FROM", "WHAT"], &cells, columns()) {
        data(&line);
    }
    Ok(ExitCode::SUCCESS)
}
