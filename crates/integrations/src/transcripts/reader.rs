//! Reads a transcript portion by portion, and appends its messages to the journal.

use segno_core::conversation::analysis::Analysis;
use segno_core::conversation::{
    AssistantPart, Branch, ConversationItem, ItemContent, Notice, Origin, Part, Thread, plain_text,
};
use segno_core::digest::Digest;
use segno_core::id::Name;
use segno_core::journal::{AgentMessages, Ending, Event, ExchangeEnded, Run, RunEnded, StepPaused};
use segno_core::session::Status;
use segno_core::state::{Chat, State};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_core::time::Timestamp;
use segno_core::transcript::{Portion, Transcript};
use segno_core::usage::{ContextUsage, Usage};
use segno_engine::journal;
use segno_engine::note_rules::StepNotes;
use segno_engine::steps;
use segno_engine::steps::chat::Tally as Replies;
use segno_engine::steps::remaining_usage;

use super::batches::{Batches, End};
use super::draft::Draft;
use super::own_runs::OwnRuns;
use super::{Adoption, Error, unreadable};

/// The limit of listed unreadable parts; more are only counted.
const MAX_LISTED: usize = 100;

/// The message of a conversation whose beginning has none.
const NO_MESSAGE: &str = "Continue the conversation.";

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// New messages.
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) damage: Vec<String>,
    pub(super) damage_unlisted: u64,
}

/// Reads a transcript. Content before the offset `from`, and what Segno did itself, is only
/// analysed, for its usage.
pub(super) struct TranscriptReader<'a> {
    adoption: &'a Adoption<'a>,
    from: u64,
    own: OwnRuns,
    analysis: Analysis,
    /// The usage of what was analysed.
    counted: Usage,
    /// The new usage that belongs to no item yet.
    rest: Usage,
    tally: Tally,
}

impl<'a> TranscriptReader<'a> {
    pub(super) fn new(adoption: &'a Adoption<'a>, from: u64, own: OwnRuns) -> Self {
        Self {
            adoption,
            from,
            own,
            analysis: Analysis::new(),
            counted: Usage::default(),
            rest: Usage::default(),
            tally: Tally::default(),
        }
    }

    /// Counts what is new, and writes nothing.
    pub(super) async fn count(
        mut self,
        mut transcript: Box<dyn Transcript>,
    ) -> Result<Tally, Error> {
        while let Some(portion) = self.next(&mut *transcript).await? {
            let (items, _) = self.new_content(portion, None);
            self.tally.entries += items.len() as u64;
        }
        Ok(self.tally)
    }

    /// Appends what is new, each portion in one transaction together with its end position, so that
    /// a kill neither loses nor duplicates a message.
    pub(super) async fn write(
        mut self,
        mut transcript: Box<dyn Transcript>,
        mut journal: Mirror<'_>,
    ) -> Result<(Tally, Option<Name>), Error> {
        let request = self.adoption.request;
        let failed = |error| unreadable(request, &error);
        let length = transcript.info().length;
        let mut is_whole = false;
        while let Some(portion) = self.next(&mut *transcript).await? {
            let bytes = portion.bytes;
            let (items, damage) = self.new_content(portion, Some(&mut journal.notes));
            self.tally.entries += items.len() as u64;
            if bytes <= self.from {
                continue;
            }
            for (item, usage) in items {
                journal.add(item, usage).await?;
            }
            journal.used = self.analysis.context();
            if journal.open.is_some() {
                journal.usage += std::mem::take(&mut self.rest);
            }
            journal.flush().await?;
            let digest = transcript.digest(bytes).await.map_err(failed)?;
            journal.mark(bytes, digest, damage);
            is_whole = bytes == length;
            let end = if is_whole {
                journal.end();
                End::EndsRun
            } else {
                End::Continues
            };
            journal.batches.commit(end).await?;
        }
        if !is_whole {
            journal.end();
            journal.batches.commit(End::EndsRun).await?;
        }
        Ok((self.tally, journal.batches.name()))
    }

    async fn next(&mut self, transcript: &mut dyn Transcript) -> Result<Option<Portion>, Error> {
        let request = self.adoption.request;
        let length = transcript.info().length;
        let portion = transcript.next().await;
        let portion = portion.map_err(|error| unreadable(request, &error))?;
        if let Some(portion) = &portion {
            self.tally.bytes = portion.bytes;
            (request.progress)(portion.bytes, length);
        }
        Ok(portion)
    }

