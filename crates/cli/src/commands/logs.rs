use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::{Entry, Head};
use segno_core::session::{Status, Summary};
use segno_engine::{World, claim, history, sessions};

use crate::context::{Context, Keep, workspace};
use crate::failure::Failure;
use crate::output::{json, plain, printed, progress};

/// Show what happened in a session, entry by entry.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its name, or the beginning of either [default: the newest of this folder]
    session: Option<String>,
    /// Go on showing what happens, until the session stops
    #[arg(short, long)]
    follow: bool,
    /// Show what was asked and answered, too
    #[arg(long)]
    full: bool,
    /// Print entries as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How often a followed session is looked at.
const GLANCE: Duration = Duration::from_millis(100);

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let summary = match &args.session {
        Some(reference) => sessions::find(&world, reference).await?,
        None => newest(&world).await?,
    };
    let mut head = Head::genesis(summary.id);
    loop {
        // Looked at before reading: what a run writes while it ends is then still read.
        let now = world.store.summary(summary.id).await?;
        let lease = world.store.lease(summary.id).await?;
        let over = claim::standing(&world, &now, &lease) != Status::Running;
        let mut closed = false;
        head = history::follow(&world, summary.id, head, |entry| {
            closed |= !printed(&line(args, summary.id, &entry));
            Ok(())
        })
        .await?;
        if !args.follow || over || closed {
            return Ok(ExitCode::SUCCESS);
        }
        world.clock.sleep(GLANCE).await;
    }
}

async fn newest(world: &World) -> Result<Summary, Failure> {
    let here = workspace()?;
    let (listed, _) = sessions::list(world).await?;
    let mut summaries = listed.into_iter().map(|listed| listed.summary);
    let found = summaries.find(|summary| Path::new(&summary.workspace) == here);
    found.ok_or_else(|| segno_engine::Error::NothingHere { workspace: here }.into())
}

fn line(args: &Args, session: SessionId, entry: &Entry) -> String {
    if args.json {
        return json::harmless(&json::entry(session, entry).to_string());
    }
    let what = progress::describe(entry);
    let mut line = format!("{} {:>5}  {}", entry.at, entry.seq, plain::plain(&what));
    if args.full
        && let Some(text) = entry.event.text()
    {
        for part in plain::lines(&json::text(text)).lines() {
            line.push_str("\n                                | ");
            line.push_str(part);
        }
    }
    line
}
