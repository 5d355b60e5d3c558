//! Shows others what running answers say before the journal has it.
//!
//! The observer [`Previews`] collects the complete lines of each running step. A task writes them to
//! the store, at most once in [`INTERVAL`], without secrets (P12). An event with the text of a step
//! replaces its preview. Nothing waits for a preview, and none is durable: if one cannot be written,
//! there are no more in this run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, Run, Seq, Suspension};
use segno_core::preview::{Preview, StepPreview, replaced_step};
use segno_core::step::Path;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::env::Env;
use crate::observe::Observer;

/// The time between two writes.
const INTERVAL: Duration = Duration::from_millis(50);

/// An observer that collects the text of running answers.
pub(crate) struct Previews {
    inner: Arc<dyn Observer>,
    collected: Mutex<Collected>,
    changed: Notify,
    /// Notified once, when the run ends.
    closed: Notify,
}

#[derive(Default)]
struct Collected {
    /// The newest event.
    seq: Seq,
    steps: BTreeMap<Path, Collecting>,
    is_changed: bool,
}

/// The text of one step since its newest event.
struct Collecting {
    attempt: u32,
    since: Seq,
    /// Complete lines, and the line that is being written.
    text: String,
    /// The length of the complete lines.
    complete: usize,
    /// Whether no more text is collected, because there is too much.
    is_full: bool,
}

impl Previews {
    /// Starts to collect and to write. The task ends with [`Previews::close`].
    pub(crate) fn start(
        env: &Env,
        session: SessionId,
        run: Run,
        inner: Arc<dyn Observer>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let previews = Arc::new(Self {
            inner,
            collected: Mutex::default(),
            changed: Notify::new(),
            closed: Notify::new(),
        });
        let task = publish(env.clone(), session, run, Arc::clone(&previews));
        (Arc::clone(&previews), tokio::spawn(task))
    }

    /// Removes what is shown, and ends the task.
    pub(crate) async fn close(&self, task: JoinHandle<()>) {
        self.closed.notify_one();
        let _ = task.await;
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What to show; `None` if nothing changed since the last call.
    fn take(&self) -> Option<Vec<(Path, u32, Seq, String)>> {
        let mut collected = self.lock();
        if !std::mem::take(&mut collected.is_changed) {
            return None;
        }
        let shown = collected.steps.iter().filter(|(_, step)| step.complete > 0);
        let shown = shown.map(|(path, step)| {
            let text = step.text[..step.complete].to_owned();
            (path.clone(), step.attempt, step.since, text)
        });
        Some(shown.take(Preview::MAX_STEPS).collect())
    }
}

/// Writes what is collected until the run ends.
async fn publish(env: Env, session: SessionId, run: Run, previews: Arc<Previews>) {
    // What a killed run left.
    let _ = env.store.remove_preview(session).await;
    let mut is_shown = false;
    loop {
        tokio::select! {
            () = previews.changed.notified() => {}
            () = previews.closed.notified() => break,
        }
        let Some(steps) = previews.take() else {
            continue;
        };
        let written = match (steps.is_empty(), is_shown) {
            (true, false) => continue,
            (true, true) => env.store.remove_preview(session).await,
            (false, _) => {
                let shown = to_preview(&env, run, steps);
                env.store.put_preview(session, shown).await
            }
        };
        is_shown = true;
        if written.is_err() {
            // The journal has the text later, whatever happens here.
            break;
        }
        tokio::select! {
            () = env.clock.sleep(INTERVAL) => {}
            () = previews.closed.notified() => break,
        }
    }
    if is_shown {
        let _ = env.store.remove_preview(session).await;
    }
}

/// Redacts the whole text, so that a secret of several lines is found in one piece.
fn to_preview(env: &Env, run: Run, steps: Vec<(Path, u32, Seq, String)>) -> Preview {
    let steps = steps
        .into_iter()
        .map(|(path, attempt, since, text)| StepPreview {
            path,
            attempt,
            since,
            text: env.redactor.redact(&text).into_owned(),
        });
    Preview {
        v: Preview::VERSION,
        run,
        steps: steps.collect(),
    }
}

impl Collected {
    fn add(&mut self, path: &Path, attempt: u32, piece: &str) {
        let since = self.seq;
        let new = || Collecting {
            attempt,
            since,
            text: String::new(),
            complete: 0,
            is_full: false,
        };
        let step = self.steps.entry(path.clone()).or_insert_with(new);
        if step.attempt != attempt {
            *step = new();
        }
        if step.is_full || step.text.len() + piece.len() > Preview::MAX_TEXT {
            step.is_full = true;
            return;
        }
        let start = step.text.len();
        step.text.push_str(piece);
        if let Some(end) = piece.rfind('\n') {
            step.complete = start + end + 1;
            self.is_changed = true;
        }
    }

