//! Receives the events of a CLI agent and writes them to the journal.
//!
//! [`AgentListener`] gets events from the driver and must not block. It queues what must be
//! durable, and the driver waits while the queue is full; a task ([`EventWriter`]) journals it. The listener also watches the context usage and
//! the number of replies, and signals when the run should stop the program between two tool calls.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use segno_core::agent::{Event as AgentEvent, Listener, RefusalReason};
use segno_core::conversation::{AssistantPart, ConversationItem, ItemContent, Thread};
use segno_core::journal::{AgentMessages, ConversationOpened, ToolRefused};
use segno_core::ports::Boxed;
use segno_core::step::Path;
use segno_core::usage::{ContextLimits, ContextUsage, Price, RunReport, Usage};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::interrupted_usage::{CountedMessages, count_message};
use super::step::{Step, priced};
use super::{Runner, event_queue};
use crate::env::Env;
use crate::journal::{self, Writer};
use crate::note_rules::StepNotes;
use crate::observe::Observer;
use crate::resume::context::message::Cause;
use crate::steps::chat::Tally;

/// How many bytes of this run's conversation stay in memory.
const MAX_RECENT_BYTES: usize = 8 << 20;

/// The newest conversation entries of a step in this run.
#[derive(Clone, Default)]
pub(super) struct RecentConversation(Arc<Mutex<Recent>>);

#[derive(Default)]
struct Recent {
    entries: VecDeque<(usize, ConversationItem)>,
    bytes: usize,
    /// Why the newest conversation was interrupted, if that happened in this run.
    cause: Option<Cause>,
    /// The messages since the agent's newest report, with the usage that was counted.
    unreported: CountedMessages,
}

impl RecentConversation {
    /// Records why a conversation was interrupted.
    pub(super) fn set_interruption(&self, cause: Cause) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.cause = Some(cause);
    }

    /// Why the newest conversation was interrupted, if that happened in this run.
    pub(super) fn interruption(&self) -> Option<Cause> {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.cause.clone()
    }

    /// The newest entries, oldest first.
    pub(super) fn newest(&self) -> Vec<ConversationItem> {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest
            .entries
            .iter()
            .map(|(_, entry)| entry.clone())
            .collect()
    }

    /// The messages since the agent's newest report in this run, with the usage that was counted.
    pub(super) fn unreported(&self) -> CountedMessages {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.unreported.clone()
    }

    /// Records that the usage of all messages so far is final.
    pub(super) fn set_reported(&self) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.unreported.clear();
    }

    /// Adds entries whose stored form takes this many bytes together.
    fn add(&self, bytes: usize, entries: Vec<ConversationItem>) {
        let each = bytes / entries.len().max(1);
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            count_message(&mut newest.unreported, &entry);
            newest.entries.push_back((each, entry));
            newest.bytes += each;
        }
        while newest.bytes > MAX_RECENT_BYTES
            && let Some((bytes, _)) = newest.entries.pop_front()
        {
            newest.bytes -= bytes;
        }
    }
}

/// An event that the writer task handles.
enum Report {
    Named(String),
    Said(ConversationItem),
    Usage(Usage),
    Context(ContextUsage),
    Run(RunReport),
    Refused(String, RefusalReason),
}

/// Receives the events of a program and queues those that belong into the journal.
pub(super) struct AgentListener {
    queue: event_queue::Sender<Report>,
    observer: Arc<dyn Observer>,
    path: Path,
    attempt: u32,
    context_watch: Mutex<ContextWatch>,
    context_limits: ContextLimits,
    /// Notified when the context is nearly full while the program waits for its model.
    full: Notify,
    /// How often the model may reply.
    max_turns: Option<u32>,
    /// Notified when it has replied that often and no tool call is open.
    limited: Notify,
}

/// How full a context is, and whether the program can be stopped now.
#[derive(Default)]
struct ContextWatch {
    percent: u64,
    warned: bool,
    /// Calls of the main thread that have no result.
    open: BTreeSet<String>,
    /// Whether the newest entry is the result of the last open call: the program is about to call
    /// its model again.
    awaits_model: bool,
    /// How often the model replied.
    tally: Tally,
    /// The last text that the agent addressed to the user, before the limit of replies.
    last_text: String,
    /// Whether the model has replied as often as it may. The program may say more until it is
    /// stopped; that is not part of the answer.
    is_limited: bool,
}