    /// The new items of a portion, each with the usage that it adds, and the unreadable parts.
    fn new_content(
        &mut self,
        portion: Portion,
        mut notes: Option<&mut StepNotes>,
    ) -> (Vec<(ConversationItem, Usage)>, Vec<String>) {
        let (mut items, mut listed) = (Vec::new(), Vec::new());
        for (place, item) in portion.items {
            let is_new = place >= self.from && !self.own.has(&item);
            self.analysis.add(&item);
            let all = Usage::from(self.analysis.usage());
            let usage = remaining_usage(all, self.counted);
            self.counted += usage;
            if !is_new {
                if let Some(notes) = &mut notes
                    && matches!(item.content, ItemContent::Assistant { .. })
                {
                    notes.read_context(&item);
                }
                continue;
            }
            self.rest += usage;
            // Other content is in the stored file; only its usage counts.
            if !matches!(
                item.content,
                ItemContent::Raw { .. } | ItemContent::Usage { .. }
            ) {
                items.push((item, std::mem::take(&mut self.rest)));
            }
        }
        let damage = portion.damage.into_iter();
        for (_, damage) in damage.filter(|(place, _)| *place >= self.from) {
            if self.tally.damage.len() < MAX_LISTED {
                listed.push(damage.clone());
                self.tally.damage.push(damage);
            } else {
                self.tally.damage_unlisted += 1;
            }
        }
        (items, listed)
    }
}

/// Turns the items of a transcript into the exchanges of a chat.
pub(super) struct Mirror<'a> {
    adoption: &'a Adoption<'a>,
    draft: &'a Draft,
    batches: Batches<'a>,
    notes: StepNotes,
    /// The number of the next message.
    next: u64,
    /// The steps of earlier runs that have no answer.
    left: Vec<(Path, u32)>,
    /// The message that is being answered.
    open: Option<Open>,
    /// The attempt that reopens a message.
    reopening: u32,
    /// The items of the open message that are not added yet.
    items: Vec<ConversationItem>,
    usage: Usage,
    /// How full the context is.
    used: Option<u64>,
}

struct Open {
    path: Path,
    attempt: u32,
    replies: Replies,
    /// Whether the agent has ended its turn, and how.
    ending: Option<Ending>,
}

impl<'a> Mirror<'a> {
    /// For a session that is not created yet.
    pub(super) fn create(
        adoption: &'a Adoption<'a>,
        draft: &'a Draft,
        started_at: Option<Timestamp>,
    ) -> Self {
        let at = started_at.unwrap_or_else(|| adoption.env.clock.now());
        let created = draft.created.clone();
        let batches = Batches::create(adoption.env, adoption.session, created, at);
        let state = State::empty(adoption.session);
        let mut mirror = Self::new(adoption, draft, batches, &state, 1);
        mirror.batches.push(started_at, draft.chat_opened());
        mirror.mark(0, Digest::of(&[]), Vec::new());
        mirror
    }

    /// For a session that exists, in a run of its own.
    pub(super) fn update(
        adoption: &'a Adoption<'a>,
        draft: &'a Draft,
        run: Run,
        state: &State,
    ) -> Self {
        let batches = Batches::append(adoption.env, adoption.session, run, state.clone());
        let attempt = u32::try_from(run.0).unwrap_or(u32::MAX);
        let mut mirror = Self::new(adoption, draft, batches, state, attempt);
        for event in steps::unknown_step_events(state) {
            mirror.batches.push(None, event);
        }
        if state.chat.is_none() {
            // Earlier versions adopted a conversation as one step.
            mirror.batches.push(None, draft.chat_opened());
        }
        if let Some(known) = &state.imported {
            mirror.mark(known.bytes, known.digest, Vec::new());
        }
        mirror
    }

    fn new(
        adoption: &'a Adoption<'a>,
        draft: &'a Draft,
        batches: Batches<'a>,
        state: &State,
        reopening: u32,
    ) -> Self {
        let chat = state.chat.as_ref();
        let left = state.open_steps.iter();
        let agent = adoption.request.source.as_str();
        Self {
            adoption,
            draft,
            batches,
            notes: StepNotes::new(&state.handoff, agent, &Chat::message_path(0)),
            next: chat.map_or(0, |chat| chat.next_number),
            left: left
                .map(|(path, open)| (path.clone(), open.attempt))
                .collect(),
            open: None,
            reopening,
            items: Vec::new(),
            usage: Usage::default(),
            used: None,
        }
    }

    /// The message to which the next event belongs.
    fn path(&self) -> Path {
        match &self.open {
            Some(open) => open.path.clone(),
            None => Chat::message_path(self.next.saturating_sub(1)),
        }
    }

    fn mark(&mut self, bytes: u64, digest: Digest, damage: Vec<String>) {
        let mark = self.draft.mark(self.path(), bytes, digest, damage);
        self.batches.push(None, mark);
    }

    async fn add(&mut self, item: ConversationItem, usage: Usage) -> Result<(), Error> {
        if let Some(text) = message(&item) {
            self.flush().await?;
            self.close(Ending::Abandoned);
            let path = Chat::message_path(self.next);
            self.next += 1;
            self.start(path, 1, &text, item.when).await?;
        } else if self.open.is_none() && is_answer(&item) {
            self.reopen(item.when).await?;
        }
        // What the program adds before a message is one of its items.
        self.usage += usage;
        let Some(item) = without_text(item) else {
            return Ok(());
        };
        if let Some(open) = &mut self.open {
            open.replies.add(&item);
            open.ending = ending(&item, open.ending);
        }
        self.items.push(item);
        Ok(())
    }

