//! `segno agents watch`: mirrors the transcripts of CLI agents into sessions while they are written.
//!
//! File events and hook notifications only speed it up: a periodic scan finds every change.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::{Access, Disk};
use segno_core::sanitize::escape_json;
use segno_core::transcript::TranscriptSource;
use segno_engine::Env;
use segno_integrations::hooks::Agent;
use segno_integrations::hooks::spool::{self, ClaimMode};
use segno_integrations::transcripts::{
    Adopted, Effect, KnownConversations, Outcome, Request, adopt, programs,
};
use segno_integrations::watch::{
    Changes, FileEvents, Fingerprint, Job, Queue, Tree, WatchLock, transcripts_in, tree,
};
use segno_store::LocalDisk;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::doctor::recover::recover_all;
use crate::commands::run::NOTICE_LIMIT;
use crate::config;
use crate::context::{Context, Persistence, notices};
use crate::failure::Failure;
use crate::output::{stderr_line, text, try_stdout_line};

/// Mirror the conversations of Claude Code, Codex, Gemini and opencode while they run.
///
/// Their transcripts are copied into Segno sessions within seconds, so that they survive when the
/// agents delete them. Runs until Ctrl-C; nothing is lost if it is killed. Hooks (`segno
/// agents hooks install`) make it faster, and report agents that store their data elsewhere. At
/// start, recovers sessions whose run crashed, like `segno doctor --recover`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Agents to mirror [default: all]
    #[arg(value_name = "AGENT", value_parser = super::source_parser())]
    agents: Vec<TranscriptSource>,
    /// Mirror the current transcripts and exit
    #[arg(long)]
    once: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(super) json: bool,
}

