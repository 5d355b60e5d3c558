use std::process::ExitCode;

use segno_core::checkpoint::Manifest;
use segno_core::snapshot::{self, Sort};
use segno_engine::checkpoint::said::Change;
use segno_engine::{World, checkpoint};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{data, json as shapes, json_line, memo, plain, progress, say};

/// Longer files are not compared line by line.
const LONGEST: usize = 1024 * 1024;

/// Show what changed from one checkpoint to another: files, memos, finished steps, what was used.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The one to begin with: its id, or the beginning or the end of it
    from: String,
    /// The other
    to: String,
    /// Show what changed inside text files
    #[arg(short, long, conflicts_with = "json")]
    patch: bool,
    /// Print it as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

fn word(sort: Sort) -> (&'static str, char) {
    match sort {
        Sort::Added => ("added", '+'),
        Sort::Removed => ("removed", '-'),
        Sort::Changed => ("changed", '~'),
        Sort::Mode => ("mode", '%'),
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let world = context.still_world()?;
    let from = checkpoint::find(&world, &args.from).await?;
    let to = checkpoint::find(&world, &args.to).await?;
    let found = checkpoint::diff(&world, &from, &to).await?;
    if args.json {
        for change in &found.files {
            let (word, _) = word(change.sort);
            json_line(&json!({"v": 1, "kind": "file", "change": word, "path": change.path}));
        }
        let said = found.said.clone().unwrap_or_default();
        for Change { sort, id, memo } in &said.memos {
            let (word, _) = word(*sort);
            json_line(&json!({"v": 1, "kind": "memo", "change": word, "id": id, "memo": memo}));
        }
        json_line(&json!({
            "v": 1,
            "kind": "difference",
            "from": from.id,
            "to": to.id,
            "files": found.files.len(),
            "done": said.done,
            "undone": said.undone,
            "journals": found.said.is_some(),
            "steps": i64::try_from(found.steps).unwrap_or(i64::MAX),
            "usage": shapes::usage(&found.usage),
            "others": found.others.iter().map(|(what, from, to)| json!({"what": what, "from": from, "to": to})).collect::<Vec<_>>(),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    for change in &found.files {
        if args.patch {
            show(&world, &from, &to, change).await?;
        } else {
            let (_, mark) = word(change.sort);
            data(&format!("{mark} {}", plain::plain(&change.path)));
        }
    }
    for (what, from, to) in &found.others {
        let line = format!("{what}: {from} -> {to}");
        data(&plain::plain(&line));
    }
    match &found.said {
        Some(said) => {
            for Change { sort, id, memo } in &said.memos {
                let (_, mark) = word(*sort);
                let line = format!("{mark} {id} {}", memo::line(memo));
                data(&plain::plain(&line));
            }
            said.done
                .iter()
                .for_each(|path| data(&format!("[x] {path}")));
            said.undone
                .iter()
                .for_each(|path| data(&format!("[ ] {path}")));
        }
        None => say("what was noted and done is not compared: a journal is not here"),
    }
    let spent = match progress::spent(&found.usage).as_str() {
        "" => String::new(),
        spent => format!(", {spent}"),
    };
    data(&format!(
        "{} changed; {:+} steps{spent}",
        plain::count(found.files.len() as u64, "file"),
        found.steps
    ));
    Ok(ExitCode::SUCCESS)
}

/// Shows what changed inside a file, as `diff -u` does.
async fn show(
    world: &World,
    from: &Manifest,
    to: &Manifest,
    change: &snapshot::Change,
) -> Result<(), Failure> {
    let path = plain::plain(&change.path);
    if change.sort == Sort::Mode {
        data(&format!("{path}: only its mode changed"));
        return Ok(());
    }
    let (mut before, mut after) = (Some(String::new()), Some(String::new()));
    if change.sort != Sort::Added {
        before = words(checkpoint::content(world, from, &change.path).await);
    }
    if change.sort != Sort::Removed {
        after = words(checkpoint::content(world, to, &change.path).await);
    }
    let (Some(before), Some(after)) = (before, after) else {
        data(&format!("{path}: no text, or too long to be compared"));
        return Ok(());
    };
    let compared = similar::TextDiff::from_lines(&before, &after);
    let (old, new) = (format!("a/{path}"), format!("b/{path}"));
    let patch = compared.unified_diff().header(&old, &new).to_string();
    patch.lines().for_each(|line| data(&plain::plain(line)));
    Ok(())
}

/// The text of a file, if it is one.
fn words(content: Result<Vec<u8>, segno_engine::Error>) -> Option<String> {
    let bytes = content.ok().filter(|bytes| bytes.len() <= LONGEST)?;
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}