impl AgentListener {
    /// Returns when the context is nearly full and nothing is in flight: the percentage in use.
    pub(super) async fn wait_context_full(&self) -> u64 {
        loop {
            self.full.notified().await;
            // More events may have arrived since: the program may have compacted its context, or
            // started the next call.
            let watch = self.context_watch();
            if watch.percent >= self.context_limits.full && watch.open.is_empty() {
                return watch.percent;
            }
        }
    }

    /// Returns when the model has replied as often as it may and wants to continue: its last text.
    pub(super) async fn wait_turn_limit(&self) -> String {
        self.limited.notified().await;
        std::mem::take(&mut self.context_watch().last_text)
    }

    fn context_watch(&self) -> MutexGuard<'_, ContextWatch> {
        self.context_watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set_context_usage(&self, usage: ContextUsage) {
        let mut watch = self.context_watch();
        watch.percent = usage.percent().unwrap_or_default();
        if watch.percent >= self.context_limits.warning && !watch.warned {
            watch.warned = true;
            self.observer.notice(&format!(
                "step {}: {} % of the agent's context is used",
                self.path, watch.percent
            ));
        }
        // A program may report what an answer used after it has run the answer's tool calls.
        if watch.awaits_model && watch.percent >= self.context_limits.full {
            self.full.notify_one();
        }
    }

    /// Tracks which calls are open. The program can be stopped when the last open call has its
    /// result: it is about to call its model again.
    fn track_calls(&self, entry: &ConversationItem) {
        if entry.thread != Thread::Main {
            return;
        }
        let mut watch = self.context_watch();
        watch.tally.add(entry);
        if let (Some(text), false) = (user_texts(entry).last(), watch.is_limited) {
            text.clone_into(&mut watch.last_text);
        }
        match &entry.content {
            ItemContent::Assistant { parts, .. } => {
                watch.open.extend(calls(parts));
                watch.awaits_model = false;
            }
            ItemContent::Result(answer) => {
                let was_open = watch.open.remove(&answer.id);
                let idle = was_open && watch.open.is_empty();
                watch.awaits_model |= idle;
                if idle && watch.percent >= self.context_limits.full {
                    self.full.notify_one();
                }
                let max = self.max_turns.map(u64::from);
                if idle && max.is_some_and(|max| watch.tally.replies >= max) {
                    watch.is_limited = true;
                    self.limited.notify_one();
                }
            }
            _ => {}
        }
    }
}

/// The texts that the agent addresses to the user.
fn user_texts(entry: &ConversationItem) -> impl Iterator<Item = &str> {
    let parts = match &entry.content {
        ItemContent::Assistant { parts, .. } if entry.thread == Thread::Main => parts.as_slice(),
        _ => &[],
    };
    parts.iter().filter_map(|part| match part {
        AssistantPart::Text { text } => Some(text.as_str()),
        _ => None,
    })
}

fn calls(parts: &[AssistantPart]) -> impl Iterator<Item = String> {
    parts.iter().filter_map(|part| match part {
        AssistantPart::Call(call) => Some(call.id.clone()),
        _ => None,
    })
}

impl Listener for AgentListener {
    fn on_event(&self, event: AgentEvent<'_>) {
        match &event {
            AgentEvent::Context(usage) => self.set_context_usage(*usage),
            AgentEvent::Item(entry) => {
                self.track_calls(entry);
                let (path, attempt) = (&self.path, self.attempt);
                let show = |text: &str| self.observer.text(path, attempt, &format!("{text}\n"));
                user_texts(entry).for_each(show);
            }
            _ => {}
        }
        let report = match event {
            // The complete text arrives as an entry, too.
            AgentEvent::Text(_) => return,
            AgentEvent::Notice(text) => {
                self.observer.notice(&format!("step {}: {text}", self.path));
                return;
            }
            AgentEvent::ConversationId(id) => Report::Named(id.to_owned()),
            AgentEvent::Item(entry) => Report::Said(entry.clone()),
            AgentEvent::Usage(usage) => Report::Usage(usage),
            AgentEvent::Context(usage) => Report::Context(usage),
            AgentEvent::Report(report) => Report::Run(report),
            AgentEvent::Refused(refusal) => {
                Report::Refused(refusal.tool.to_owned(), refusal.reason)
            }
        };
        self.queue.push(report);
    }

    fn ready(&self) -> Boxed<'_, ()> {
        Box::pin(self.queue.room())
    }
}

