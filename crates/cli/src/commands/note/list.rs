use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use segno_core::memo::{Files, Handoff, Kept, Memo, Sort, Source};
use segno_engine::{World, memos};
use serde_json::{Value, json};

use super::session;
use super::write::word;
use crate::failure::Failure;
use crate::output::{columns, data, json_line, memo, say, table};

/// List the memos of a session.
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

/// A memo as it is listed.
struct Row {
    sort: Option<Sort>,
    name: String,
    withdrawn: bool,
    source: String,
    line: String,
    json: Value,
}

pub(super) async fn run(args: &Args, world: &World) -> Result<ExitCode, Failure> {
    let summary = session(world, args.session.as_deref()).await?;
    let handoff = memos::handoff(world, &summary).await?;
    let rows = rows(&handoff).into_iter();
    let rows = rows.filter(|row| args.sort.is_none() || row.sort == args.sort);
    let rows: Vec<Row> = rows.filter(|row| args.all || !row.withdrawn).collect();
    if args.json {
        rows.iter().for_each(|row| json_line(&row.json));
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        say(&format!("{} has no memos", summary.name));
        return Ok(ExitCode::SUCCESS);
    }
    let cells = rows.into_iter().map(|row| {
        let line = if row.withdrawn {
            format!("(withdrawn) {}", row.line)
        } else {
            row.line
        };
        vec![row.name, row.source, line]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    for line in table::table(&["MEMO", "FROM", "WHAT"], &cells, columns()) {
        data(&line);
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(handoff: &Handoff) -> Vec<Row> {
    let mut rows = Vec::new();
    let decisions = handoff.decisions.kept.iter();
    rows.extend(decisions.map(|kept| row(kept, Memo::Decision)));
    let errors = handoff.errors.kept.iter();
    rows.extend(errors.map(|kept| row(kept, Memo::Error)));
    let feedback = handoff.feedback.kept.iter();
    rows.extend(feedback.map(|kept| row(kept, Memo::Feedback)));
    let todos = handoff.todos.kept.iter();
    rows.extend(todos.map(|kept| row(kept, Memo::Todo)));
    rows.extend(handoff.list.iter().map(|kept| row(kept, Memo::Todos)));
    rows.extend(handoff.tests.iter().map(|kept| row(kept, Memo::Tests)));
    if !handoff.files.is_empty() {
        rows.push(files(handoff));
    }
    rows
}

/// The files that were written, from all memos about them: which told of each is in the journal.
fn files(handoff: &Handoff) -> Row {
    let memo = Memo::Files(Files {
        paths: handoff.files.clone(),
    });
    let source = Source::Driver;
    Row {
        sort: None,
        name: "-".to_owned(),
        withdrawn: false,
        source: format!("({source})"),
        line: memo::line(&memo),
        json: json!({
            "v": 1,
            "kind": "memo",
            "id": null,
            "at": null,
            "source": source,
            "by": null,
            "step": null,
            "entry": null,
            "call": null,
            "corrected": false,
            "withdrawn": null,
            "memo": memo,
        }),
    }
}

fn row<T: Clone>(kept: &Kept<T>, memo: fn(T) -> Memo) -> Row {
    let memo = memo(kept.memo.clone());
    let name = kept.id.map(|id| id.to_string());
    Row {
        sort: memo.sort(),
        withdrawn: kept.withdrawn.is_some(),
        source: format!("{} ({})", kept.by, kept.source),
        line: memo::line(&memo),
        json: json!({
            "v": 1,
            "kind": "memo",
            "id": name,
            "at": kept.at,
            "source": kept.source,
            "by": kept.by,
            "step": kept.path,
            "entry": kept.seq,
            "call": kept.call,
            "corrected": kept.corrected,
            "withdrawn": kept.withdrawn,
            "memo": memo,
        }),
        name: name.unwrap_or_else(|| "-".to_owned()),
    }
}
