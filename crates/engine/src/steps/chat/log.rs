//! Reads the conversation of a chat from its journal, in the vendor-neutral form.

use std::collections::{BTreeSet, VecDeque};

use segno_core::conversation::{
    AssistantPart, ConversationItem, ItemContent, Origin, Part, Thread,
};
use segno_core::id::SessionId;
use segno_core::journal::{Ending, Event, Head, Seq, Text};
use segno_core::model::messages::{from_messages, to_messages};
use segno_core::model::{Message, Part as Piece};
use segno_core::resume::Strategy;
use segno_core::step::Path;
use segno_core::tool::ToolResult;

use crate::env::Env;
use crate::history::{self, Error};
use crate::journal;
use crate::resume::conversation::user_entry;

/// How many bytes of conversation are read; older messages are omitted.
const MAX_BYTES: usize = 8 << 20;

/// Follows a message that has no complete answer.
const INTERRUPTED: &str = "(The answer to this message was interrupted here.)";

/// The conversation of a chat.
#[derive(Default)]
pub struct Log {
    /// All entries, oldest first.
    pub entries: Vec<ConversationItem>,
    /// The index from which on entries belong to the CLI agent's newest conversation.
    pub own: usize,
    /// The counts of the newest exchange.
    pub tally: Tally,
    /// The head of the journal before the newest exchange.
    pub began: Option<Head>,
    /// The text of the newest message.
    pub message: String,
    /// Whether the newest exchange has no answer yet.
    open: bool,
}

/// The counts of an exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often the model replied.
    pub replies: u64,
    /// How many tool calls it made.
    pub tool_calls: u64,
    /// The model, if the agent reported it.
    pub model: Option<String>,
    /// The ids of the counted messages: a program reports one message in several pieces.
    counted_ids: BTreeSet<String>,
    /// Whether the last entry was the model's: adjacent pieces without an id are one reply.
    in_reply: bool,
    /// Whether a CLI agent reported the answer, entry by entry.
    pub from_cli_agent: bool,
}

/// A journal event that belongs to the conversation.
struct LogEvent {
    before: Head,
    event: Event,
}

impl Log {
    /// Reads the conversation after event `since`, in the part of the journal that follows `from`.
    /// The message at `until` and everything after it is excluded.
    pub async fn read(
        env: &Env,
        session: SessionId,
        from: Head,
        since: Seq,
        until: Option<&Path>,
    ) -> Result<Self, Error> {
        let (mut items, mut bytes, mut omitted) = (VecDeque::new(), 0, 0);
        let (mut before, mut reached) = (from, false);
        history::read_events(env, session, from, |entry| {
            let item = LogEvent {
                before,
                event: entry.event.clone(),
            };
            before = entry.head();
            if reached || entry.seq <= since || !is_conversation(&item.event) {
                return Ok(());
            }
            reached =
                starts_message(&item.event) && item.event.step().map(|(path, _)| path) == until;
            if !reached {
                // The past must not depend on what came after it (P7).
                bytes += text_bytes(&item.event);
            }
            items.push_back(item);
            while bytes > MAX_BYTES && items.len() > 1 {
                let dropped = items.pop_front();
                bytes -= dropped.as_ref().map_or(0, |item| text_bytes(&item.event));
                omitted += u64::from(dropped.is_some_and(|item| starts_message(&item.event)));
            }
            Ok(())
        })
        .await?;
        let mut log = Self::default();
        if omitted > 0 {
            let text = format!("({omitted} earlier messages are omitted.)");
            log.entries.push(segno_note(text));
        }
        for item in items {
            if starts_message(&item.event) && item.event.step().map(|(path, _)| path) == until {
                log.mark_interrupted();
                log.start_exchange(env, &item).await?;
                // The message is being answered; it becomes the agent's input.
                log.entries.pop();
                return Ok(log);
            }
            log.apply(env, &item).await?;
        }
        log.mark_interrupted();
        Ok(log)
    }

    async fn start_exchange(&mut self, env: &Env, item: &LogEvent) -> Result<(), Error> {
        if let Event::StepStarted(event) = &item.event {
            self.message = journal::load_text(env, &event.input).await?;
            self.entries.push(user_entry(&self.message));
            self.began = Some(item.before);
            self.tally = Tally::default();
            self.open = true;
        }
        Ok(())
    }

    /// Marks an exchange that has no answer.
    fn mark_interrupted(&mut self) {
        if std::mem::take(&mut self.open) {
            self.entries.push(segno_note(INTERRUPTED.to_owned()));
        }
    }

