//! `segno agents import`: turns conversations of other programs into sessions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::transcript::{TranscriptSource, Transcripts};
use segno_engine::Env;
use segno_integrations::transcripts::{self, Adopted, Effect, Error, Outcome};
use serde_json::json;

use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::progress_line::ProgressLine;
use crate::output::{json_line, stderr_line, stdout_line, text};

/// Exit code if some transcripts could not be read.
const UNREADABLE: u8 = 12;

/// Import conversations of Claude Code, Codex, Gemini or opencode as sessions.
///
/// An imported transcript can be shown, searched, forked, exported and resumed like any session.
/// Segno keeps a copy of the file, in case the agent deletes it. A transcript that was imported
/// before is updated. To import an exported session, use `segno sessions import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Agent whose conversations are imported
    #[arg(value_name = "AGENT", value_parser = super::source_parser())]
    program: TranscriptSource,
    /// Transcript, folder with transcripts, or conversation id
    #[arg(value_name = "PATH | ID", required_unless_present = "all")]
    what: Option<PathBuf>,
    /// Import all conversations of the agent
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Folder in which to resume the work [default: the folder of the conversation]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Only show what would be imported
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let program = args.program;
    let transcripts = env.drivers.transcripts(program);
    let transcripts = transcripts.ok_or_else(|| {
        let message = format!("the folder with the transcripts of {program} is unknown");
        Failure::usage(message, Some("set HOME".to_owned()))
    })?;
    let folder = match &args.folder {
        Some(folder) => Some(canonical_folder(folder)?),
        None => None,
    };
    let selection = select(&*transcripts, args.what.as_deref()).await?;
    let own = Arc::new(transcripts::KnownConversations::collect(&env).await?);
    let mut counts = Counts::default();
    let total = selection.files.len();
    let progress = progress(&env, total);
    let request = |(number, file): (usize, &PathBuf)| transcripts::Request {
        source: program,
        file: file.clone(),
        folder: folder.clone(),
        known: Some(Arc::clone(&own)),
        effect: if args.dry_run {
            Effect::DryRun
        } else {
            Effect::Apply
        },
        progress: progress(number + 1),
    };
    let requests = selection.files.iter().enumerate().map(request).collect();
    transcripts::adopt_many(&env, requests, async |number, adopted| {
        let file = &selection.files[number];
        match adopted {
            Ok(adopted) => {
                counts.count(&adopted.outcome);
                print_result(&args, file, &adopted, &env).await;
                Ok(())
            }
            Err(error) if selection.is_one || error.concerns_all() => Err(error),
            // One bad transcript does not stop the others.
            Err(error) => {
                counts.refused += 1;
                print_refused(&args, file, error);
                Ok(())
            }
        }
    })
    .await?;
    if !selection.is_one && !args.json {
        stdout_line(&counts.describe(args.dry_run));
    }
    let missed = counts.refused > 0 || (selection.is_one && counts.empty > 0);
    Ok(if missed {
        ExitCode::from(UNREADABLE)
    } else {
        ExitCode::SUCCESS
    })
}

/// The transcripts to import.
struct Selection {
    files: Vec<PathBuf>,
    is_one: bool,
}

async fn select(transcripts: &dyn Transcripts, what: Option<&Path>) -> Result<Selection, Failure> {
    let unlisted = |place: PathBuf| {
        |error: segno_core::agent::Error| Error::Unreadable {
            path: place,
            reason: error.message,
        }
    };
    let Some(what) = what else {
        let home = PathBuf::from(transcripts.source().as_str());
        let files = transcripts.list(None).await.map_err(unlisted(home))?;
        return Ok(Selection {
            files,
            is_one: false,
        });
    };
    if what.is_dir() {
        let listed = transcripts.list(Some(canonical_folder(what)?)).await;
        let files = listed.map_err(unlisted(what.to_owned()))?;
        return Ok(Selection {
            files,
            is_one: false,
        });
    }
    let file = match what.to_str().filter(|_| !what.exists()) {
        None => Some(what.to_owned()),
        // An invalid id counts as not found.
        Some(id) => transcripts.find(id).await.ok().flatten(),
    };
    let file = file.ok_or_else(|| {
        let program = transcripts.source();
        let message = format!(
            "`{}` is neither a file nor a conversation of {program}",
            what.display()
        );
        Failure::usage(message, None)
    })?;
    Ok(Selection {
        files: vec![file],
        is_one: true,
    })
}

/// Resolves a folder to its canonical path.
fn canonical_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let folder = workspace()?.join(folder);
    Ok(folder.canonicalize().map_err(|error| Error::Unreadable {
        path: folder,
        reason: error.to_string(),
    })?)
}

/// The progress of a transcript, by its number.
type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

