//! Shows a run while it is running: a live line on a terminal, plain lines elsewhere, or events as
//! JSON.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::id::{CheckpointId, SessionId};
use segno_core::journal::{
    Event, JournalEvent, LimitNeared, RunPurpose, StepOutcome, StopMode, Suspension,
};
use segno_core::ports::Clock;
use segno_core::resume::Strategy;
use segno_core::state::{RefusedTool, State, Stopped};
use segno_core::step::Path;
use segno_core::time::{self, Timestamp};
use segno_core::usage::Usage;
use segno_engine::{Observer, Outcome};
use segno_sessions::{json, refusals};

use super::text::{count, fit, number, sanitize};
use super::{agent_messages, is_live, json_line, live_line, note, stderr_line, timestamp};

/// How many columns of a value are shown.
const MAX_VALUE: usize = 60;

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
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
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
            inner: Mutex::default(),
        }
    }

    /// Redraws the live line until the future is dropped. Does nothing without a live line.
    pub(crate) async fn animate(self: Arc<Self>) {
        if self.style != Style::Live {
            return;
        }
        loop {
            self.draw();
            self.clock.sleep(Duration::from_millis(120)).await;
        }
    }

    /// The same, and never ends.
    pub(crate) async fn animate_forever(self: Arc<Self>) {
        self.animate().await;
        std::future::pending::<()>().await;
    }

    /// Prints the result of the run: its status, usage, and savings.
    pub(crate) fn finish(&self, outcome: &Outcome) {
        self.clear();
        if self.style == Style::Json {
            return json_line(&json::result(outcome));
        }
        let (state, saved) = (&outcome.state, &outcome.saved);
        let elapsed = time::format_duration(self.clock.elapsed().saturating_sub(self.begun));
        let done = match &state.chat {
            Some(chat) => count(chat.messages, "message"),
            None => count(state.finished, "step"),
        };
        let took = join(&[&done, &session_spent(state), &elapsed], ", ");
        self.line(&format!("{} {}: {took}", state.status, outcome.name));
        for refused in &state.refused_tools {
            self.line(&format!("refused: {}", refused_tool(refused)));
        }
        if outcome.run.0 > 1 && state.chat.is_none() {
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
        let mut inner = self.lock();
        if inner.drawn {
            live_line("");
            inner.drawn = false;
        }
    }

    fn draw(&self) {
        let mut inner = self.lock();
        inner.frame += 1;
        let frame = FRAMES[inner.frame % FRAMES.len()];
        let of = inner
            .planned
            .map_or(String::new(), |planned| format!("/{planned}"));
        let elapsed = time::format_duration(self.clock.elapsed().saturating_sub(self.begun));
        let mut line = format!("{frame} {}{of} steps", inner.done + inner.skipped);
        if let Some((step, since)) = &inner.current {
            let so_far = self.clock.now().since(*since).as_secs();
            line = format!("{line} · {step} {so_far}s");
        }
        line = join(&[&line, &spent(&inner.usage), &elapsed], " · ");
        live_line(&line);
        inner.drawn = true;
    }

    fn line(&self, line: &str) {
        self.clear();
        stderr_line(&sanitize(line));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Progress {
    fn event(&self, session: SessionId, entry: &JournalEvent) {
        if self.style == Style::Json {
            return json_line(&json::entry(session, entry));
        }
        {
            let mut inner = self.lock();
            match &entry.event {
                Event::StepStarted(event) => {
                    inner.current = Some((format!("{} {}", event.path, event.agent), entry.at));
                }
                Event::StepFinished(event) => {
                    inner.done += 1;
                    inner.usage += event.usage;
                    inner.current = None;
                }
                Event::StepFailed(event) => {
                    inner.usage += event.usage;
                    if let Some(suspension) = &event.suspended {
                        inner.current = Some(suspended_step(&event.path, suspension, entry.at));
                    }
                }
                Event::ModelReplied(event) => inner.usage += event.usage,
                Event::AgentMessages(event) => inner.usage += event.usage,
                Event::ConversationCompacted(event) => inner.usage += event.usage,
                _ => {}
            }
        }
        let line = match &entry.event {
            Event::SessionCreated(event) => Some(format!("session {} ({session})", event.name)),
            // The live line shows the current step.
            Event::StepStarted(_) if self.style == Style::Live => None,
            // These are shown once, at the end or as a note.
            Event::RunEnded(_)
            | Event::StopRequested(_)
            | Event::ArtifactWritten(_)
            | Event::RunStarted(_)
            | Event::SpecChanged(_) => None,
            _ => Some(describe(entry)),
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
            json_line(&json::skipped(session, path));
        }
    }

    fn suspended(&self, session: SessionId, path: &Path, suspension: &Suspension) {
        self.lock().current = Some(suspended_step(path, suspension, self.clock.now()));
        if self.style == Style::Json {
            json_line(&json::suspended_step(session, path, suspension));
        } else {
            self.line(&format!("  … {path} {}", timestamp::suspended(suspension)));
        }
    }

    fn notice(&self, message: &str) {
        if self.style == Style::Json {
            json_line(&json::notice(message));
        } else {
            self.line(&format!("note: {message}"));
        }
    }
}

/// The text of the live line for a suspended step.
fn suspended_step(path: &Path, suspension: &Suspension, since: Timestamp) -> (String, Timestamp) {
    (
        format!("{path} {}", timestamp::suspended(suspension)),
        since,
    )
}

/// Describes a journal event in one line.
pub(crate) fn describe(entry: &JournalEvent) -> String {
    match &entry.event {
        Event::SessionCreated(event) => format!("session {} from {}", event.name, event.spec_path),
        Event::SessionForked(event) => format!(
            "forked from {} ({}), up to event {}{}",
            event.from_name,
            event.from,
            event.seq,
            fork_point(event.before.as_ref(), event.checkpoint)
        ),
        Event::SessionMoved(event) => format!("moved to {}", event.workspace),
        Event::SpecChanged(event) => {
            let steps: Vec<&str> = event.steps.iter().map(Path::as_str).collect();
            let what = if steps.is_empty() {
                "no step".into()
            } else {
                steps.join(", ")
            };
            format!("the spec was edited; it changes {what}")
        }
        Event::RunStarted(event) => match event.purpose {
            RunPurpose::Work => format!("started on {} (process {})", event.host, event.pid),
            RunPurpose::Bookkeeping => {
                format!("recorded by process {} on {}", event.pid, event.host)
            }
        },
        Event::StepStarted(event) => {
            let attempt = match event.attempt {
                1 => String::new(),
                attempt => format!(" (attempt {attempt})"),
            };
            let context = match event.resume_context {
                Some(_) => ", with the resume context",
                None => "",
            };
            format!("  … {} {}{attempt}{context}", event.path, event.agent)
        }
        Event::StepFinished(event) => {
            let took = time::format_duration(Duration::from_millis(event.elapsed_ms));
            join(
                &[&format!("  ✓ {} {took}", event.path), &spent(&event.usage)],
                " · ",
            )
        }
        Event::StepFailed(event) => {
            let again = event.retry_in_ms.map(Duration::from_millis);
            let then = match (&event.suspended, again) {
                (Some(suspension), _) => timestamp::suspended(suspension),
                (None, Some(wait)) => format!("retry in {}", time::format_duration(wait)),
                (None, None) => "gives up".into(),
            };
            format!(
                "  ✗ {} attempt {}: {} ({}); {then}",
                event.path, event.attempt, event.error.message, event.error.kind
            )
        }
        Event::StepUnknown(event) => format!(
            "  ? {} was in flight and its outcome is unknown",
            event.path
        ),
        Event::StepResolved(event) => {
            let (path, by) = (&event.path, &event.by);
            match event.outcome {
                StepOutcome::Done => format!("  ! {path} took effect, says {by}"),
                StepOutcome::Failed => format!("  ! {path} did not take effect, says {by}"),
            }
        }
        Event::StepDiscarded(event) => format!(
            "  ↺ {} runs again, because its question changed",
            event.path
        ),
        Event::ModelReplied(event) => join(
            &[
                &format!("    {} turn {}", event.path, event.turn),
                &spent(&event.usage),
            ],
            " · ",
        ),
        Event::ConversationCompacted(event) => join(
            &[
                &format!("    {} compacted {} messages", event.path, event.messages),
                &spent(&event.usage),
            ],
            " · ",
        ),
        Event::ToolStarted(event) => format!("    {} runs {}", event.path, event.tool),
        Event::ToolFinished(event) => {
            let how = if event.is_error { "failed" } else { "is done" };
            format!("    {} {} {how}", event.path, event.tool)
        }
        Event::ConversationOpened(event) => {
            let conversation = format!("{} conversation {}", event.program, event.native_id);
            match event.strategy {
                None => format!("    {} starts {conversation}", event.path),
                Some(strategy @ (Strategy::Summarized | Strategy::Handoff)) => {
                    format!(
                        "    {} continues in a new {conversation} ({strategy})",
                        event.path
                    )
                }
                Some(strategy) => {
                    format!("    {} continues {conversation} ({strategy})", event.path)
                }
            }
        }
        Event::AgentMessages(event) => {
            format!("    {} {}", event.path, agent_messages::summarize(event))
        }
        Event::ToolRefused(event) => {
            let (path, tool, reason) = (&event.path, &event.tool, event.reason.as_str());
            let reason = reason.replace('_', " ");
            format!("    {path} is refused the tool {tool} ({reason})")
        }
        Event::TranscriptImported(event) => format!(
            "    {} imported {} bytes of {} conversation {} from {}",
            event.path,
            number(event.bytes),
            event.program,
            event.native_id,
            event.file
        ),
        Event::StepPaused(event) => format!("  ‖ {} stopped between two turns", event.path),
        Event::QuestionAsked(event) => format!("  ? {} asks: {}", event.path, event.prompt),
        Event::QuestionAnswered(event) => format!(
            "  ✓ {} answered by {}: {}",
            event.path,
            event.by,
            json::text(&event.answer)
        ),
        Event::LimitNeared(event) => limit_line(event),
        Event::ArtifactWritten(event) => {
            format!("  wrote {} ({} bytes)", event.path, number(event.bytes))
        }
        Event::NotesWritten(event) => {
            let said: Vec<String> = event
                .notes
                .iter()
                .map(|written| note::line(&written.note))
                .collect();
            format!(
                "  ✎ {} ({}) notes {}",
                event.by,
                event.source,
                said.join("; ")
            )
        }
        Event::RunLost(_) => "the run crashed".to_owned(),
        Event::RunRequested(event) => {
            let why = event.evidence.as_deref().unwrap_or_default();
            let asked = format!("waits for a worker, requested by {}", event.by);
            join(&[&asked, why], ": ")
        }
        Event::RunWithdrawn(event) => match &event.error {
            None => format!("{} withdraws the requested run", event.by),
            Some(error) => format!(
                "the requested run could not start: {} ({})",
                error.message, error.kind
            ),
        },
        Event::ResumeContextEdited(event) => format!("  ✎ {} edits the resume context", event.by),
        Event::NoteWithdrawn(event) => {
            let note = format!("  ✎ {} withdraws {}", event.by, event.note);
            join(&[&note, event.reason.as_deref().unwrap_or_default()], ": ")
        }
        Event::AgentStateChanged(event) => {
            let (key, agent) = (&event.key, &event.agent);
            match &event.value {
                Some(value) => {
                    let value = value.to_string();
                    let value = fit(&value, MAX_VALUE);
                    format!("  ✎ {} sets {key} of {agent} to {value}", event.by)
                }
                None => format!("  ✎ {} deletes {key} of {agent}", event.by),
            }
        }
        Event::WorkspaceStatusRecorded(event) => format!(
            "the workspace is on {} with {}",
            event.branch.as_deref().unwrap_or("no branch"),
            count(event.changed, "changed file")
        ),
        Event::StopRequested(event) => {
            let when = if event.mode == StopMode::Now {
                "immediately"
            } else {
                "after the step"
            };
            let reason = event.reason.as_deref();
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            format!("stopped {when} by {}{reason}", event.by)
        }
        Event::ChatOpened(event) => format!("chat with {}", event.agent),
        Event::ExchangeEnded(event) => format!(
            "  {} ended ({}) after {} and {}",
            event.path,
            event.ending,
            count(event.replies, "turn"),
            count(event.tool_calls, "tool call")
        ),
        Event::ChatCleared(event) => {
            format!("conversation cleared by {}", event.by)
        }
        Event::RunEnded(event) => match &event.error {
            Some(error) => format!("{}: {}", event.status, error.message),
            None => event.status.to_string(),
        },
    }
}

/// Describes who stopped a run, and why.
pub(crate) fn stopped(stopped: &Stopped) -> String {
    let reason = stopped.reason.as_deref();
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    format!("{} by {}{reason}", stopped.at, stopped.by)
}

/// Describes where a session was cut when it was forked.
pub(crate) fn fork_point(before: Option<&Path>, checkpoint: Option<CheckpointId>) -> String {
    match (before, checkpoint) {
        (Some(step), _) => format!(", before {step}"),
        (None, Some(checkpoint)) => format!(", at checkpoint {checkpoint}"),
        (None, None) => String::new(),
    }
}

/// Describes how much of a limit is used.
fn limit_line(event: &LimitNeared) -> String {
    let share = event.used.saturating_mul(100) / event.of.max(1);
    let (what, used) = (event.limit.name(), event.limit.amount(event.used));
    let of = event.limit.amount(event.of);
    format!("note: {share} % of `{what}` is used ({used} of {of})")
}

/// Describes what a resume saved.
pub(crate) fn saved_line(steps: u64, finished: u64, usage: &Usage) -> String {
    let done = format!(
        "resumed: {} of {} steps were already done and not run again",
        number(steps),
        number(finished)
    );
    match spent(usage).as_str() {
        "" => done,
        spent => format!("{done}; saved {spent}"),
    }
}

/// Renders tokens and cost. Empty if neither is known.
pub(crate) fn spent(usage: &Usage) -> String {
    let tokens = if usage.tokens() == 0 {
        String::new()
    } else {
        count(usage.tokens(), "token")
    };
    let cost = if usage.cost.0 == 0 {
        String::new()
    } else {
        usage.cost.to_string()
    };
    join(&[&tokens, &cost], ", ")
}

/// The same for all of what an agent, a step or a checkpoint used. If only the cost is known, the
/// tokens are estimated.
pub(crate) fn total_spent(usage: &Usage) -> String {
    spent_with(usage, usage.estimated_tokens())
}

/// The same for a session.
pub(crate) fn session_spent(state: &State) -> String {
    spent_with(&state.usage, state.estimated_tokens())
}

fn spent_with(usage: &Usage, estimated: Option<u64>) -> String {
    let Some(estimated) = estimated else {
        return spent(usage);
    };
    let tokens = count(usage.tokens().saturating_add(estimated), "token");
    format!("about {tokens} (estimated), {}", usage.cost)
}

/// Describes a tool that an agent was refused, and what allows it.
pub(crate) fn refused_tool(refused: &RefusedTool) -> String {
    let RefusedTool { agent, tool, .. } = refused;
    let times = count(refused.count, "time");
    format!(
        "{agent} may not use {tool} ({times}); {}",
        refusals::advice(refused)
    )
}

/// Joins the parts that are not empty.
fn join(parts: &[&str], between: &str) -> String {
    parts
        .iter()
        .filter(|part| !part.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(between)
}
