use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use segno_core::companion::Program;
use segno_core::transcript::Transcripts;
use segno_engine::adopt::{self, Adopted, Effect, Outcome};
use segno_engine::{Error, World};
use serde_json::json;

use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::waiting::Waiting;
use crate::output::{data, json as shapes, json_line, plain, say};

/// The exit code if some transcripts could not be read.
const UNREADABLE: u8 = 12;

/// Adopt conversations that Claude Code or Codex left behind, as sessions.
///
/// A transcript becomes a session that can be shown, searched, forked, exported and resumed; the file
/// is kept as it is, in case its program deletes it. One that was adopted before is brought up to date.
/// What a session exported is read by `segno sessions import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Whose conversations
    program: Whose,
    /// A transcript, a folder with some, or the id of a conversation
    #[arg(value_name = "PATH | ID", required_unless_present = "all")]
    what: Option<PathBuf>,
    /// All that the program has
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// The folder to go on in [default: the one that the conversation is about]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print the answers as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Whose {
    /// Claude Code's
    Claude,
    /// Codex's
    Codex,
}

impl From<Whose> for Program {
    fn from(whose: Whose) -> Self {
        match whose {
            Whose::Claude => Self::ClaudeCode,
            Whose::Codex => Self::Codex,
        }
    }
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let program = Program::from(args.program);
    let transcripts = world.drivers.transcripts(program);
    let transcripts = transcripts.ok_or_else(|| {
        let message = format!("where {program} keeps its transcripts is not known");
        Failure::usage(message, Some("set HOME".to_owned()))
    })?;
    let folder = match &args.folder {
        Some(folder) => Some(real(folder)?),
        None => None,
    };
    let chosen = choose(&*transcripts, args.what.as_deref()).await?;
    let own = Arc::new(adopt::Own::gather(&world).await?);
    let mut tally = Tally::default();
    let total = chosen.files.len();
    for (number, file) in (1..).zip(&chosen.files) {
        let request = adopt::Request {
            program,
            file: file.clone(),
            folder: folder.clone(),
            own: Some(Arc::clone(&own)),
            effect: if args.dry_run {
                Effect::Foresee
            } else {
                Effect::Keep
            },
            progress: progress(&world, number, total),
        };
        match adopt::adopt(&world, request).await {
            Ok(adopted) => {
                tally.count(&adopted.outcome);
                tell(&args, file, &adopted, &world).await;
            }
            Err(error) if chosen.is_one => return Err(error.into()),
            // What is wrong with one is no reason to leave the others.
            Err(error @ Error::Unreadable { .. }) => {
                tally.refused += 1;
                refuse(&args, file, error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !chosen.is_one && !args.json {
        data(&tally.told(args.dry_run));
    }
    let missed = tally.refused > 0 || (chosen.is_one && tally.empty > 0);
    Ok(if missed {
        ExitCode::from(UNREADABLE)
    } else {
        ExitCode::SUCCESS
    })
}

/// What is meant: one transcript, or as many as there are.
struct Chosen {
    files: Vec<PathBuf>,
    is_one: bool,
}

async fn choose(transcripts: &dyn Transcripts, what: Option<&Path>) -> Result<Chosen, Failure> {
    let unlisted = |place: PathBuf| {
        |error: segno_core::agent::Error| Error::Unreadable {
            path: place,
            reason: error.message,
        }
    };
    let Some(what) = what else {
        let home = PathBuf::from(transcripts.program().as_str());
        let files = transcripts.all(None).await.map_err(unlisted(home))?;
        return Ok(Chosen {
            files,
            is_one: false,
        });
    };
    if what.is_dir() {
        let listed = transcripts.all(Some(real(what)?)).await;
        let files = listed.map_err(unlisted(what.to_owned()))?;
        return Ok(Chosen {
            files,
            is_one: false,
        });
    }
    let file = match what.to_str().filter(|_| !what.exists()) {
        None => Some(what.to_owned()),
        // Whatever is no id is not found.
        Some(id) => transcripts.find(id).await.ok().flatten(),
    };
    let file = file.ok_or_else(|| {
        let program = transcripts.program();
        let message = format!(
            "`{}` is neither a file nor a conversation of {program}",
            what.display()
        );
        Failure::usage(message, None)
    })?;
    Ok(Chosen {
        files: vec![file],
        is_one: true,
    })
}

/// A folder by its whole name.
fn real(folder: &Path) -> Result<PathBuf, Failure> {
    let folder = workspace()?.join(folder);
    Ok(folder.canonicalize().map_err(|error| Error::Unreadable {
        path: folder,
        reason: error.to_string(),
    })?)
}

fn progress(world: &World, number: usize, total: usize) -> Arc<dyn Fn(u64, u64) + Send + Sync> {
    let waiting = Mutex::new(Waiting::new(world.clock.clone()));
    Arc::new(move |done, of| {
        let percent = done.saturating_mul(100) / of.max(1);
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.tell(&format!("transcript {number} of {total}: {percent} %"));
    })
}

/// How many went which way.
#[derive(Debug, Default)]
struct Tally {
    new: u64,
    updated: u64,
    unchanged: u64,
    left: u64,
    empty: u64,
    refused: u64,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        let number = match outcome {
            Outcome::New => &mut self.new,
            Outcome::Updated => &mut self.updated,
            Outcome::Unchanged => &mut self.unchanged,
            Outcome::Left(_) => &mut self.left,
            Outcome::Empty => &mut self.empty,
        };
        *number += 1;
    }

    fn told(&self, dry: bool) -> String {
        let would = if dry { "would be " } else { "" };
        let parts = [
            (self.new, "adopted"),
            (self.updated, "brought up to date"),
            (self.unchanged, "unchanged"),
            (self.left, "left as they are"),
            (self.empty, "without a word in them"),
            (self.refused, "refused"),
        ];
        let parts = parts.iter().filter(|(number, _)| *number > 0);
        let told: Vec<String> = parts
            .map(|(number, what)| format!("{} {what}", plain::number(*number)))
            .collect();
        if told.is_empty() {
            return "no transcripts".to_owned();
        }
        format!("{would}{}", told.join(", "))
    }
}

async fn tell(args: &Args, file: &Path, adopted: &Adopted, world: &World) {
    if args.json {
        return json_line(&shapes::adopted(file, args.program.into(), adopted));
    }
    let name = adopted.name.as_ref().map_or_else(
        || adopted.session.to_string(),
        |name| format!("{name} ({})", adopted.session),
    );
    let entries = plain::count(adopted.entries, "entry").replace("entrys", "entries");
    let (adopts, updates) = if args.dry_run {
        ("would adopt", "would bring up to date")
    } else {
        ("adopted", "brought up to date")
    };
    match &adopted.outcome {
        Outcome::New => data(&plain::plain(&format!("{adopts} {name}: {entries}"))),
        Outcome::Updated => data(&plain::plain(&format!("{updates} {name}: {entries} more"))),
        Outcome::Unchanged => data(&format!("unchanged {name}")),
        Outcome::Left(reason) => data(&plain::plain(&format!("left {}: {reason}", file.display()))),
        Outcome::Empty if args.all => {}
        Outcome::Empty => data(&plain::plain(&format!(
            "left {}: nothing was said in it",
            file.display()
        ))),
    }
    for damage in &adopted.damage {
        say(&plain::plain(&format!(
            "note: {}, {damage}",
            file.display()
        )));
    }
    if adopted.damage_unlisted > 0 {
        let more = plain::number(adopted.damage_unlisted);
        say(&format!("note: {more} more lines could not be read"));
    }
    if adopted.outcome == Outcome::New
        && let Ok(summary) = world.store.summary(adopted.session).await
        && !Path::new(&summary.workspace).is_dir()
    {
        say(&plain::plain(&format!(
            "note: its folder {} is not on this machine; `--folder FOLDER` names another",
            summary.workspace
        )));
    }
}

fn refuse(args: &Args, file: &Path, error: Error) {
    let failure = Failure::from(error);
    if args.json {
        let message = failure.to_string();
        let file = file.display().to_string();
        json_line(&json!({"v": 1, "kind": "refused", "file": file, "problem": message}));
    } else {
        say(&format!("error: {failure}"));
    }
}