fn progress(env: &Env, total: usize) -> impl Fn(usize) -> Progress {
    let line = Arc::new(Mutex::new(ProgressLine::new(env.clock.clone())));
    move |number| {
        let line = Arc::clone(&line);
        Arc::new(move |done, of| {
            let percent = done.saturating_mul(100) / of.max(1);
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            line.update(&format!("transcript {number} of {total}: {percent} %"));
        })
    }
}

/// Number of transcripts per outcome.
#[derive(Debug, Default)]
struct Counts {
    new: u64,
    updated: u64,
    unchanged: u64,
    skipped: u64,
    empty: u64,
    refused: u64,
}

impl Counts {
    fn count(&mut self, outcome: &Outcome) {
        let number = match outcome {
            Outcome::New => &mut self.new,
            Outcome::Updated => &mut self.updated,
            Outcome::Unchanged => &mut self.unchanged,
            Outcome::Skipped(_) => &mut self.skipped,
            Outcome::Empty => &mut self.empty,
        };
        *number += 1;
    }

    fn describe(&self, dry: bool) -> String {
        let would = if dry { "would be " } else { "" };
        let parts = [
            (self.new, "imported"),
            (self.updated, "updated"),
            (self.unchanged, "unchanged"),
            (self.skipped, "skipped"),
            (self.empty, "empty"),
            (self.refused, "refused"),
        ];
        let parts = parts.iter().filter(|(number, _)| *number > 0);
        let parts: Vec<String> = parts
            .map(|(number, what)| format!("{} {what}", text::number(*number)))
            .collect();
        if parts.is_empty() {
            return "no transcripts".to_owned();
        }
        format!("{would}{}", parts.join(", "))
    }
}

async fn print_result(args: &Args, file: &Path, adopted: &Adopted, env: &Env) {
    if args.json {
        return json_line(&shape(file, args.program, adopted));
    }
    let name = adopted.name.as_ref().map_or_else(
        || adopted.session.to_string(),
        |name| format!("{name} ({})", adopted.session),
    );
    let entries = text::count(adopted.entries, "item");
    let (adopts, updates) = if args.dry_run {
        ("would import", "would update")
    } else {
        ("imported", "updated")
    };
    match &adopted.outcome {
        Outcome::New => stdout_line(&text::sanitize(&format!("{adopts} {name}: {entries}"))),
        Outcome::Updated => stdout_line(&text::sanitize(&format!(
            "{updates} {name}: {entries} more"
        ))),
        Outcome::Unchanged => stdout_line(&format!("unchanged {name}")),
        Outcome::Skipped(reason) => stdout_line(&text::sanitize(&format!(
            "skipped {}: {reason}",
            file.display()
        ))),
        Outcome::Empty if args.all => {}
        Outcome::Empty => stdout_line(&text::sanitize(&format!(
            "skipped {}: it has no messages",
            file.display()
        ))),
    }
    for damage in &adopted.damage {
        stderr_line(&text::sanitize(&format!(
            "note: {}, {damage}",
            file.display()
        )));
    }
    if adopted.damage_unlisted > 0 {
        let more = text::number(adopted.damage_unlisted);
        stderr_line(&format!("note: {more} more lines could not be read"));
    }
    if adopted.outcome == Outcome::New
        && let Ok(summary) = env.store.summary(adopted.session).await
        && !Path::new(&summary.workspace).is_dir()
    {
        stderr_line(&text::sanitize(&format!(
            "note: its folder {} does not exist here; `--folder FOLDER` sets another",
            summary.workspace
        )));
    }
}

/// The result of importing a transcript, as `--json` prints it.
fn shape(file: &Path, program: TranscriptSource, adopted: &Adopted) -> serde_json::Value {
    let (outcome, reason) = match &adopted.outcome {
        Outcome::New => ("new", None),
        Outcome::Updated => ("updated", None),
        Outcome::Unchanged => ("unchanged", None),
        Outcome::Skipped(reason) => ("skipped", Some(reason)),
        Outcome::Empty => ("empty", None),
    };
    json!({
        "v": 1,
        "kind": "transcript",
        "file": file.display().to_string(),
        "program": program,
        "conversation": adopted.native,
        "session": adopted.session,
        "name": adopted.name,
        "outcome": outcome,
        "reason": reason,
        "items": adopted.entries,
        "bytes": adopted.bytes,
        "damage": adopted.damage,
        "damage_unlisted": adopted.damage_unlisted,
    })
}

fn print_refused(args: &Args, file: &Path, error: Error) {
    let failure = Failure::from(error);
    if args.json {
        let message = failure.to_string();
        let file = file.display().to_string();
        json_line(&json!({"v": 1, "kind": "refused", "file": file, "problem": message}));
    } else {
        stderr_line(&format!("error: {failure}"));
    }
}
