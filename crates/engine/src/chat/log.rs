//! What was said in a chat, from its journal, in the neutral form.

use std::collections::{BTreeSet, VecDeque};

use segno_core::conversation::messages::{from_messages, to_messages};
use segno_core::conversation::{Entry, Origin, Part, Said, Thread, Utterance};
use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, Seq, Text};
use segno_core::ladder::Rung;
use segno_core::model::{Message, Part as Piece, ToolResult};
use segno_core::step::Path;

use crate::error::Error;
use crate::world::World;
use crate::{flow, history, pen};

/// How many bytes of what was said are looked at; older messages are left out.
const MEMORY: usize = 8 << 20;

/// What stands after a message that was not answered to the end.
const BROKEN_OFF: &str = "(The answer to this message was broken off here.)";

/// What was said.
#[derive(Default)]
pub(crate) struct Log {
    /// What was said, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// From where on it was said in the newest conversation of an agent's program.
    pub(crate) own: usize,
    /// What the newest exchange adds up to.
    pub(crate) tally: Tally,
    /// Where the journal ended before the newest exchange.
    pub(crate) began: Option<Head>,
    /// What the newest message says.
    pub(crate) message: String,
    /// Whether the newest exchange has no answer yet.
    open: bool,
}

/// What an exchange adds up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How often the model answered.
    pub(crate) replies: u64,
    /// How many tools it asked for.
    pub(crate) tool_calls: u64,
    /// Which model it was, if it was told.
    pub(crate) model: Option<String>,
    /// The names of the messages that were counted: a program tells one in several pieces.
    known: BTreeSet<String>,
    /// Whether the model spoke last: pieces without a name that follow each other are one answer.
    speaking: bool,
    /// Whether the answer was told by an agent's program, word by word.
    pub(crate) told: bool,
}

/// An entry of the journal that says something.
struct Line {
    before: Head,
    event: Event,
}

impl Log {
    /// Reads what was said after `since`, in the part of the journal that follows `from`. The message at
    /// `until`, and what came after it, is not part of what was said before.
    pub(crate) async fn read(
        world: &World,
        session: SessionId,
        from: Head,
        since: Seq,
        until: Option<&Path>,
    ) -> Result<Self, Error> {
        let (mut lines, mut bytes, mut left_out) = (VecDeque::new(), 0, 0);
        let (mut before, mut reached) = (from, false);
        history::follow(world, session, from, |entry| {
            let line = Line {
                before,
                event: entry.event.clone(),
            };
            before = entry.head();
            if reached || entry.seq <= since || !says(&line.event) {
                return Ok(());
            }
            reached = begins(&line.event) && line.event.step().map(|(path, _)| path) == until;
            if !reached {
                // What is told of the past may not hang on what came after it (P7).
                bytes += size(&line.event);
            }
            lines.push_back(line);
            while bytes > MEMORY && lines.len() > 1 {
                let gone = lines.pop_front();
                bytes -= gone.as_ref().map_or(0, |line| size(&line.event));
                left_out += u64::from(gone.is_some_and(|line| begins(&line.event)));
            }
            Ok(())
        })
        .await?;
        let mut log = Self::default();
        if left_out > 0 {
            let text = format!("({left_out} earlier messages are left out.)");
            log.entries.push(note(text));
        }
        for line in lines {
            if begins(&line.event) && line.event.step().map(|(path, _)| path) == until {
                log.break_off();
                log.begin(world, &line).await?;
                // It is being answered, and is told as what it is.
                log.entries.pop();
                return Ok(log);
            }
            log.take(world, &line).await?;
        }
        log.break_off();
        Ok(log)
    }

    async fn begin(&mut self, world: &World, line: &Line) -> Result<(), Error> {
        if let Event::StepStarted(event) = &line.event {
            self.message = pen::recall(world, &event.input).await?;
            self.entries.push(flow::asked(&self.message));
            self.began = Some(line.before);
            self.tally = Tally::default();
            self.open = true;
        }
        Ok(())
    }

    /// Marks an exchange that has no answer.
    fn break_off(&mut self) {
        if std::mem::take(&mut self.open) {
            self.entries.push(note(BROKEN_OFF.to_owned()));
        }
    }

