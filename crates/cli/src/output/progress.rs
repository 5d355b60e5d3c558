//! A run, as it is watched: a live line on a terminal, plain lines elsewhere, or events as JSON.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::{Entry, Event, StopMode};
use segno_core::ports::Clock;
use segno_core::session::Status;
use segno_core::step::Path;
use segno_core::time::{self, Timestamp};
use segno_core::usage::Usage;
use segno_engine::{Observer, Outcome};

use super::plain::{count, number, plain};
use super::{data, is_live, json, passing, say};

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Live,
    Lines,
    Json,
}

pub(crate) struct Progress {
    style: Style,
    clock: Arc<dyn Clock>,
    begun: Duration,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    planned: Option<usize>,
    done: u64,
    usage: Usage,
    current: Option<(String, Timestamp)>,
    skipped: u64,
    drawn: bool,
    frame: usize,
}

const FRAMES: &[&str] = &["⠋", "⠙", "⠸", "⠴", "⠦", "⠇"];

impl Progress {
    pub(crate) fn new(json: bool, clock: Arc<dyn Clock>) -> Self {
        let style = match (json, is_live()) {
            (true, _) => Style::Json,
            (false, true) => Style::Live,
            (false, false) => Style::Lines,
        };
        Self {
            style,
            begun: clock.elapsed(),
            clock,
            inside: Mutex::default(),
        }
    }

    /// Redraws the live line until it is dropped. Does nothing where there is none.
    pub(crate) async fn animate(self: Arc<Self>) {
        if self.style != Style::Live {
            return;
        }
        loop {
            self.draw();
            self.clock.sleep(Duration::from_millis(120)).await;
        }
    }

    /// Says how the run went: where it stands, what it took, and what was saved.
    pub(crate) fn finish(&self, outcome: &Outcome) {
        self.clear();
        if self.style == Style::Json {
            return data(&json::result(outcome).to_string());
        }
        let (state, saved) = (&outcome.state, &outcome.saved);
        let elapsed = time::human(self.clock.elapsed().saturating_sub(self.begun));
        self.line(&format!(
            "{} {}: {}, {}, {elapsed}",
            state.status,
            outcome.name,
            count(state.finished, "step"),
            spent(&state.usage),
        ));
        if outcome.run.0 > 1 {
            self.line(&saved_line(saved.steps, state.finished, &saved.usage));
        }
        for artifact in state.artifacts.keys() {
            let folder = state
                .created
                .as_ref()
                .map_or("", |created| created.out.as_str());
            self.line(&format!(
                "wrote {}",
                std::path::Path::new(folder).join(artifact).display()
            ));
        }
    }

    /// Clears the live line, so that something else can be written.
    pub(crate) fn clear(&self) {
        let mut inside = self.lock();
        if inside.drawn {
            passing("");
            inside.drawn = false;
        }
    }

    fn draw(&self) {
        let mut inside = self.lock();
        inside.frame += 1;
        let frame = FRAMES[inside.frame % FRAMES.len()];
        let of = inside
            .planned
            .map_or(String::new(), |planned| format!("/{planned}"));
        let elapsed = time::human(self.clock.elapsed().saturating_sub(self.begun));
        let mut line = format!("{frame} {}{of} steps", inside.done + inside.skipped);
        if let Some((step, since)) = &inside.current {
            let so_far = self.clock.now().since(*since).as_secs();
            line = format!("{line} · {step} {so_far}s");
        }
        line = format!("{line} · {} · {elapsed}", spent(&inside.usage));
        passing(&line);
        inside.drawn = true;
    }