    async fn apply(&mut self, env: &Env, item: &LogEvent) -> Result<(), Error> {
        match &item.event {
            Event::StepStarted(_) if starts_message(&item.event) => {
                self.mark_interrupted();
                self.start_exchange(env, item).await?;
            }
            Event::ModelReplied(event) => {
                let parts = journal::load_text(env, &event.parts).await?;
                let parts: Vec<Piece> = serde_json::from_str(&parts).unwrap_or_default();
                // Each event is a reply of its own, also where one continues the other.
                self.tally.in_reply = false;
                self.add_entries(from_messages(&[Message::Assistant { parts }]));
            }
            Event::ToolFinished(event) => {
                let output = journal::load_text(env, &event.output).await?;
                let (id, is_error) = (event.call.clone(), event.is_error);
                let results = vec![ToolResult {
                    id,
                    output,
                    is_error,
                }];
                self.add_entries(from_messages(&[Message::Tools { results }]));
            }
            Event::ConversationCompacted(event) => {
                let summary = journal::load_text(env, &event.summary).await?;
                self.insert_summary(event.messages as usize, summary);
            }
            Event::ConversationOpened(event) => {
                if matches!(
                    event.strategy,
                    None | Some(Strategy::Summarized | Strategy::Handoff)
                ) {
                    self.own = self.entries.len();
                }
            }
            Event::AgentMessages(event) => {
                let text = journal::load_text(env, &event.items).await?;
                self.tally.from_cli_agent = true;
                self.add_entries(serde_json::from_str(&text).unwrap_or_default());
            }
            Event::StepFinished(event) => {
                let text = journal::load_text(env, &event.output).await?;
                self.finish_exchange(text);
            }
            // An adopted answer ends without a result of its own.
            Event::ExchangeEnded(event)
                if matches!(event.ending, Ending::EndTurn | Ending::MaxTurns) =>
            {
                self.open = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn add_entries(&mut self, entries: Vec<ConversationItem>) {
        entries.iter().for_each(|entry| self.tally.add(entry));
        self.entries.extend(entries);
    }

    /// Completes the exchange. The entries of a CLI agent are already there. A model's last reply
    /// is not, and it includes the replies that it continues.
    fn finish_exchange(&mut self, text: String) {
        self.open = false;
        if self.tally.from_cli_agent {
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

    /// Inserts a summary before the newest entries, which it does not cover.
    fn insert_summary(&mut self, messages: usize, summary: String) {
        let count = |from: usize| to_messages(&self.entries[from..]).0.len();
        let rest = count(0).saturating_sub(messages);
        let mut from = self.entries.len();
        while count(from) < rest {
            from -= 1;
        }
        let summary_entry = ConversationItem::new(ItemContent::Compaction {
            summary: Some(summary),
            before: None,
            after: None,
        });
        self.entries.insert(from, summary_entry);
    }
}

impl Tally {
    /// Counts an entry.
    pub fn add(&mut self, entry: &ConversationItem) {
        let ItemContent::Assistant {
            message,
            model,
            parts,
            ..
        } = &entry.content
        else {
            self.in_reply = false;
            return;
        };
        let calls = parts
            .iter()
            .filter(|part| matches!(part, AssistantPart::Call(_)));
        self.tool_calls += calls.count() as u64;
        if entry.thread != Thread::Main {
            return;
        }
        let new = match message {
            Some(name) => self.counted_ids.insert(name.clone()),
            None => !self.in_reply,
        };
        self.in_reply = true;
        self.replies += u64::from(new);
        self.model = model.clone().or(self.model.take());
    }
}

/// Whether an entry is a model reply that was cut off in its text.
fn is_cut_off(entry: &ConversationItem) -> bool {
    matches!(&entry.content, ItemContent::Assistant { parts, .. }
        if parts.iter().all(|part| matches!(part, AssistantPart::Text { .. })))
}

/// Whether an event belongs to a conversation.
fn is_conversation(event: &Event) -> bool {
    matches!(
        event,
        Event::StepStarted(_)
            | Event::ModelReplied(_)
            | Event::ToolFinished(_)
            | Event::ConversationCompacted(_)
            | Event::ConversationOpened(_)
            | Event::AgentMessages(_)
            | Event::StepFinished(_)
            | Event::ExchangeEnded(_)
    )
}

/// Whether an event is a new user message.
fn starts_message(event: &Event) -> bool {
    matches!(event, Event::StepStarted(event) if event.attempt == 1 && event.revision == 0)
}

fn text_bytes(event: &Event) -> usize {
    match event.text() {
        Some(Text::Inline(text)) => text.len(),
        Some(Text::Blob { bytes, .. }) => usize::try_from(*bytes).unwrap_or(usize::MAX),
        None => 0,
    }
}

/// A note from Segno to the agent.
fn segno_note(text: String) -> ConversationItem {
    ConversationItem::new(ItemContent::User {
        origin: Origin::CliAgent,
        parts: vec![Part::Text { text }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_precedes_the_messages_it_does_not_cover() {
        let assistant = |text: &str| Message::Assistant {
            parts: vec![Piece::Text { text: text.into() }],
        };
        let user = |text: &str| Message::User { text: text.into() };
        let messages = [user("one"), assistant("a"), user("two"), assistant("b")];
        for covered in [0, 1, 2, 4, 9] {
            let mut log = Log {
                entries: from_messages(&messages),
                ..Log::default()
            };
            log.insert_summary(covered, "summary".into());
            let is_summary = |entry: &ConversationItem| {
                matches!(&entry.content, ItemContent::Compaction { summary, .. }
                    if summary.as_deref() == Some("summary"))
            };
            let found = log.entries.iter().position(is_summary);
            assert_eq!(found, Some(covered.min(4)));
            assert_eq!(log.entries.len(), 5);
        }
    }
}
