use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::{Access, Disk};
use segno_engine::World;
use segno_engine::adopt::{Adopted, Effect, Outcome, Request, adopt};
use segno_store::LocalDisk;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::config;
use crate::context::{Context, Keep};
use crate::failure::Failure;
use crate::hooks::Agent;
use crate::output::{json, plain, printed, say};
use crate::spool::{self, Which};
use crate::watch::{Alarm, Guard, Job, Mark, Queue, Tree, Where, in_folder, tree};

/// Keep the sessions of Claude Code and Codex while they go on.
///
/// Their transcripts are mirrored into sessions of Segno within seconds, so that they are still
/// there when the programs delete them. It goes on until Ctrl-C; nothing is lost if it is killed.
/// Hooks (`segno hooks install`) make it quicker, and find programs that keep things elsewhere. When it
/// begins, sessions of Segno whose run was lost are kept and marked, as `segno recover` does.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Whose sessions; all if none is named
    agents: Vec<Agent>,
    /// Mirror what is there, and end
    #[arg(long)]
    once: bool,
    /// Print each as a line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// How often everything is looked at, whether or not anything rang.
const LOOK: Duration = Duration::from_secs(5);
/// The same where nothing can ring.
const GLANCE: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (world, _) = context.world(Keep::Home)?;
    let (home, _) = config::locations()?;
    let _guard = Guard::take(&home, context.clock.now())?;
    let made = LocalDisk.create_folder(&spool::folder(&home), Access::Private);
    made.map_err(|error| Failure::internal(format!("there is no place for notes: {error}")))?;
    // What a lost run left behind is kept before anybody changes it; `segno recover` tells what fails.
    if let Ok((lost, _)) = segno_engine::recover::lost(&world).await {
        let _ = super::recover::mark(&world, &lost, args.json).await;
    }
    let mut watcher = Watcher::new(args, world, home);
    if args.once {
        return watcher.round().await;
    }
    let places: Vec<String> = watcher
        .roots
        .iter()
        .map(|(_, root)| root.display().to_string())
        .collect();
    say(&format!(
        "watching {}; Ctrl-C ends it",
        plain::plain(&places.join(" and "))
    ));
    tokio::select! {
        () = watcher.watch() => {}
        () = asked() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns when someone wants it to end. What is under way is left as a kill would leave it.
async fn asked() {
    let streams = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = streams else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

struct Watcher {
    world: World,
    home: PathBuf,
    json: bool,
    roots: Vec<(Agent, PathBuf)>,
    queue: Queue,
    alarm: Alarm,
}

impl Watcher {
    fn new(args: &Args, world: World, home: PathBuf) -> Self {
        let agents = if args.agents.is_empty() {
            &Agent::ALL[..]
        } else {
            &args.agents
        };
        let roots = agents
            .iter()
            .filter_map(|agent| Some((*agent, agent.root()?)));
        Self {
            world,
            home,
            json: args.json,
            roots: roots.collect(),
            queue: Queue::default(),
            alarm: Alarm::new(),
        }
    }

    /// Everything once.
    async fn round(&mut self) -> Result<ExitCode, Failure> {
        self.look();
        self.notes(Which::All);
        let mut failed = None;
        while let Some(job) = self.queue.next(Duration::MAX) {
            let path = job.path.clone();
            if let Err(failure) = self.mirror(job).await {
                say(&told(&path, &failure));
                failed = Some(failure);
            }
        }
        failed.map_or(Ok(ExitCode::SUCCESS), Err)
    }

    /// Everything, until nobody reads what is said.
    async fn watch(&mut self) {
        self.notes(Which::All);
        let mut looked = None;
        loop {
            let every = if self.alarm.is_mute() { GLANCE } else { LOOK };
            let now = self.world.clock.elapsed();
            if looked.is_none_or(|looked| looked + every <= now) {
                self.look();
                looked = Some(now);
            }
            self.look_where_it_rang();
            let now = self.world.clock.elapsed();
            if let Some(job) = self.queue.next(now) {
                let path = job.path.clone();
                match self.mirror(job).await {
                    Ok(Read::Yes) => {}
                    Ok(Read::No) => return,
                    Err(failure) => {
                        let now = self.world.clock.elapsed();
                        if self.queue.failed(&path, &failure.to_string(), now) {
                            say(&told(&path, &failure));
                        }
                    }
                }
                // Signals are heard between two transcripts, however many wait.
                tokio::task::yield_now().await;
                continue;
            }
            let next = looked.unwrap_or_default() + every;
            let next = self.queue.due().map_or(next, |due| due.min(next));
            let wait = next.saturating_sub(now);
            tokio::select! {
                () = self.alarm.rings() => {}
                () = self.world.clock.sleep(wait) => {}
            }
        }
    }

    /// Looks at everything.
    fn look(&mut self) {
        let trees = self.listened();
        self.queue.begin();
        for ((agent, root), tree) in self.roots.iter().zip(&trees) {
            for folder in &tree.leaves {
                for transcript in in_folder(*agent, root, folder) {
                    self.queue.see(transcript);
                }
            }
        }
        self.queue.end();
    }

    /// All folders, once they are listened to: those that were made in between are, too.
    fn listened(&mut self) -> Vec<Tree> {
        let find = |roots: &[(Agent, PathBuf)]| -> Vec<Tree> {
            roots
                .iter()
                .map(|(agent, root)| tree(*agent, root))
                .collect()
        };
        let mut trees = find(&self.roots);
        loop {
            let above: Vec<PathBuf> = trees.iter().flat_map(|tree| tree.above.clone()).collect();
            let mut leaves: Vec<PathBuf> =
                trees.iter().flat_map(|tree| tree.leaves.clone()).collect();
            leaves.push(spool::folder(&self.home));
            self.alarm.listen(&above, &leaves);
            let again = find(&self.roots);
            if again == trees {
                return trees;
            }
            trees = again;
        }
    }

    fn look_where_it_rang(&mut self) {
        let folders = match self.alarm.places() {
            Where::Anywhere => {
                self.look();
                return self.notes(Which::New);
            }
            Where::Here(folders) => folders,
        };
        let mut new = false;
        for folder in folders {
            if folder == spool::folder(&self.home) {
                self.notes(Which::New);
                continue;
            }
            let mine = self.roots.iter().find(|(_, root)| folder.starts_with(root));
            let Some((agent, root)) = mine else {
                new = true;
                continue;
            };
            let found = in_folder(*agent, root, &folder);
            // Above those that transcripts are in, only new folders ring.
            new |= found.is_empty();
            found
                .into_iter()
                .for_each(|transcript| self.queue.see(transcript));
        }
        if new {
            self.look();
        }
    }

    fn notes(&mut self, which: Which) {
        let agents: Vec<Agent> = self.roots.iter().map(|(agent, _)| *agent).collect();
        let now = self.world.clock.now().0 / 1000;
        match spool::take(&self.home, &agents, which, now) {
            Ok(notes) => notes.into_iter().for_each(|note| self.queue.told(note)),
            Err(error) => say(&format!("note: the notes of hooks cannot be read: {error}")),
        }
    }

    /// Mirrors one, and says so.
    async fn mirror(&mut self, job: Job) -> Result<Read, Failure> {
        // Looked at before it is read: what is written meanwhile makes it look different again.
        let Some(mark) = Mark::of(job.agent, &job.path) else {
            job.note.into_iter().for_each(spool::Taken::done);
            return Ok(Read::Yes);
        };
        let begun = self.world.clock.elapsed();
        let request = Request {
            program: job.agent.program(),
            file: job.path.clone(),
            folder: None,
            own: None,
            effect: Effect::Keep,
            progress: Arc::new(|_, _| {}),
        };
        let adopted = adopt(&self.world, request).await?;
        self.queue
            .done(&job.path, mark, begun, self.world.clock.elapsed());
        job.note.into_iter().for_each(spool::Taken::done);
        Ok(self.report(job.agent, &job.path, &adopted))
    }

    fn report(&self, agent: Agent, path: &Path, adopted: &Adopted) -> Read {
        let outcome = match &adopted.outcome {
            Outcome::New => "new",
            Outcome::Updated => "updated",
            Outcome::Unchanged | Outcome::Empty => return Read::Yes,
            Outcome::Left(reason) => {
                let (native, reason) = (plain::plain(&adopted.native), plain::plain(reason));
                say(&format!("note: {native} was left as it is: {reason}"));
                return Read::Yes;
            }
        };
        let name = adopted.name.as_ref().map(ToString::to_string);
        let line = if self.json {
            let line = json!({
                "v": 1, "kind": "mirrored", "agent": agent.word(), "outcome": outcome,
                "session": adopted.session.to_string(), "name": name, "native": adopted.native,
                "file": path.display().to_string(),
                "entries": adopted.entries, "bytes": adopted.bytes,
                "damage": adopted.damage.len() as u64 + adopted.damage_unlisted,
            });
            json::harmless(&line.to_string())
        } else {
            let name = name.unwrap_or_else(|| adopted.session.to_string());
            let entries = plain::count(adopted.entries, "entry").replace("entrys", "entries");
            format!(
                "{outcome} {name} ({} {}): {entries}",
                agent.word(),
                plain::plain(&adopted.native)
            )
        };
        if printed(&line) { Read::Yes } else { Read::No }
    }
}

/// Whether anyone reads what is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Yes,
    No,
}

fn told(path: &Path, failure: &Failure) -> String {
    format!(
        "note: {}: {failure}",
        plain::plain(&path.display().to_string())
    )
}