    fn line(&self, line: &str) {
        self.clear();
        say(&plain(line));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Progress {
    fn entry(&self, session: SessionId, entry: &Entry) {
        if self.style == Style::Json {
            return data(&json::entry(session, entry).to_string());
        }
        {
            let mut inside = self.lock();
            match &entry.event {
                Event::StepStarted(event) => {
                    inside.current = Some((format!("{} {}", event.path, event.agent), entry.at));
                }
                Event::StepFinished(event) => {
                    inside.done += 1;
                    inside.usage += event.usage;
                    inside.current = None;
                }
                Event::StepFailed(event) => inside.usage += event.usage,
                _ => {}
            }
        }
        let line = match &entry.event {
            Event::SessionCreated(event) => Some(format!("session {} ({session})", event.name)),
            // The live line says what is being done.
            Event::StepStarted(_) if self.style == Style::Live => None,
            _ => describe(entry),
        };
        if let Some(line) = line {
            self.line(&line);
        }
    }

    fn planned(&self, steps: usize) {
        self.lock().planned = Some(steps);
    }

    fn skipped(&self, session: SessionId, path: &Path) {
        self.lock().skipped += 1;
        if self.style == Style::Json {
            data(&json::skipped(session, path).to_string());
        }
    }

    fn notice(&self, message: &str) {
        if self.style == Style::Json {
            data(&json::notice(message).to_string());
        } else {
            self.line(&format!("note: {message}"));
        }
    }
}

/// An entry as a line for people; entries that say nothing new have none.
pub(crate) fn describe(entry: &Entry) -> Option<String> {
    Some(match &entry.event {
        Event::SessionCreated(event) => format!("session {} from {}", event.name, event.spec_path),
        Event::SpecChanged(event) => {
            let steps: Vec<&str> = event.steps.iter().map(Path::as_str).collect();
            format!(
                "the spec was edited; it changes {}",
                if steps.is_empty() {
                    "no step".into()
                } else {
                    steps.join(", ")
                }
            )
        }
        Event::RunStarted(event) if entry.run.0 > 1 => format!(
            "run {} on {} (process {})",
            entry.run, event.host, event.pid
        ),
        Event::RunStarted(_) => return None,
        Event::StepStarted(event) if event.attempt > 1 => format!(
            "  … {} {} (attempt {})",
            event.path, event.agent, event.attempt
        ),
        Event::StepStarted(event) => format!("  … {} {}", event.path, event.agent),
        Event::StepFinished(event) => format!(
            "  ✓ {} {} · {}",
            event.path,
            time::human(Duration::from_millis(event.elapsed_ms)),
            spent(&event.usage)
        ),
        Event::StepFailed(event) => {
            let then = event.retry_in_ms.map_or("gives up".into(), |wait| {
                format!("again in {}", time::human(Duration::from_millis(wait)))
            });
            format!(
                "  ✗ {} attempt {}: {} ({}); {then}",
                event.path, event.attempt, event.error.message, event.error.kind
            )
        }
        Event::StepUnknown(event) => format!(
            "  ? {} was in flight and its outcome is unknown",
            event.path
        ),
        Event::StepDiscarded(event) => format!(
            "  ↺ {} is run again, because its question changed",
            event.path
        ),
        Event::ArtifactWritten(event) => {
            format!("  wrote {} ({} bytes)", event.path, number(event.bytes))
        }
        Event::StopRequested(event) => {
            let when = if event.mode == StopMode::Now {
                "at once"
            } else {
                "after the step"
            };
            format!("stopped {when}, as asked by {}", event.by)
        }
        Event::RunEnded(event) if event.status == Status::Completed => return None,
        Event::RunEnded(event) => match &event.error {
            Some(error) => format!("{}: {}", event.status, error.message),
            None => event.status.to_string(),
        },
    })
}

/// What a resume saved.
pub(crate) fn saved_line(steps: u64, finished: u64, usage: &Usage) -> String {
    format!(
        "resumed: {steps} of {} were already done and not run again; saved {}",
        count(finished, "step"),
        spent(usage)
    )
}

/// Tokens, and money where there is any.
pub(crate) fn spent(usage: &Usage) -> String {
    let tokens = count(usage.tokens(), "token");
    if usage.cost.0 == 0 {
        tokens
    } else {
        format!("{tokens}, {}", usage.cost)
    }
}