/// What the journal has of a program's events after the program ended.
#[derive(Default)]
pub(super) struct Written {
    /// How many conversation entries.
    pub(super) entries: u64,
    /// The usage that is in the journal.
    pub(super) usage: Usage,
    /// The usage that the program reported in total.
    pub(super) reported: Usage,
}

impl Runner {
    /// Listens to a program. The task ends when the listener is dropped and all events are in the
    /// journal.
    pub(super) fn listen(
        &self,
        open: ConversationOpened,
        step: &Step<'_>,
        recent: &RecentConversation,
    ) -> (AgentListener, JoinHandle<Written>) {
        let (queue, reports) = event_queue::channel();
        let listener = AgentListener {
            queue,
            observer: Arc::clone(&self.observer),
            path: step.path.clone(),
            attempt: open.attempt,
            context_watch: Mutex::default(),
            context_limits: self.policy.context_limits,
            full: Notify::new(),
            max_turns: self.exchange.as_ref().map(|exchange| exchange.max_turns),
            limited: Notify::new(),
        };
        let writer = EventWriter {
            env: self.env.clone(),
            journal: self.journal.clone(),
            open,
            price: step.price,
            recent: recent.clone(),
            step_notes: StepNotes::new(&self.journal.handoff(), step.executed_by, &step.path),
            written: Written::default(),
        };
        (listener, tokio::spawn(writer.run(reports)))
    }
}

/// The task that journals the queued events.
struct EventWriter {
    env: Env,
    journal: Writer,
    open: ConversationOpened,
    price: Option<Price>,
    recent: RecentConversation,
    step_notes: StepNotes,
    written: Written,
}

impl EventWriter {
    async fn run(mut self, mut reports: event_queue::Receiver<Report>) -> Written {
        while let Some(received) = reports.take_all().await {
            let (mut entries, mut context, mut run) = (Vec::new(), None, None::<RunReport>);
            let mut refusals = Vec::new();
            for report in received {
                match report {
                    Report::Named(id) if id == self.open.native_id => {}
                    Report::Named(id) => {
                        self.open.native_id = id;
                        self.journal.enqueue(self.open.clone()).await;
                    }
                    Report::Said(entry) => entries.push(entry),
                    Report::Usage(usage) => self.written.reported = priced(self.price, usage),
                    Report::Context(usage) => context = Some(usage),
                    Report::Run(report) => {
                        run = Some(run.unwrap_or_default().followed_by(report));
                    }
                    Report::Refused(tool, reason) => refusals.push((tool, reason)),
                }
            }
            if !entries.is_empty() || context.is_some() || run.is_some() {
                self.write(entries, context, run).await;
            }
            for (tool, reason) in refusals {
                let refused = ToolRefused {
                    path: self.open.path.clone(),
                    revision: self.open.revision,
                    attempt: self.open.attempt,
                    tool: self.env.redactor.redact(&tool).into_owned(),
                    reason,
                    program: Some(self.open.program),
                };
                self.journal.enqueue(refused).await;
            }
        }
        self.written
    }

