use std::process::ExitCode;

use segno_core::memo::MemoId;
use segno_engine::{World, memos};

use super::row::rows;
use super::session;
use crate::failure::Failure;
use crate::output::{data, json_line, memo, plain};

/// Show all that a memo says, and where it comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The memo, such as `d1`; also one that was withdrawn
    memo: MemoId,
    /// The session: its id, its name, or the beginning of either [default: the newest one of this
    /// folder]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    /// Print it as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args, world: &World) -> Result<ExitCode, Failure> {
    let summary = session(world, args.session.as_deref()).await?;
    let handoff = memos::handoff(world, &summary).await?;
    let mut rows = rows(&handoff).into_iter();
    let row = rows.find(|row| row.id == Some(args.memo));
    let row = row.ok_or_else(|| memos::no_such(&handoff, &summary, args.memo))?;
    if args.json {
        json_line(&row.json());
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![("memo", format!("{} of {}", args.memo, summary.name))];
    lines.extend(memo::whole(&row.memo));
    lines.push(("from", row.from()));
    if let Some(origin) = &row.origin {
        lines.extend(origin.step.iter().map(|step| ("step", step.to_string())));
        lines.extend(origin.call.iter().map(|call| ("call", call.clone())));
        let corrected = if row.corrected { ", corrected" } else { "" };
        lines.push((
            "written",
            format!("{}{corrected}, in entry {}", origin.at, origin.entry),
        ));
    }
    lines.extend(row.withdrawn.map(|why| ("withdrawn", why)));
    for (name, value) in lines {
        data(&format!("{name:<10} {}", plain::plain(&value)));
    }
    Ok(ExitCode::SUCCESS)
}
