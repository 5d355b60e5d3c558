//! `segno checkpoint diff`: compares two checkpoints.

use std::process::ExitCode;

use segno_core::checkpoint::Manifest;
use segno_core::snapshot::{self, ChangeKind};
use segno_engine::Env;
use segno_sessions::checkpoint;
use segno_sessions::checkpoint::notes_diff::Change;
use segno_sessions::json as shapes;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{json_line, note, progress, stderr_line, stdout_line, text};

/// Larger files are not compared line by line.
const MAX_BYTES: usize = 1024 * 1024;

/// Show the changes between two checkpoints: files, notes, finished steps, usage.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// First checkpoint: its id, or a unique prefix or suffix of it
    from: String,
    /// Second checkpoint
    to: String,
    /// Show the changes inside text files
    #[arg(short, long, conflicts_with = "json")]
    patch: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

fn mark(kind: ChangeKind) -> char {
    match kind {
        ChangeKind::Added => '+',
        ChangeKind::Removed => '-',
        ChangeKind::Changed => '~',
        ChangeKind::Mode => '%',
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let env = context.env_inline()?;
    let from = checkpoint::find(&env, &args.from).await?;
    let to = checkpoint::find(&env, &args.to).await?;
    let found = checkpoint::diff(&env, &from, &to).await?;
    if args.json {
        for change in &found.files {
            json_line(&shapes::changed_file(change));
        }
        for change in found.notes.iter().flat_map(|notes| &notes.notes) {
            json_line(&shapes::changed_note(change));
        }
        json_line(&shapes::difference(&from, &to, &found));
        return Ok(ExitCode::SUCCESS);
    }
    for change in &found.files {
        if args.patch {
            print_patch(&env, &from, &to, change).await?;
        } else {
            let mark = mark(change.kind);
            stdout_line(&format!("{mark} {}", text::sanitize(&change.path)));
        }
    }
    for (what, from, to) in &found.others {
        let line = format!("{what}: {from} -> {to}");
        stdout_line(&text::sanitize(&line));
    }
    match &found.notes {
        Some(said) => {
            for Change {
                kind: sort,
                id,
                note,
            } in &said.notes
            {
                let mark = mark(*sort);
                let line = format!("{mark} {id} {}", note::line(note));
                stdout_line(&text::sanitize(&line));
            }
            said.done
                .iter()
                .for_each(|path| stdout_line(&format!("[x] {path}")));
            said.undone
                .iter()
                .for_each(|path| stdout_line(&format!("[ ] {path}")));
        }
        None => stderr_line("notes and steps are not compared: a journal is missing"),
    }
    let spent = match progress::spent(&found.usage).as_str() {
        "" => String::new(),
        spent => format!(", {spent}"),
    };
    stdout_line(&format!(
        "{} changed; {:+} steps{spent}",
        text::count(found.files.len() as u64, "file"),
        found.steps
    ));
    Ok(ExitCode::SUCCESS)
}

/// Prints the changes in a file in `diff -u` format.
async fn print_patch(
    env: &Env,
    from: &Manifest,
    to: &Manifest,
    change: &snapshot::Change,
) -> Result<(), Failure> {
    let path = text::sanitize(&change.path);
    if change.kind == ChangeKind::Mode {
        stdout_line(&format!("{path}: only its mode changed"));
        return Ok(());
    }
    let (mut before, mut after) = (Some(String::new()), Some(String::new()));
    if change.kind != ChangeKind::Added {
        before = as_text(checkpoint::read_file(env, from, &change.path).await);
    }
    if change.kind != ChangeKind::Removed {
        after = as_text(checkpoint::read_file(env, to, &change.path).await);
    }
    let (Some(before), Some(after)) = (before, after) else {
        stdout_line(&format!("{path}: binary, or too long to compare"));
        return Ok(());
    };
    let compared = similar::TextDiff::from_lines(&before, &after);
    let (old, new) = (format!("a/{path}"), format!("b/{path}"));
    let patch = compared.unified_diff().header(&old, &new).to_string();
    patch
        .lines()
        .for_each(|line| stdout_line(&text::sanitize(line)));
    Ok(())
}

/// Returns the content as text, if it is text and not too long.
fn as_text(content: Result<Vec<u8>, snapshot::Error>) -> Option<String> {
    let bytes = content.ok().filter(|bytes| bytes.len() <= MAX_BYTES)?;
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}