/// Interval of full scans while file events work.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of full scans without file events.
const SCAN_INTERVAL_WITHOUT_EVENTS: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &Args, context: &Context) -> Result<ExitCode, Failure> {
    let (env, config) = context.env(Persistence::Home)?;
    let (home, _) = config::locations()?;
    let _lock = WatchLock::acquire(&home, context.clock.now())?;
    let made = LocalDisk.create_folder(&spool::folder(&home), Access::Private);
    made.map_err(|error| {
        Failure::internal(format!(
            "the folder for notifications cannot be created: {error}"
        ))
    })?;
    // Save what a crashed run left behind before anything changes it. `segno doctor --recover` reports the
    // errors that are ignored here.
    if let Ok((lost, _)) = segno_sessions::recover::find_lost(&env).await {
        let notices = notices(&env, &config);
        let _ = recover_all(&env, &notices, &lost, args.json).await;
        notices.finish(NOTICE_LIMIT).await;
    }
    let mut watcher = Watcher::new(args, env, home);
    if args.once {
        return watcher.mirror_once().await;
    }
    let places: Vec<String> = watcher
        .roots
        .iter()
        .map(|(_, root)| root.display().to_string())
        .collect();
    stderr_line(&format!(
        "watching {}; stop with Ctrl-C",
        text::sanitize(&places.join(", "))
    ));
    tokio::select! {
        () = watcher.watch() => {}
        () = stop_signal() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for a signal that ends the command. Unfinished work is left as a kill would leave it.
async fn stop_signal() {
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
    env: Env,
    home: PathBuf,
    json: bool,
    roots: Vec<(TranscriptSource, PathBuf)>,
    queue: Queue,
    events: FileEvents,
    /// The conversations of Segno's own sessions, as they were read last.
    known: Option<Arc<KnownConversations>>,
}

impl Watcher {
    fn new(args: &Args, env: Env, home: PathBuf) -> Self {
        let agents = if args.agents.is_empty() {
            TranscriptSource::ALL
        } else {
            &args.agents
        };
        let roots = agents
            .iter()
            .filter_map(|source| Some((*source, programs::root(*source)?)));
        Self {
            env,
            home,
            json: args.json,
            roots: roots.collect(),
            queue: Queue::default(),
            events: FileEvents::start(),
            known: None,
        }
    }

    /// Mirrors everything once.
    async fn mirror_once(&mut self) -> Result<ExitCode, Failure> {
        self.scan();
        self.claim_notifications(ClaimMode::All);
        let mut failed = None;
        while let Some(job) = self.queue.next(Duration::MAX) {
            let path = job.path.clone();
            if let Err(failure) = self.mirror(job).await {
                stderr_line(&failure_note(&path, &failure));
                failed = Some(failure);
            }
        }
        failed.map_or(Ok(ExitCode::SUCCESS), Err)
    }

    /// Mirrors changes until stdout is closed.
    async fn watch(&mut self) {
        self.claim_notifications(ClaimMode::All);
        let mut last_scan = None;
        loop {
            let every = if self.events.is_disabled() {
                SCAN_INTERVAL_WITHOUT_EVENTS
            } else {
                SCAN_INTERVAL
            };
            let now = self.env.clock.elapsed();
            if last_scan.is_none_or(|last_scan| last_scan + every <= now) {
                self.scan();
                last_scan = Some(now);
            }
            self.scan_changed_folders();
            let now = self.env.clock.elapsed();
            if let Some(job) = self.queue.next(now) {
                let path = job.path.clone();
                match self.mirror(job).await {
                    Ok(Reader::Open) => {}
                    Ok(Reader::Closed) => return,
                    Err(failure) => {
                        let now = self.env.clock.elapsed();
                        if self.queue.mark_failed(&path, &failure.to_string(), now) {
                            stderr_line(&failure_note(&path, &failure));
                        }
                    }
                }
                // Lets signals be handled between two transcripts, even if many are queued.
                tokio::task::yield_now().await;
                continue;
            }
            let next = last_scan.unwrap_or_default() + every;
            let next = self.queue.next_due().map_or(next, |due| due.min(next));
            let wait = next.saturating_sub(now);
            tokio::select! {
                () = self.events.wait() => {}
                () = self.env.clock.sleep(wait) => {}
            }
        }
    }

    /// Scans all folders.
    fn scan(&mut self) {
        let trees = self.subscribe();
        self.queue.begin_scan();
        for ((agent, root), tree) in self.roots.iter().zip(&trees) {
            for folder in &tree.leaves {
                for transcript in transcripts_in(*agent, root, folder) {
                    self.queue.observe(transcript);
                }
            }
        }
        self.queue.end_scan();
    }

    /// Returns all folders after subscribing to their events. Repeats until no new folder appeared
    /// in between.
    fn subscribe(&mut self) -> Vec<Tree> {
        let find = |roots: &[(TranscriptSource, PathBuf)]| -> Vec<Tree> {
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
            self.events.subscribe(&above, &leaves);
            let again = find(&self.roots);
            if again == trees {
                return trees;
            }
            trees = again;
        }
    }

    fn scan_changed_folders(&mut self) {
        let folders = match self.events.take_changes() {
            Changes::Anywhere => {
                self.scan();
                return self.claim_notifications(ClaimMode::New);
            }
            Changes::In(folders) => folders,
        };
        let mut new = false;
        for folder in folders {
            if folder == spool::folder(&self.home) {
                self.claim_notifications(ClaimMode::New);
                continue;
            }
            let mine = self.roots.iter().find(|(_, root)| folder.starts_with(root));
            let Some((agent, root)) = mine else {
                new = true;
                continue;
            };
            let found = transcripts_in(*agent, root, &folder);
            // In the folders above those with transcripts, only new folders cause events.
            new |= found.is_empty();
            found
                .into_iter()
                .for_each(|transcript| self.queue.observe(transcript));
        }
        if new {
            self.scan();
        }
    }

    fn claim_notifications(&mut self, mode: ClaimMode) {
        let sources = self.roots.iter().map(|(source, _)| *source);
        let agents: Vec<Agent> = sources.filter_map(Agent::of).collect();
        let now = self.env.clock.now().0 / 1000;
        match spool::claim(&self.home, &agents, mode, now) {
            Ok(notifications) => notifications
                .into_iter()
                .for_each(|notification| self.queue.push_notified(notification)),
            Err(error) => stderr_line(&format!(
                "note: the notifications of hooks cannot be read: {error}"
            )),
        }
    }

    /// The conversations of Segno's own sessions. They are read again for a transcript that began
    /// after they were read.
    async fn known(&mut self) -> Result<Arc<KnownConversations>, Failure> {
        if let Some(known) = &self.known {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(KnownConversations::collect(&self.env).await?);
        Ok(Arc::clone(self.known.insert(known)))
    }

    /// Mirrors one transcript and reports the result.
    async fn mirror(&mut self, job: Job) -> Result<Reader, Failure> {
        // The fingerprint is taken before the transcript is read, so that a concurrent write makes
        // it differ again.
        let Some(fingerprint) = Fingerprint::of(job.source, &job.path) else {
            job.notification
                .into_iter()
                .for_each(spool::Claimed::delete);
            return Ok(Reader::Open);
        };
        let begun = self.env.clock.elapsed();
        let request = Request {
            source: job.source,
            file: job.path.clone(),
            folder: None,
            known: Some(self.known().await?),
            effect: Effect::Apply,
            progress: Arc::new(|_, _| {}),
        };
        let adopted = adopt(&self.env, request).await?;
        self.queue
            .mark_mirrored(&job.path, fingerprint, begun, self.env.clock.elapsed());
        job.notification
            .into_iter()
            .for_each(spool::Claimed::delete);
        Ok(self.report(job.source, &job.path, &adopted))
    }

    fn report(&self, source: TranscriptSource, path: &Path, adopted: &Adopted) -> Reader {
        let outcome = match &adopted.outcome {
            Outcome::New => "new",
            Outcome::Updated => "updated",
            Outcome::Unchanged | Outcome::Empty => return Reader::Open,
            Outcome::Skipped(reason) => {
                let (native, reason) = (text::sanitize(&adopted.native), text::sanitize(reason));
                stderr_line(&format!("note: skipped {native}: {reason}"));
                return Reader::Open;
            }
        };
        let name = adopted.name.as_ref().map(ToString::to_string);
        let line = if self.json {
            let line = json!({
                "v": 1, "kind": "mirrored", "agent": programs::word(source), "outcome": outcome,
                "session": adopted.session.to_string(), "name": name, "conversation": adopted.native,
                "file": path.display().to_string(),
                "items": adopted.entries, "bytes": adopted.bytes,
                "damage": adopted.damage.len() as u64 + adopted.damage_unlisted,
            });
            escape_json(&line.to_string())
        } else {
            let name = name.unwrap_or_else(|| adopted.session.to_string());
            let entries = text::count(adopted.entries, "item");
            format!(
                "{outcome} {name} ({} {}): {entries}",
                programs::word(source),
                text::sanitize(&adopted.native)
            )
        };
        if try_stdout_line(&line) {
            Reader::Open
        } else {
            Reader::Closed
        }
    }
}

/// Whether stdout is still read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Open,
    Closed,
}

fn failure_note(path: &Path, failure: &Failure) -> String {
    format!(
        "note: {}: {failure}",
        text::sanitize(&path.display().to_string())
    )
}
