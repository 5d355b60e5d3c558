//! What an agent's program reports, on its way into the journal.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use segno_core::agent::{Event as Told, Listener};
use segno_core::companion::Gauge;
use segno_core::conversation::{Entry, Said, Thread, Utterance};
use segno_core::journal::{AgentOpened, AgentSaid};
use segno_core::step::Path;
use segno_core::usage::{Price, Usage};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::Flow;
use super::step::{Ask, priced};
use crate::chat::Tally;
use crate::gleaning::Gleaner;
use crate::observe::Observer;
use crate::pen::{self, Pen};
use crate::reconcile::Cause;
use crate::world::World;

/// How many bytes of what was said in this run are at hand.
const AT_HAND: usize = 8 << 20;

/// What was said in a step in this run: the newest.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Newest>>);

#[derive(Default)]
struct Newest {
    entries: VecDeque<(usize, Entry)>,
    bytes: usize,
    /// Why the newest conversation was broken off, if it was in this run.
    cause: Option<Cause>,
}

impl Heard {
    /// Remembers why a conversation was broken off.
    pub(super) fn break_off(&self, cause: Cause) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.cause = Some(cause);
    }

    /// Why the newest conversation was broken off, if it was in this run.
    pub(super) fn cause(&self) -> Option<Cause> {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.cause.clone()
    }

    /// The newest, oldest of them first.
    pub(super) fn newest(&self) -> Vec<Entry> {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest
            .entries
            .iter()
            .map(|(_, entry)| entry.clone())
            .collect()
    }

    /// What the agent said last to the person.
    pub(super) fn last_words(&self) -> String {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = newest.entries.iter().rev();
        let last = entries.find_map(|(_, entry)| spoken(entry).last());
        last.unwrap_or_default().to_owned()
    }

    fn add(&self, bytes: usize, entry: Entry) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.entries.push_back((bytes, entry));
        newest.bytes += bytes;
        while newest.bytes > AT_HAND
            && let Some((bytes, _)) = newest.entries.pop_front()
        {
            newest.bytes -= bytes;
        }
    }
}

/// Something that was reported.
enum Report {
    Named(String),
    Said(Entry),
    Usage(Usage),
    Context(Gauge),
}

/// Hears a program, and hands on what must be written down.
pub(super) struct Ear {
    queue: mpsc::UnboundedSender<Report>,
    observer: Arc<dyn Observer>,
    path: Path,
    room: Mutex<Room>,
    /// Told when the context is nearly full and no tool is at work.
    full: Notify,
    /// How often the model may answer.
    max_turns: Option<u32>,
    /// Told when it has, and no tool is at work.
    limited: Notify,
}

/// How full a context is, and whether it is a good moment to leave it.
#[derive(Default)]
struct Room {
    percent: u64,
    warned: bool,
    /// Calls of the main thread that have no answer.
    open: BTreeSet<String>,
    /// How often the model answered.
    tally: Tally,
}

impl Ear {
    /// Returns when the context is nearly full and nothing is in flight: how much of it is used.
    pub(super) async fn full(&self) -> u64 {
        loop {
            self.full.notified().await;
            // More may have been heard since: that the program shortened its own context, or that
            // the next call is at work.
            let room = self.room();
            if room.percent >= Gauge::FULL && room.open.is_empty() {
                return room.percent;
            }
        }
    }