    async fn write(
        &mut self,
        entries: Vec<ConversationItem>,
        context: Option<ContextUsage>,
        report: Option<RunReport>,
    ) {
        // If the blob store refuses the write, the journal refuses too, and reports the error.
        let Ok(kept) = journal::store_conversation(&self.env, &entries).await else {
            return;
        };
        let usage =
            super::run_cli_agent::remaining_usage(self.written.reported, self.written.usage);
        self.written.usage += usage;
        self.written.entries += entries.len() as u64;
        let said = AgentMessages {
            path: self.open.path.clone(),
            revision: self.open.revision,
            attempt: self.open.attempt,
            items: kept.text,
            usage,
            context,
            report,
        };
        let mut events = vec![said.into()];
        events.extend(self.step_notes.extract(&self.env, &kept.clean));
        self.journal.enqueue_all(events).await;
        self.recent.add(kept.length, entries);
        if report.is_some() {
            self.recent.set_reported();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use segno_core::id::SessionId;
    use segno_core::journal::JournalEvent;

    use super::*;
    use crate::observe::NoObserver;
    use crate::resume::conversation::tests::{call, result, text};

    fn listener() -> AgentListener {
        AgentListener {
            queue: event_queue::channel().0,
            observer: Arc::new(NoObserver),
            path: Path::root("steps"),
            attempt: 1,
            context_watch: Mutex::default(),
            context_limits: ContextLimits::default(),
            full: Notify::new(),
            max_turns: None,
            limited: Notify::new(),
        }
    }

    fn used(used: u64) -> AgentEvent<'static> {
        let window = Some(100);
        AgentEvent::Context(ContextUsage { used, window })
    }

    /// Records what a user is shown.
    #[derive(Default)]
    struct Shown(Mutex<Vec<String>>);

    impl Observer for Shown {
        fn event(&self, _: SessionId, _: &JournalEvent) {}

        fn notice(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }

        fn text(&self, _: &Path, _: u32, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    #[test]
    fn texts_of_sub_agents_are_not_shown() {
        let shown = Arc::new(Shown::default());
        let listener = AgentListener {
            observer: shown.clone(),
            ..listener()
        };
        let mut inner = text("inner");
        inner.thread = Thread::Agent("s".into());
        listener.on_event(AgentEvent::Item(&inner));
        listener.on_event(AgentEvent::Item(&text("outer")));
        assert_eq!(*shown.0.lock().unwrap(), ["outer\n"]);
    }

    #[test]
    fn nearly_full_context_is_reported_once() {
        let shown = Arc::new(Shown::default());
        let listener = AgentListener {
            observer: shown.clone(),
            ..listener()
        };
        for percent in [79, 80, 84] {
            listener.on_event(used(percent));
        }
        assert_eq!(
            *shown.0.lock().unwrap(),
            ["step steps: 80 % of the agent's context is used"]
        );
    }

    #[test]
    fn newest_entries_within_the_bound_stay() {
        let recent = RecentConversation::default();
        let half = MAX_RECENT_BYTES / 2;
        recent.add(half, vec![text("a")]);
        recent.add(2 * half, vec![text("b"), text("c")]);
        assert_eq!(recent.newest(), [text("b"), text("c")]);
        recent.add(half, vec![text("d")]);
        assert_eq!(recent.newest(), [text("c"), text("d")]);
    }

    #[test]
    fn full_context_signals_only_between_tool_calls() {
        let listener = listener();
        listener.on_event(used(90));
        listener.on_event(AgentEvent::Item(&call("a")));
        assert_eq!(listener.wait_context_full().now_or_never(), None);
        // The next call arrived before the end of the first could take effect.
        listener.on_event(AgentEvent::Item(&result("a")));
        listener.on_event(used(91));
        listener.on_event(AgentEvent::Item(&call("b")));
        assert_eq!(listener.wait_context_full().now_or_never(), None);
        // So did the news that the program compacted its context.
        listener.on_event(AgentEvent::Item(&result("b")));
        listener.on_event(used(10));
        assert_eq!(listener.wait_context_full().now_or_never(), None);
        listener.on_event(AgentEvent::Item(&call("c")));
        listener.on_event(used(92));
        listener.on_event(AgentEvent::Item(&result("c")));
        assert_eq!(listener.wait_context_full().now_or_never(), Some(92));
    }

    #[test]
    fn usage_after_a_tool_result_signals_a_full_context() {
        let listener = listener();
        listener.on_event(AgentEvent::Item(&call("a")));
        listener.on_event(AgentEvent::Item(&result("a")));
        assert_eq!(listener.wait_context_full().now_or_never(), None);
        listener.on_event(used(93));
        assert_eq!(listener.wait_context_full().now_or_never(), Some(93));
    }

    #[test]
    fn usage_of_a_final_answer_signals_nothing() {
        let listener = listener();
        listener.on_event(AgentEvent::Item(&call("a")));
        listener.on_event(AgentEvent::Item(&result("a")));
        listener.on_event(AgentEvent::Item(&text("Done.")));
        listener.on_event(used(93));
        assert_eq!(listener.wait_context_full().now_or_never(), None);
    }

    #[test]
    fn answer_ends_with_the_last_allowed_reply() {
        let listener = AgentListener {
            max_turns: Some(1),
            ..listener()
        };
        listener.on_event(AgentEvent::Item(&text("I look first.")));
        listener.on_event(AgentEvent::Item(&call("a")));
        assert_eq!(listener.wait_turn_limit().now_or_never(), None);
        listener.on_event(AgentEvent::Item(&result("a")));
        // The program replies once more before it is stopped.
        listener.on_event(AgentEvent::Item(&text("It is done.")));
        let answer = listener.wait_turn_limit().now_or_never();
        assert_eq!(answer.as_deref(), Some("I look first."));
    }
}
