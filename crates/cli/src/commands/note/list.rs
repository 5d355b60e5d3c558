//! `segno note list`: lists the notes of a session.

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use segno_core::note::NoteKind;
use segno_engine::Env;
use segno_sessions::notes;

use super::find_session;
use super::row::{Row, rows};
use super::write::word_parser;
use crate::failure::Failure;
use crate::output::{columns, json_line, note, stderr_line, stdout_line, table};

/// List the notes of a session.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// List only notes of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = word_parser!(NoteKind))]
    note_type: Option<NoteKind>,
    /// Include withdrawn notes
    #[arg(long)]
    all: bool,
    /// Print JSON, one note per line
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args, env: &Env) -> Result<ExitCode, Failure> {
    let summary = find_session(env, args.session.as_deref()).await?;
    let handoff = notes::merged(env, &summary).await?;
    let rows = rows(&handoff).into_iter();
    let rows = rows.filter(|row| args.note_type.is_none() || row.note.kind() == args.note_type);
    let rows: Vec<Row> = rows
        .filter(|row| args.all || row.withdrawn.is_none())
        .collect();
    if args.json {
        rows.iter().for_each(|row| json_line(&row.json()));
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        stderr_line(&format!("{} has no notes", summary.name));
        return Ok(ExitCode::SUCCESS);
    }
    let cells = rows.into_iter().map(|row| {
        let withdrawn = row.withdrawn.as_ref().map_or("", |_| "(withdrawn) ");
        let name = row.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let line = format!("{withdrawn}{}", note::line(&row.note));
        vec![name, row.from(), line]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    for line in table::table(&["NOTE", "FROM", "WHAT"], &cells, columns()) {
        stdout_line(&line);
    }
    Ok(ExitCode::SUCCESS)
}