    async fn take(&mut self, world: &World, line: &Line) -> Result<(), Error> {
        match &line.event {
            Event::StepStarted(_) if begins(&line.event) => {
                self.break_off();
                self.begin(world, line).await?;
            }
            Event::ModelReplied(event) => {
                let parts = pen::recall(world, &event.parts).await?;
                let parts: Vec<Piece> = serde_json::from_str(&parts).unwrap_or_default();
                // Each is an answer, also where one continues the other.
                self.tally.speaking = false;
                self.hear(from_messages(&[Message::Assistant { parts }]));
            }
            Event::ToolFinished(event) => {
                let output = pen::recall(world, &event.output).await?;
                let (id, is_error) = (event.call.clone(), event.is_error);
                let results = vec![ToolResult {
                    id,
                    output,
                    is_error,
                }];
                self.hear(from_messages(&[Message::Tools { results }]));
            }
            Event::TalkShortened(event) => {
                let summary = pen::recall(world, &event.summary).await?;
                self.sum_up(event.messages as usize, summary);
            }
            Event::AgentOpened(event) => {
                if matches!(event.rung, None | Some(Rung::Compiled | Rung::Other)) {
                    self.own = self.entries.len();
                }
            }
            Event::AgentSaid(event) => {
                let text = pen::recall(world, &event.entries).await?;
                self.tally.told = true;
                self.hear(serde_json::from_str(&text).unwrap_or_default());
            }
            Event::StepFinished(event) => {
                let text = pen::recall(world, &event.output).await?;
                self.answer(text);
            }
            _ => {}
        }
        Ok(())
    }

    fn hear(&mut self, entries: Vec<Entry>) {
        entries.iter().for_each(|entry| self.tally.add(entry));
        self.entries.extend(entries);
    }

    /// The exchange has its answer. What a program told is there already; of a model, the last words
    /// are not, and what they continue is part of them.
    fn answer(&mut self, text: String) {
        self.open = false;
        if self.tally.told {
            return;
        }
        while self.entries.last().is_some_and(is_cut_off) {
            self.entries.pop();
        }
        if !text.trim().is_empty() {
            let parts = vec![Piece::Text { text }];
            self.entries
                .extend(from_messages(&[Message::Assistant { parts }]));
        }
    }

    /// Puts a summary before the newest entries that it does not stand for.
    fn sum_up(&mut self, messages: usize, summary: String) {
        let count = |from: usize| to_messages(&self.entries[from..]).0.len();
        let rest = count(0).saturating_sub(messages);
        let mut from = self.entries.len();
        while from > 0 && count(from) < rest {
            from -= 1;
        }
        let summed_up = Entry::new(Said::Compaction {
            summary: Some(summary),
            before: None,
            after: None,
        });
        self.entries.insert(from, summed_up);
    }
}

impl Tally {
    /// Takes in something that was said.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let Said::Assistant {
            message,
            model,
            parts,
            ..
        } = &entry.said
        else {
            self.speaking = false;
            return;
        };
        let calls = parts
            .iter()
            .filter(|part| matches!(part, Utterance::Call(_)));
        self.tool_calls += calls.count() as u64;
        if entry.thread != Thread::Main {
            return;
        }
        let new = match message {
            Some(name) => self.known.insert(name.clone()),
            None => !self.speaking,
        };
        self.speaking = true;
        self.replies += u64::from(new);
        self.model = model.clone().or(self.model.take());
    }
}

/// Whether a model's answer was cut off in the middle of its words.
fn is_cut_off(entry: &Entry) -> bool {
    matches!(&entry.said, Said::Assistant { parts, .. }
        if parts.iter().all(|part| matches!(part, Utterance::Text { .. })))
}

/// Whether an entry says something that belongs to a conversation.
fn says(event: &Event) -> bool {
    matches!(
        event,
        Event::StepStarted(_)
            | Event::ModelReplied(_)
            | Event::ToolFinished(_)
            | Event::TalkShortened(_)
            | Event::AgentOpened(_)
            | Event::AgentSaid(_)
            | Event::StepFinished(_)
    )
}

/// Whether an entry is a new message of the person.
fn begins(event: &Event) -> bool {
    matches!(event, Event::StepStarted(event) if event.attempt == 1 && event.revision == 0)
}

fn size(event: &Event) -> usize {
    match event.text() {
        Some(Text::Inline(text)) => text.len(),
        Some(Text::Blob { bytes, .. }) => usize::try_from(*bytes).unwrap_or(usize::MAX),
        None => 0,
    }
}

/// Something that nobody said, and that an agent should know.
fn note(text: String) -> Entry {
    Entry::new(Said::User {
        origin: Origin::Program,
        parts: vec![Part::Text { text }],
    })
}
