//! `segno note …`: the subcommands, and what they share.

mod change;
mod list;
mod row;
mod show;
mod write;

use std::process::ExitCode;

use segno_core::id::Name;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_sessions as sessions;
use segno_sessions::notes::{Change, Recorded};
use serde_json::json;

use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::{json_line, stdout_line};

/// Record decisions, errors, feedback and todos for the next run.
///
/// Notes are stored in the session and shown to agents that resume it. Notes of agents, rules and
/// models can be corrected and withdrawn; the original stays in the journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Decision(write::Decision),
    Error(write::Error),
    Feedback(write::Feedback),
    Todo(write::Todo),
    Tests(write::Tests),
    List(list::Args),
    Show(show::Args),
    Correct(change::Correct),
    Withdraw(change::Withdraw),
}

/// Options of all subcommands that write a note.
#[derive(Debug, clap::Args)]
pub(crate) struct CommonArgs {
    /// Session id, name, or unique prefix of either [default: the newest session in this folder]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    /// Step that the note is about
    #[arg(long, value_name = "PATH")]
    step: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Decision(args) => args.common.json,
            Self::Error(args) => args.common.json,
            Self::Feedback(args) => args.common.json,
            Self::Todo(args) => args.common.json,
            Self::Tests(args) => args.common.json,
            Self::List(args) => args.json,
            Self::Show(args) => args.json,
            Self::Correct(args) => args.common.json,
            Self::Withdraw(args) => args.common.json,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let (env, _) = context.env(Persistence::Home)?;
        let (common, request) = match self {
            Self::List(args) => return list::run(&args, &env).await,
            Self::Show(args) => return show::run(&args, &env).await,
            Self::Correct(args) => return change::correct(args, &env, context).await,
            Self::Decision(args) => args.into_request(),
            Self::Error(args) => args.into_request(),
            Self::Feedback(args) => args.into_request(),
            Self::Todo(args) => args.into_request(),
            Self::Tests(args) => args.into_request(),
            Self::Withdraw(args) => args.into_request(),
        };
        let summary = find_session(&env, common.session.as_deref()).await?;
        append_note(&env, context, &summary, &common, request).await
    }
}

/// Finds the session by reference, or the newest one in the current folder.
pub(crate) async fn find_session(env: &Env, reference: Option<&str>) -> Result<Summary, Failure> {
    if let Some(reference) = reference {
        return Ok(sessions::find(env, reference).await?);
    }
    let folder = workspace()?;
    let newest = sessions::newest_in(env, &folder).await?;
    newest.ok_or_else(|| {
        let hint = "name one with `--session`; `segno sessions list` shows all";
        let message = format!("no session works in {}", folder.display());
        Failure::usage(message, Some(hint.to_owned()))
    })
}

async fn append_note(
    env: &Env,
    context: &Context,
    summary: &Summary,
    common: &CommonArgs,
    request: Change,
) -> Result<ExitCode, Failure> {
    let path = common.step.as_deref().map(Path::new).transpose();
    let path = path.map_err(|error| Failure::usage(error.to_string(), None))?;
    let by = std::env::var("USER").unwrap_or_else(|_| "segno note".into());
    let noted = context
        .control(env, by)
        .note(summary, path, request)
        .await?;
    print_result(&summary.name, summary, &noted, common.json);
    Ok(ExitCode::SUCCESS)
}

fn print_result(name: &Name, summary: &Summary, noted: &Recorded, json: bool) {
    let (written, notes): (bool, Vec<String>) = match noted {
        Recorded::Written(notes) => (true, notes.iter().map(ToString::to_string).collect()),
        Recorded::Posted => (false, Vec::new()),
    };
    if json {
        json_line(&json!({
            "v": 1,
            "kind": "noted",
            "session": summary.id,
            "name": name,
            "notes": notes,
            "waits_for_run": !written,
        }));
    } else if !written {
        stdout_line(&format!("sent to the run of {name}, which records it"));
    } else if notes.is_empty() {
        stdout_line(&format!("noted in {name}"));
    } else {
        stdout_line(&format!("noted in {name} as {}", notes.join(", ")));
    }
}