    /// Drops what the event replaces.
    fn apply(&mut self, entry: &JournalEvent) {
        self.seq = entry.seq;
        if let Event::StepStarted(event) = &entry.event
            && let Some(step) = self.steps.get_mut(&event.path)
            && step.attempt == event.attempt
        {
            // A fast agent has said something before its start is shown here.
            step.since = entry.seq;
            self.is_changed |= step.complete > 0;
            return;
        }
        if let Some(path) = replaced_step(&entry.event) {
            self.is_changed |= self
                .steps
                .remove(path)
                .is_some_and(|step| step.complete > 0);
        }
    }
}

impl Observer for Previews {
    fn event(&self, session: SessionId, entry: &JournalEvent) {
        let mut collected = self.lock();
        collected.apply(entry);
        let is_changed = collected.is_changed;
        drop(collected);
        if is_changed {
            self.changed.notify_one();
        }
        self.inner.event(session, entry);
    }

    fn planned(&self, steps: usize) {
        self.inner.planned(steps);
    }

    fn skipped(&self, session: SessionId, path: &Path) {
        self.inner.skipped(session, path);
    }

    fn suspended(&self, session: SessionId, path: &Path, suspension: &Suspension) {
        self.inner.suspended(session, path, suspension);
    }

    fn text(&self, path: &Path, attempt: u32, piece: &str) {
        let mut collected = self.lock();
        collected.add(path, attempt, piece);
        let is_changed = collected.is_changed;
        drop(collected);
        if is_changed {
            self.changed.notify_one();
        }
        self.inner.text(path, attempt, piece);
    }

    fn notice(&self, message: &str) {
        self.inner.notice(message);
    }
}

#[cfg(test)]
mod tests {
    use segno_core::digest::Digest;
    use segno_core::journal::{StepPaused, StepStarted, Text};
    use segno_core::time::Timestamp;

    use super::*;

    fn path() -> Path {
        Path::root("steps").join(0)
    }

    fn journaled(seq: u64, event: impl Into<Event>) -> JournalEvent {
        JournalEvent {
            seq: Seq(seq),
            run: Run(1),
            at: Timestamp(0),
            event: event.into(),
            hash: Digest::of(b"h"),
        }
    }

    fn started(attempt: u32) -> StepStarted {
        StepStarted {
            path: path(),
            revision: 0,
            attempt,
            agent: "a".into(),
            input: Text::Inline(String::new()),
            input_digest: Digest::of(b"i"),
            resume_context: None,
        }
    }

    fn shown(collected: &Collected) -> Vec<(u64, &str)> {
        let steps = collected.steps.values();
        let steps = steps.map(|step| (step.since.0, &step.text[..step.complete]));
        steps.filter(|(_, text)| !text.is_empty()).collect()
    }

    #[test]
    fn complete_lines_are_shown_until_an_event_replaces_them() {
        let mut collected = Collected::default();
        collected.apply(&journaled(3, started(1)));
        collected.add(&path(), 1, "one\ntw");
        assert_eq!(shown(&collected), [(3, "one\n")]);
        collected.add(&path(), 1, "o\n");
        assert_eq!(shown(&collected), [(3, "one\ntwo\n")]);
        let paused = StepPaused {
            path: path(),
            revision: 0,
            attempt: 1,
        };
        collected.apply(&journaled(4, paused));
        assert_eq!(shown(&collected), []);
        collected.add(&path(), 2, "again\n");
        // The start of the attempt is shown after its first text.
        collected.apply(&journaled(5, started(2)));
        assert_eq!(shown(&collected), [(5, "again\n")]);
        // Another attempt begins anew.
        collected.apply(&journaled(6, started(3)));
        assert_eq!(shown(&collected), []);
    }

    #[test]
    fn too_much_text_is_not_collected() {
        let mut collected = Collected::default();
        let line = format!("{}\n", "x".repeat(999));
        (0..100).for_each(|_| collected.add(&path(), 1, &line));
        let whole = Preview::MAX_TEXT / 1000 * 1000;
        assert_eq!(shown(&collected)[0].1.len(), whole);
        collected.add(&path(), 1, "a\n");
        assert_eq!(shown(&collected)[0].1.len(), whole);
    }
}
