//! What Segno itself did in an adopted conversation.
//!
//! When Segno resumes the conversation, the agent appends to the same transcript, and the journal
//! has what the agent reported meanwhile. Each message has a time, and so has each run: what the
//! transcript has of the time of such a run is not added again.

use std::time::Duration;

use segno_core::conversation::{ConversationItem, ItemContent, Origin};
use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, Run};
use segno_core::resume::Strategy;
use segno_core::state::ImportedTranscript;
use segno_core::time::Timestamp;
use segno_engine::{Env, history};

/// How long after its last event a run that was lost may have sent its message.
const LOST_RUN: Duration = Duration::from_secs(5);

/// The runs that continued a conversation after its transcript was last read.
#[derive(Debug, Default)]
pub(super) struct OwnRuns {
    runs: Vec<OwnRun>,
    /// Up to this time everything is known, if the transcript was rewritten since.
    known_until: Option<Timestamp>,
    /// Whether Segno replaced the transcript: by a repaired one, or by a stored copy.
    pub(super) rewrote: bool,
}

#[derive(Debug)]
struct OwnRun {
    run: Run,
    from: Timestamp,
    to: Timestamp,
    ended: bool,
    /// Whether it had this conversation open.
    took_part: bool,
    /// Whether it read a transcript.
    mirrored: bool,
}

impl OwnRuns {
    /// Reads the part of the journal after `known`.
    pub(super) async fn read(
        env: &Env,
        session: SessionId,
        known: &ImportedTranscript,
    ) -> Result<Self, history::Error> {
        let mut own = Self::default();
        let mark = env.store.event(session, known.seq).await?;
        own.known_until = Some(mark.at);
        history::read_events(env, session, mark.head(), |entry| {
            own.add(&entry, &known.native_id);
            Ok(())
        })
        .await?;
        own.runs.retain(|run| run.took_part && !run.mirrored);
        Ok(own)
    }

    fn add(&mut self, entry: &JournalEvent, native: &str) {
        if self.runs.last().is_none_or(|last| last.run != entry.run) {
            self.runs.push(OwnRun {
                run: entry.run,
                from: entry.at,
                to: entry.at,
                ended: false,
                took_part: false,
                mirrored: false,
            });
        }
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        run.to = entry.at;
        match &entry.event {
            Event::ConversationOpened(event) if event.native_id == native => {
                run.took_part = true;
                self.rewrote |= matches!(
                    event.strategy,
                    Some(Strategy::Repaired | Strategy::Restored)
                );
            }
            Event::TranscriptImported(_) => run.mirrored = true,
            Event::RunEnded(_) => run.ended = true,
            _ => {}
        }
    }

    /// Everything of the transcript up to the time of the last mark is known, wherever it is now.
    pub(super) fn know_the_past(&mut self) {
        let from = Timestamp(i64::MIN);
        if let Some(to) = self.known_until {
            self.runs.push(OwnRun {
                run: Run(0),
                from,
                to,
                ended: true,
                took_part: true,
                mirrored: false,
            });
        }
    }

    /// Whether the journal has an item of the transcript already.
    pub(super) fn has(&self, item: &ConversationItem) -> bool {
        let Some(when) = item.when else {
            return false;
        };
        let is_message = matches!(
            item.content,
            ItemContent::User {
                origin: Origin::User,
                ..
            }
        );
        self.runs.iter().any(|run| {
            // A lost run journaled its message before the agent got it.
            let is_sent = is_message && !run.ended;
            let to = if is_sent {
                run.to.after(LOST_RUN)
            } else {
                run.to
            };
            (run.from..=to).contains(&when)
        })
    }
}
