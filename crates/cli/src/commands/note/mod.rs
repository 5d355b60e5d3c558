//! `segno note …`

mod change;
mod list;
mod row;
mod show;
mod write;

use std::process::ExitCode;

use segno_core::id::Name;
use segno_core::memo::Source;
use segno_core::session::Summary;
use segno_core::step::Path;
use segno_engine::memos::{self, Author, Noted, Wish};
use segno_engine::{World, sessions};
use serde_json::json;

use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::{data, json_line};

/// Note what whoever goes on with a session must know: decisions, errors, feedback, things to do.
///
/// Memos are kept with the session and told to agents that go on with it. Those that agents, rules and
/// models write can be corrected and withdrawn; what was written first stays in the journal.
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

/// Where it is noted.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The session: its id, its name, or the beginning of either [default: the newest one of this
    /// folder]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    /// The step that it is about
    #[arg(long, value_name = "PATH")]
    step: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Decision(args) => args.place.json,
            Self::Error(args) => args.place.json,
            Self::Feedback(args) => args.place.json,
            Self::Todo(args) => args.place.json,
            Self::Tests(args) => args.place.json,
            Self::List(args) => args.json,
            Self::Show(args) => args.json,
            Self::Correct(args) => args.place.json,
            Self::Withdraw(args) => args.place.json,
        }
    }

    pub(crate) async fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let (world, _) = context.world(Keep::Home)?;
        let (place, wish) = match self {
            Self::List(args) => return list::run(&args, &world).await,
            Self::Show(args) => return show::run(&args, &world).await,
            Self::Correct(args) => return change::correct(args, &world).await,
            Self::Decision(args) => args.wish(),
            Self::Error(args) => args.wish(),
            Self::Feedback(args) => args.wish(),
            Self::Todo(args) => args.wish(),
            Self::Tests(args) => args.wish(),
            Self::Withdraw(args) => args.wish(),
        };
        let summary = session(&world, place.session.as_deref()).await?;
        note(&world, &summary, &place, wish).await
    }
}

/// The session that is meant.
pub(crate) async fn session(world: &World, reference: Option<&str>) -> Result<Summary, Failure> {
    if let Some(reference) = reference {
        return Ok(sessions::find(world, reference).await?);
    }
    let folder = workspace()?;
    let newest = sessions::newest_in(world, &folder).await?;
    newest.ok_or_else(|| {
        let hint = "name one with `--session`; `segno sessions list` shows all";
        let message = format!("no session works in {}", folder.display());
        Failure::usage(message, Some(hint.to_owned()))
    })
}

async fn note(
    world: &World,
    summary: &Summary,
    place: &Place,
    wish: Wish,
) -> Result<ExitCode, Failure> {
    let path = place.step.as_deref().map(Path::new).transpose();
    let path = path.map_err(|error| Failure::usage(error.to_string(), None))?;
    let author = Author {
        source: Source::Person,
        by: std::env::var("USER").unwrap_or_else(|_| "segno note".into()),
        path,
    };
    let noted = memos::note(world, summary, author, wish).await?;
    tell(&summary.name, summary, &noted, place.json);
    Ok(ExitCode::SUCCESS)
}

fn tell(name: &Name, summary: &Summary, noted: &Noted, json: bool) {
    let (written, memos): (bool, Vec<String>) = match noted {
        Noted::Written(memos) => (true, memos.iter().map(ToString::to_string).collect()),
        Noted::Posted => (false, Vec::new()),
    };
    if json {
        json_line(&json!({
            "v": 1,
            "kind": "noted",
            "session": summary.id,
            "name": name,
            "memos": memos,
            "waits_for_run": !written,
        }));
    } else if !written {
        data(&format!(
            "noted for {name}; its run takes it into the journal"
        ));
    } else if memos.is_empty() {
        data(&format!("noted in {name}"));
    } else {
        data(&format!("noted in {name} as {}", memos.join(", ")));
    }
}
