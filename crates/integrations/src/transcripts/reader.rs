//! Reads a transcript portion by portion, and appends its messages to the journal.

use segno_core::conversation::analysis::Analysis;
use segno_core::conversation::{ConversationItem, ItemContent};
use segno_core::journal::{AgentMessages, Event};
use segno_core::store::Error as StoreError;
use segno_core::transcript::{Portion, Transcript};
use segno_core::usage::{ContextUsage, Usage};
use segno_engine::journal::{self, Writer};
use segno_engine::note_rules::StepNotes;
use segno_engine::steps::remaining_usage;

use super::draft::{Draft, step};
use super::{Adoption, Error, unreadable};

/// The limit of listed unreadable parts; more are only counted.
const MAX_LISTED: usize = 100;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// New messages.
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) damage: Vec<String>,
    pub(super) damage_unlisted: u64,
}

/// Reads a transcript. Content before the offset `from` is only analysed, for its usage.
pub(super) struct TranscriptReader<'a> {
    adoption: &'a Adoption<'a>,
    from: u64,
    analysis: Analysis,
    /// The usage that is already recorded; set at the first new line.
    counted: Option<Usage>,
    /// Extracts notes from new messages, if they are appended.
    step_notes: Option<StepNotes>,
    tally: Tally,
}

impl<'a> TranscriptReader<'a> {
    pub(super) fn new(adoption: &'a Adoption<'a>, from: u64) -> Self {
        Self {
            adoption,
            from,
            analysis: Analysis::new(),
            counted: None,
            step_notes: None,
            tally: Tally::default(),
        }
    }

    /// Reads to the end. With a writer in `to`, appends each portion in one commit together with
    /// its end position, so a kill neither loses nor duplicates a message.
    pub(super) async fn read(
        mut self,
        mut transcript: Box<dyn Transcript>,
        to: Option<(&Writer, &Draft, u32)>,
    ) -> Result<Tally, Error> {
        let request = self.adoption.request;
        let agent = request.program.as_str();
        self.step_notes =
            to.map(|(journal, ..)| StepNotes::new(&journal.handoff(), agent, &step()));
        let failed = |error| unreadable(request, &error);
        let length = transcript.info().length;
        while let Some(portion) = transcript.next().await.map_err(failed)? {
            let bytes = portion.bytes;
            let (entries, notes) = self.new_content(portion);
            self.tally.bytes = bytes;
            self.tally.entries += entries.len() as u64;
            if let Some((journal, draft, attempt)) = to
                && bytes > self.from
            {
                let digest = transcript.digest(bytes).await.map_err(failed)?;
                let mut events = self.message_events(&entries, attempt).await?;
                events.push(draft.mark(bytes, digest, notes));
                journal.write(events).await?;
            }
            (request.progress)(bytes, length);
        }
        Ok(self.tally)
    }

    /// The new messages of a portion, and its unreadable parts.
    fn new_content(&mut self, portion: Portion) -> (Vec<ConversationItem>, Vec<String>) {
        let (mut entries, mut notes) = (Vec::new(), Vec::new());
        for (place, entry) in portion.items {
            let new = place >= self.from;
            if new && self.counted.is_none() {
                self.counted = Some(self.analysis.usage().into());
            }
            self.analysis.add(&entry);
            if let Some(step_notes) = self.step_notes.as_mut().filter(|_| !new)
                && matches!(entry.content, ItemContent::Assistant { .. })
            {
                step_notes.read_context(&entry);
            }
            // Other content is in the stored file.
            if new
                && !matches!(
                    entry.content,
                    ItemContent::Raw { .. } | ItemContent::Usage { .. }
                )
            {
                entries.push(entry);
            }
        }
        let damage = portion.damage.into_iter();
        for (_, damage) in damage.filter(|(place, _)| *place >= self.from) {
            if self.tally.damage.len() < MAX_LISTED {
                notes.push(damage.clone());
                self.tally.damage.push(damage);
            } else {
                self.tally.damage_unlisted += 1;
            }
        }
        (entries, notes)
    }

    /// The journal event with the messages and their usage.
    async fn message_events(
        &mut self,
        entries: &[ConversationItem],
        attempt: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let all = Usage::from(self.analysis.usage());
        let usage = remaining_usage(all, self.counted.unwrap_or(all));
        if entries.is_empty() && usage == Usage::default() {
            return Ok(Vec::new());
        }
        self.counted = Some(all);
        let kept = journal::store_conversation(self.adoption.env, entries).await?;
        let window = None;
        let said = AgentMessages {
            path: step(),
            revision: 0,
            attempt,
            items: kept.text,
            usage,
            context: self
                .analysis
                .context()
                .map(|used| ContextUsage { used, window }),
        };
        let mut events = vec![said.into()];
        if let Some(step_notes) = &mut self.step_notes {
            events.extend(step_notes.extract(self.adoption.env, &kept.clean));
        }
        Ok(events)
    }
}