    /// Returns when the model has answered as often as it may, and wants to go on.
    pub(super) async fn limited(&self) {
        self.limited.notified().await;
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gauge(&self, gauge: Gauge) {
        let mut room = self.room();
        room.percent = gauge.percent().unwrap_or_default();
        if room.percent >= Gauge::NEARLY_FULL && !room.warned {
            room.warned = true;
            self.observer.notice(&format!(
                "step {}: {} % of the agent's context is used",
                self.path, room.percent
            ));
        }
    }

    /// Follows which calls are open. A good moment is when the last of them has its answer: the
    /// program is about to ask its model again.
    fn follow(&self, entry: &Entry) {
        if entry.thread != Thread::Main {
            return;
        }
        let mut room = self.room();
        room.tally.add(entry);
        match &entry.said {
            Said::Assistant { parts, .. } => room.open.extend(calls(parts)),
            Said::Result(answer) => {
                let was_open = room.open.remove(&answer.id);
                let rests = was_open && room.open.is_empty();
                if rests && room.percent >= Gauge::FULL {
                    self.full.notify_one();
                }
                let most = self.max_turns.map(u64::from);
                if rests && most.is_some_and(|most| room.tally.replies >= most) {
                    self.limited.notify_one();
                }
            }
            _ => {}
        }
    }
}

/// What the agent says to the person.
fn spoken(entry: &Entry) -> impl Iterator<Item = &str> {
    let parts = match &entry.said {
        Said::Assistant { parts, .. } if entry.thread == Thread::Main => parts.as_slice(),
        _ => &[],
    };
    parts.iter().filter_map(|part| match part {
        Utterance::Text { text } => Some(text.as_str()),
        _ => None,
    })
}

fn calls(parts: &[Utterance]) -> impl Iterator<Item = String> {
    parts.iter().filter_map(|part| match part {
        Utterance::Call(call) => Some(call.id.clone()),
        _ => None,
    })
}

impl Listener for Ear {
    fn hear(&self, told: Told<'_>) {
        match &told {
            Told::Context(gauge) => self.gauge(*gauge),
            Told::Said(entry) => {
                self.follow(entry);
                spoken(entry).for_each(|text| self.observer.words(&format!("{text}\n")));
            }
            _ => {}
        }
        let report = match told {
            // What is said comes whole, too.
            Told::Text(_) => return,
            Told::Notice(text) => {
                self.observer.notice(&format!("step {}: {text}", self.path));
                return;
            }
            Told::Native(id) => Report::Named(id.to_owned()),
            Told::Said(entry) => Report::Said(entry.clone()),
            Told::Usage(usage) => Report::Usage(usage),
            Told::Context(gauge) => Report::Context(gauge),
        };
        let _ = self.queue.send(report);
    }
}

/// What was written down when a program had ended.
#[derive(Default)]
pub(super) struct Written {
    /// How many things that were said.
    pub(super) entries: u64,
    /// What was used, as far as it is written down.
    pub(super) usage: Usage,
    /// What was used, all of it.
    pub(super) heard: Usage,
}

impl Flow {
    /// Listens to a program. The task ends when the ear is dropped and everything is written down.
    pub(super) fn listen(
        &self,
        open: AgentOpened,
        ask: &Ask<'_>,
        heard: &Heard,
    ) -> (Ear, JoinHandle<Written>) {
        let (queue, reports) = mpsc::unbounded_channel();
        let ear = Ear {
            queue,
            observer: Arc::clone(&self.observer),
            path: ask.path.clone(),
            room: Mutex::default(),
            full: Notify::new(),
            max_turns: self.exchange.as_ref().map(|exchange| exchange.max_turns),
            limited: Notify::new(),
        };
        let scribe = Scribe {
            world: self.world.clone(),
            pen: self.pen.clone(),
            open,
            price: ask.price,
            heard: heard.clone(),
            gleaner: Gleaner::new(&self.pen.handoff(), ask.who, &ask.path),
            written: Written::default(),
        };
        (ear, tokio::spawn(scribe.serve(reports)))
    }
}

struct Scribe {
    world: World,
    pen: Pen,
    open: AgentOpened,
    price: Option<Price>,
    heard: Heard,
    gleaner: Gleaner,
    written: Written,
}

impl Scribe {
    async fn serve(mut self, mut reports: mpsc::UnboundedReceiver<Report>) -> Written {
        let mut gathered = Vec::new();
        while reports.recv_many(&mut gathered, 64).await > 0 {
            let (mut entries, mut context) = (Vec::new(), None);
            for report in gathered.drain(..) {
                match report {
                    Report::Named(id) if id == self.open.native => {}
                    Report::Named(id) => {
                        self.open.native = id;
                        self.pen.note(self.open.clone());
                    }
                    Report::Said(entry) => entries.push(entry),
                    Report::Usage(usage) => self.written.heard = priced(self.price, usage),
                    Report::Context(gauge) => context = Some(gauge),
                }
            }
            if !entries.is_empty() || context.is_some() {
                self.write(entries, context).await;
            }
        }
        self.written
    }

    async fn write(&mut self, entries: Vec<Entry>, context: Option<Gauge>) {
        // If even the blob store cannot take it, the journal cannot either, and says so.
        let Ok(kept) = pen::keep_said(&self.world, &entries).await else {
            return;
        };
        let each = kept.length / entries.len().max(1);
        let usage = super::accompany::less(self.written.heard, self.written.usage);
        self.written.usage += usage;
        self.written.entries += entries.len() as u64;
        let said = AgentSaid {
            path: self.open.path.clone(),
            revision: self.open.revision,
            attempt: self.open.attempt,
            entries: kept.text,
            usage,
            context,
        };
        let mut events = vec![said.into()];
        events.extend(self.gleaner.glean(&self.world, &kept.clean));
        self.pen.note_together(events);
        for entry in entries {
            self.heard.add(each, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::inheritance::tests::{call, result};
    use super::*;
    use crate::observe::Quiet;

    fn ear() -> Ear {
        Ear {
            queue: mpsc::unbounded_channel().0,
            observer: Arc::new(Quiet),
            path: Path::first("steps"),
            room: Mutex::default(),
            full: Notify::new(),
            max_turns: None,
            limited: Notify::new(),
        }
    }

    fn used(used: u64) -> Told<'static> {
        let window = Some(100);
        Told::Context(Gauge { used, window })
    }

    #[test]
    fn a_full_context_is_left_when_nothing_is_at_work_and_it_is_full_at_that_moment() {
        let ear = ear();
        ear.hear(used(90));
        ear.hear(Told::Said(&call("a")));
        assert_eq!(ear.full().now_or_never(), None);
        // The next call was heard before anyone could act on the end of the first.
        ear.hear(Told::Said(&result("a")));
        ear.hear(used(91));
        ear.hear(Told::Said(&call("b")));
        assert_eq!(ear.full().now_or_never(), None);
        // So was that the program shortened its context.
        ear.hear(Told::Said(&result("b")));
        ear.hear(used(10));
        assert_eq!(ear.full().now_or_never(), None);
        ear.hear(Told::Said(&call("c")));
        ear.hear(used(92));
        ear.hear(Told::Said(&result("c")));
        assert_eq!(ear.full().now_or_never(), Some(92));
    }
}
