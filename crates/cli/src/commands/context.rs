//! `segno context`: shows the resume context of a session, or opens it in an editor.

use std::path::Path;
use std::process::{Command as Program, ExitCode};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use segno_core::ports::Access;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_engine::resume::context::ResumeContext;
use segno_sessions::resume_context::{self, Section};
use serde::Deserialize;
use serde_json::json;

use super::note::find_session;
use crate::context::{Context, Persistence};
use crate::failure::Failure;
use crate::output::{json_line, stderr_line, stdout_line, text};
use crate::remote::Reach;

/// Maximum size of the edited file in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Show or edit the resume context that a new agent receives.
///
/// The resume context is compiled from the journal, the notes and git, and bounded in size. After a
/// resume, the first step of each agent receives it as quoted data; an agent that continues its own
/// conversation receives only what is new.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    session: Option<String>,
    /// Show only this section (repeatable)
    #[arg(long, value_name = "SECTION", value_parser = sections())]
    section: Vec<Section>,
    /// Edit it with $VISUAL or $EDITOR. The saved text replaces it in the next run; an empty file
    /// restores the compiled one
    #[arg(long, conflicts_with_all = ["section", "json"])]
    edit: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    /// Where the command can work, and its name.
    pub(crate) fn reach(&self) -> (Reach, &'static str) {
        if self.edit {
            (Reach::Home, "context --edit")
        } else {
            (Reach::Anywhere, "context")
        }
    }
}

fn sections() -> impl clap::builder::TypedValueParser<Value = Section> {
    let words = Section::ALL.iter().map(|section| section.as_str());
    PossibleValuesParser::new(words).map(|word| {
        let named = Section::ALL.iter().find(|section| section.as_str() == word);
        *named.expect("only known words come through")
    })
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, _) = context.env(Persistence::Home)?;
    let summary = find_session(&env, args.session.as_deref()).await?;
    let wanted = |section| args.section.is_empty() || args.section.contains(&section);
    let whole = compile(&env, context, &summary).await?;
    let resume_context = whole.context.only(wanted);
    if args.edit {
        let now = whole
            .edited
            .clone()
            .unwrap_or_else(|| resume_context.text());
        return edit(&env, &summary, &now, whole.edited.is_some()).await;
    }
    if args.json {
        json_line(&json!({
            "v": 1,
            "kind": "context",
            "session": summary.id,
            "name": summary.name,
            "tokens": resume_context.tokens(),
            "max_tokens": resume_context::MAX_TOKENS,
            "fragments": resume_context.fragments,
            "edited": whole.edited,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    match &whole.edited {
        Some(edited) if args.section.is_empty() => {
            stderr_line("this text was edited; `--section` shows the compiled one");
            stdout_line(&text::sanitize_lines(edited.trim_end()));
        }
        _ => stdout_line(&text::sanitize_lines(resume_context.text().trim_end())),
    }
    Ok(ExitCode::SUCCESS)
}

/// A resume context, and the text that replaces it, if a user edited it.
#[derive(Deserialize)]
struct Shown {
    #[serde(flatten)]
    context: ResumeContext,
    edited: Option<String>,
}

/// The resume context, compiled where the session's folder is.
async fn compile(env: &Env, context: &Context, summary: &Summary) -> Result<Shown, Failure> {
    if let Some(remote) = &context.remote {
        let path = format!("/api/v1/sessions/{}/context", summary.id);
        return Ok(remote.connection.get(&path).await?);
    }
    let whole = resume_context::collect(env, summary.clone()).await?;
    Ok(Shown {
        context: whole.compile(),
        edited: whole.edited,
    })
}

/// Opens the resume context in the user's editor and stores the result.
async fn edit(
    env: &Env,
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
    let created = env.disk.create(&file, now.as_bytes(), Access::Private);
    created.map_err(unusable)?;
    let edited = open_editor(&file).and_then(|()| {
        let read = env.disk.read(&file, MAX_BYTES).map_err(unusable)?;
        Ok(String::from_utf8_lossy(&read).trim_end().to_owned())
    });
    let stored = match &edited {
        Ok(text) => store_edit(env, summary, now, was_edited, text).await,
        Err(_) => Ok(""),
    };
    if stored.is_err() {
        stderr_line(&format!("your text is in {}", file.display()));
    } else {
        let _ = env.disk.remove(&file);
    }
    edited?;
    stdout_line(stored?);
    Ok(ExitCode::SUCCESS)
}

/// Stores the edited text. Returns a sentence that says what changed.
async fn store_edit(
    env: &Env,
    summary: &Summary,
    now: &str,
    was_edited: bool,
    text: &str,
) -> Result<&'static str, resume_context::Error> {
    if text == now.trim_end() || (text.is_empty() && !was_edited) {
        return Ok("nothing was changed");
    }
    let by = std::env::var("USER").unwrap_or_else(|_| "segno context".into());
    resume_context::edit(env, summary, text, &by).await?;
    Ok(if text.is_empty() {
        "the resume context is compiled again"
    } else {
        "agents receive this text in the next run"
    })
}

/// Opens the user's editor and waits until it exits.
fn open_editor(file: &Path) -> Result<(), Failure> {
    let editor = ["VISUAL", "EDITOR"].into_iter();
    let mut editor = editor.filter_map(|name| std::env::var(name).ok());
    let editor = editor.find(|editor| !editor.trim().is_empty());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // The variable may contain arguments, as in git.
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
