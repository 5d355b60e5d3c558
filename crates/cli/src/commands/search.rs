//! `segno search`: searches the texts of sessions.

use std::process::ExitCode;

use segno_sessions::json as shapes;
use segno_sessions::search::{self, Author, Match, Query};
use serde_json::json;

use crate::context::{Context, Persistence, workspace};
use crate::failure::Failure;
use crate::output::progress_line::ProgressLine;
use crate::output::{json_line, stdout_line, text};

/// Search prompts, answers and messages in the sessions of this folder, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Text to search for, case-insensitive
    text: String,
    /// Search the sessions of all folders
    #[arg(short, long)]
    all: bool,
    /// Search only steps of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print JSON, one result per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.text.is_empty() {
        return Err(Failure::usage("the search text is empty", None));
    }
    let (env, _) = context.env(Persistence::Home)?;
    let query = Query {
        text: args.text,
        session: None,
        folder: if args.all { None } else { Some(workspace()?) },
        agent: args.agent,
        limit: args.limit as usize,
    };
    let mut progress_line = ProgressLine::new(env.clock.clone());
    let found = search::search(&env, &query, |done, total| {
        let (done, total) = (text::number(done), text::number(total));
        progress_line.update(&format!("searched {done} of {total} sessions"));
    })
    .await?;
    drop(progress_line);
    for find in &found.matches {
        if args.json {
            json_line(&shapes::search_match(find));
        } else {
            print_find(find);
        }
    }
    for error in &found.damaged {
        let problem = error.to_string();
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": problem}),
            );
        } else {
            stdout_line(&text::sanitize(&format!("damaged: {problem}")));
        }
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    if found.matches.is_empty() {
        let elsewhere = if args.all {
            ""
        } else {
            "; `--all` searches all folders"
        };
        stdout_line(&format!("no matches{elsewhere}"));
    }
    if found.not_listed > 0 {
        let more = text::number(found.not_listed);
        stdout_line(&format!("{more} more: `--limit N` shows them"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_find(find: &Match) {
    let who = match find.who {
        Author::Agent => find.agent.as_str(),
        other => other.as_str(),
    };
    let line = format!(
        "{} {} {} {who}: {}",
        find.at, find.name, find.path, find.snippet
    );
    stdout_line(&text::sanitize(&line));
}
