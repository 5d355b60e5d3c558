//! `segno note show`: prints one note.

use std::process::ExitCode;

use segno_core::note::NoteId;
use segno_engine::Env;
use segno_sessions::notes;

use super::find_session;
use super::row::rows;
use crate::failure::Failure;
use crate::output::{json_line, note, stdout_line, text};

/// Show a note and where it comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Note id, such as `d1`; may be withdrawn
    note: NoteId,
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args, env: &Env) -> Result<ExitCode, Failure> {
    let summary = find_session(env, args.session.as_deref()).await?;
    let handoff = notes::merged(env, &summary).await?;
    let mut rows = rows(&handoff).into_iter();
    let row = rows.find(|row| row.id == Some(args.note));
    let row = row.ok_or_else(|| notes::not_found_error(&handoff, &summary, args.note))?;
    if args.json {
        json_line(&row.json());
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![("note", format!("{} of {}", args.note, summary.name))];
    lines.extend(note::fields(&row.note));
    lines.push(("from", row.from()));
    if let Some(origin) = &row.origin {
        lines.extend(origin.step.iter().map(|step| ("step", step.to_string())));
        lines.extend(origin.call.iter().map(|call| ("call", call.clone())));
        let corrected = if row.corrected { ", corrected" } else { "" };
        lines.push((
            "written",
            format!("{}{corrected}, in event {}", origin.at, origin.entry),
        ));
    }
    lines.extend(row.withdrawn.map(|why| ("withdrawn", why)));
    for (name, value) in lines {
        stdout_line(&format!("{name:<10} {}", text::sanitize(&value)));
    }
    Ok(ExitCode::SUCCESS)
}
