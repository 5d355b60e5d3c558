use std::process::ExitCode;

use segno_engine::search::{self, Find, Query, Who};
use serde_json::json;

use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::waiting::Waiting;
use crate::output::{data, json_line, plain};

/// Find what was asked, answered and said in sessions of this folder, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The text, in upper or lower case
    text: String,
    /// In sessions of all folders
    #[arg(short, long)]
    all: bool,
    /// Only where this agent works
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How many finds are shown
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print them as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if args.text.is_empty() {
        return Err(Failure::usage("there is nothing to look for", None));
    }
    let (world, _) = context.world(Keep::Home)?;
    let query = Query {
        text: args.text,
        session: None,
        folder: if args.all { None } else { Some(workspace()?) },
        agent: args.agent,
        limit: args.limit as usize,
    };
    let mut waiting = Waiting::new(world.clock.clone());
    let found = search::search(&world, &query, |done, total| {
        let (done, total) = (plain::number(done), plain::number(total));
        waiting.tell(&format!("searched {done} of {total} sessions"));
    })
    .await?;
    drop(waiting);
    for find in &found.finds {
        if args.json {
            json_line(&shape(find));
        } else {
            tell(find);
        }
    }
    for error in &found.damaged {
        let problem = error.to_string();
        if args.json {
            json_line(
                &json!({"v": 1, "kind": "finding", "severity": "damage", "problem": problem}),
            );
        } else {
            data(&plain::plain(&format!("damaged: {problem}")));
        }
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    if found.finds.is_empty() {
        let elsewhere = if args.all {
            ""
        } else {
            "; `--all` looks into other folders, too"
        };
        data(&format!("nothing found{elsewhere}"));
    }
    if found.unlisted > 0 {
        let more = plain::number(found.unlisted);
        data(&format!("{more} more: `--limit N` shows them"));
    }
    Ok(ExitCode::SUCCESS)
}

fn word(who: Who) -> &'static str {
    match who {
        Who::Question => "question",
        Who::Person => "person",
        Who::Program => "program",
        Who::Agent => "agent",
        Who::Tool => "tool",
    }
}

fn tell(find: &Find) {
    let who = match find.who {
        Who::Agent => find.agent.as_str(),
        _ => word(find.who),
    };
    let line = format!(
        "{} {} {} {who}: {}",
        find.at, find.name, find.path, find.snippet
    );
    data(&plain::plain(&line));
}

fn shape(find: &Find) -> serde_json::Value {
    json!({
        "v": 1,
        "kind": "find",
        "session": find.session,
        "name": find.name,
        "path": find.path,
        "agent": find.agent,
        "who": word(find.who),
        "at": find.at.to_string(),
        "seq": find.seq,
        "snippet": find.snippet,
    })
}
