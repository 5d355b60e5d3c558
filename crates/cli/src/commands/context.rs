use std::path::Path;
use std::process::{Command as Program, ExitCode};

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use segno_core::ports::Access;
use segno_core::session::Summary;
use segno_engine::World;
use segno_engine::brief::{self, Section};
use serde_json::json;

use super::note::session;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::output::{data, json_line, plain, say};

/// The longest file that is read from an editor.
const LONGEST: u64 = 1024 * 1024;

/// Show what an agent is told that knows nothing of the work before it, or edit it.
///
/// It is compiled from the journal, from memos and from git, and bounded. An agent whose own conversation
/// goes on is not told; a fresh one is, as quoted data.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either [default: the newest one of this
    /// folder]
    session: Option<String>,
    /// Only this section; may be given several times
    #[arg(long, value_name = "SECTION", value_parser = sections())]
    section: Vec<Section>,
    /// Edit it with $VISUAL or $EDITOR: what is saved is told in the next run instead; nothing at all
    /// lets it be compiled again
    #[arg(long, conflicts_with_all = ["section", "json"])]
    edit: bool,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn sections() -> impl clap::builder::TypedValueParser<Value = Section> {
    let words = Section::ALL.iter().map(|section| section.as_str());
    PossibleValuesParser::new(words).map(|word| {
        let named = Section::ALL.iter().find(|section| section.as_str() == word);
        *named.expect("only known words come through")
    })
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = session(&world, args.session.as_deref()).await?;
    let whole = brief::gather(&world, summary.clone()).await?;
    let wanted = |section| args.section.is_empty() || args.section.contains(&section);
    let brief = whole.brief().only(wanted);
    if args.edit {
        let now = whole.edited.clone().unwrap_or_else(|| brief.text());
        return edit(&world, &summary, &now, whole.edited.is_some()).await;
    }
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "context",
            "session": summary.id,
            "name": summary.name,
            "tokens": brief.tokens(),
            "most_tokens": brief::TOKENS,
            "fragments": brief.fragments,
            "edited": whole.edited,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    match &whole.edited {
        Some(edited) if args.section.is_empty() => {
            say("a person has edited this; `--section` shows what would be compiled");
            data(&plain::lines(edited.trim_end()));
        }
        _ => data(&plain::lines(brief.text().trim_end())),
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets a person edit what is told, and keeps it.
async fn edit(
    world: &World,
    summary: &Summary,
    now: &str,
    was_edited: bool,
) -> Result<ExitCode, Failure> {
    let name = format!("segno-context-{}-{}.md", summary.id, std::process::id());
    let file = std::env::temp_dir().join(name);
    let unusable = |error: std::io::Error| {
        let hint = "set TMPDIR to a folder that can be written; nothing was changed";
        let message = format!("{} cannot be used: {error}", file.display());
        Failure::usage(message, Some(hint.to_owned()))
    };
    let created = world.disk.create(&file, now.as_bytes(), Access::Private);
    created.map_err(unusable)?;
    let edited = editor(&file).and_then(|()| {
        let read = world.disk.read(&file, LONGEST).map_err(unusable)?;
        Ok(String::from_utf8_lossy(&read).trim_end().to_owned())
    });
    let kept = match &edited {
        Ok(text) => keep(world, summary, now, was_edited, text).await,
        Err(_) => Ok(""),
    };
    if kept.is_err() {
        say(&format!("what you wrote is in {}", file.display()));
    } else {
        let _ = world.disk.remove(&file);
    }
    edited?;
    data(kept?);
    Ok(ExitCode::SUCCESS)
}

/// Keeps what a person wrote. Returns what that changes.
async fn keep(
    world: &World,
    summary: &Summary,
    now: &str,
    was_edited: bool,
    text: &str,
) -> Result<&'static str, segno_engine::Error> {
    if text == now.trim_end() || (text.is_empty() && !was_edited) {
        return Ok("nothing was changed");
    }
    let by = std::env::var("USER").unwrap_or_else(|_| "segno context".into());
    brief::edit(world, summary, text, &by).await?;
    Ok(if text.is_empty() {
        "what agents are told is compiled again"
    } else {
        "agents are told this in the next run"
    })
}

/// Opens a person's editor, and waits for it.
fn editor(file: &Path) -> Result<(), Failure> {
    let editor = ["VISUAL", "EDITOR"].into_iter();
    let mut editor = editor.filter_map(|name| std::env::var(name).ok());
    let editor = editor.find(|editor| !editor.trim().is_empty());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // It may be given with arguments, as git takes it.
    let ended = Program::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file)
        .status();
    let reason = match ended {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    Err(Failure::usage(
        format!("the editor `{editor}` failed: {reason}"),
        Some("set EDITOR to one that works; nothing was changed".to_owned()),
    ))
}