    /// Continues the newest message, whose answer continues.
    async fn reopen(&mut self, when: Option<Timestamp>) -> Result<(), Error> {
        let newest = self.next.checked_sub(1).map(Chat::message_path);
        let left = newest.as_ref().and_then(|path| {
            let at = self.left.iter().position(|(left, _)| left == path)?;
            Some(self.left.remove(at).1)
        });
        match (newest, left) {
            (Some(path), Some(attempt)) => self.start(path, attempt + 1, "", when).await,
            (Some(path), None) => self.start(path, self.reopening.max(2), "", when).await,
            (None, _) => {
                self.next = 1;
                self.start(Chat::message_path(0), 1, NO_MESSAGE, when).await
            }
        }
    }

    async fn start(
        &mut self,
        path: Path,
        attempt: u32,
        text: &str,
        when: Option<Timestamp>,
    ) -> Result<(), Error> {
        let message = self.draft.message(self.adoption, &path, attempt, text);
        for event in message.await? {
            self.batches.push(when, event);
        }
        self.open = Some(Open {
            path,
            attempt,
            replies: Replies::default(),
            ending: None,
        });
        Ok(())
    }

    /// Ends the open message, and those that earlier runs left without an answer.
    fn close(&mut self, unanswered: Ending) {
        for (path, _) in std::mem::take(&mut self.left) {
            let ended = exchange_ended(path, Ending::Abandoned, Replies::default());
            self.batches.push(None, ended);
        }
        if let Some(open) = self.open.take() {
            let ending = open.ending.unwrap_or(unanswered);
            let ended = exchange_ended(open.path, ending, open.replies);
            self.batches.push(None, ended);
        }
    }

    /// Adds the collected items of the open message.
    async fn flush(&mut self) -> Result<(), StoreError> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        let usage = std::mem::take(&mut self.usage);
        let items = std::mem::take(&mut self.items);
        if items.is_empty() && usage == Usage::default() {
            return Ok(());
        }
        let kept = journal::store_conversation(self.adoption.env, &items).await?;
        let window = None;
        let said = AgentMessages {
            path: open.path.clone(),
            revision: 0,
            attempt: open.attempt,
            items: kept.text,
            usage,
            context: self.used.map(|used| ContextUsage { used, window }),
            report: None,
        };
        let path = open.path.clone();
        let last = items.iter().rev().find_map(|item| item.when);
        self.batches.push(last, said.into());
        for mut event in self.notes.extract(self.adoption.env, &kept.clean) {
            if let Event::NotesWritten(written) = &mut event {
                written.path = Some(path.clone());
            }
            self.batches.push(None, event);
        }
        Ok(())
    }

    /// Ends the run: the agent has answered, or the answer can be continued.
    fn end(&mut self) {
        let is_answered = self.open.as_ref().is_none_or(|open| open.ending.is_some());
        if is_answered && self.open.is_some() {
            self.close(Ending::EndTurn);
        } else if let Some(open) = self.open.take() {
            let paused = StepPaused {
                path: open.path,
                revision: 0,
                attempt: open.attempt,
            };
            self.batches.push(None, paused.into());
        }
        let ended = RunEnded {
            status: Status::Paused,
            error: None,
            output: None,
        };
        self.batches.push(None, ended.into());
    }
}

fn exchange_ended(path: Path, ending: Ending, replies: Replies) -> Event {
    ExchangeEnded {
        path,
        ending,
        replies: replies.replies,
        tool_calls: replies.tool_calls,
        model: replies.model,
    }
    .into()
}

/// The text of a user's message to the agent.
fn message(item: &ConversationItem) -> Option<String> {
    let ItemContent::User {
        origin: Origin::User,
        parts,
    } = &item.content
    else {
        return None;
    };
    let is_main = item.thread == Thread::Main && item.branch != Branch::Side;
    is_main.then(|| plain_text(parts))
}

/// Whether an item is a part of the answer to a message.
fn is_answer(item: &ConversationItem) -> bool {
    matches!(
        item.content,
        ItemContent::Assistant { .. } | ItemContent::Result(_)
    )
}

/// An item without the text that is the message itself; `None` if nothing is left.
fn without_text(mut item: ConversationItem) -> Option<ConversationItem> {
    let is_message = message(&item).is_some();
    if let ItemContent::User { parts, .. } = &mut item.content
        && is_message
    {
        parts.retain(|part| !matches!(part, Part::Text { .. }));
        return (!parts.is_empty()).then_some(item);
    }
    Some(item)
}

/// How the agent's turn has ended after an item of the main thread, if it has.
fn ending(item: &ConversationItem, before: Option<Ending>) -> Option<Ending> {
    if item.thread != Thread::Main || item.branch == Branch::Side {
        return before;
    }
    match &item.content {
        ItemContent::Assistant { parts, .. } => {
            let calls = |part: &AssistantPart| matches!(part, AssistantPart::Call(_));
            let says = |part: &AssistantPart| matches!(part, AssistantPart::Text { text } if !text.trim().is_empty());
            let is_answer = parts.iter().any(says) && !parts.iter().any(calls);
            is_answer.then_some(Ending::EndTurn)
        }
        ItemContent::Notice {
            notice: Notice::Interrupted,
            ..
        } => Some(Ending::Stopped),
        ItemContent::User { .. } | ItemContent::Result(_) => None,
        _ => before,
    }
}
