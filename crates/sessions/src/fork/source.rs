//! The state of the source session up to an event, and which of its events a fork copies.

use std::collections::BTreeSet;

use segno_core::checkpoint::{Manifest, Position};
use segno_core::journal::{
    ConversationOpened, Event, Head, JournalEvent, NotesWritten, Seq, SessionCreated, Text,
};
use segno_core::state::{Created, FinishedSteps, State};
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, Summary};
use segno_engine::{Env, history};
use segno_spec::similar;

use super::conversation::ForkedConversation;
use super::target::Target;
use super::{Error, ForkPoint};
use crate::relocate;

pub(super) struct SourceState {
    pub(super) state: State,
    finished: FinishedSteps,
    /// The step that the fork ends before, if that was requested.
    pub(super) before: Option<Path>,
    /// The unfinished steps that continue in the fork, because they have messages.
    pub(super) begun: BTreeSet<Path>,
}

impl SourceState {
    pub(super) async fn read(
        env: &Env,
        summary: &Summary,
        part: &ForkPoint,
    ) -> Result<Self, Error> {
        match part {
            ForkPoint::All | ForkPoint::CopyInto(_) => {
                Ok(Self::until(env, summary, Seq(u64::MAX)).await?)
            }
            ForkPoint::AtCheckpoint(manifest, _) => {
                check_checkpoint(env, summary, manifest).await?;
                Ok(Self::until(env, summary, manifest.journal.seq).await?)
            }
            ForkPoint::Before(step) => Self::before(env, summary, step).await,
        }
    }

    /// Reads a session up to an event.
    async fn until(env: &Env, summary: &Summary, end: Seq) -> Result<Self, history::Error> {
        let mut replay = Replay::new(summary);
        let mut spoken = BTreeSet::new();
        history::read_events(env, summary.id, replay.state.head, |entry| {
            if entry.seq > end {
                replay.skip(&entry);
                return Ok(());
            }
            if is_worth_copying(&entry.event)
                && let Some((path, revision)) = entry.event.step()
            {
                spoken.insert((path.clone(), revision));
            }
            replay.apply(&entry)
        })
        .await?;
        let open = replay.state.open_steps.iter();
        let resuming =
            open.filter(|(path, open)| spoken.contains(&((*path).clone(), open.revision)));
        let begun = resuming.map(|(path, _)| path.clone()).collect();
        Ok(Self {
            state: replay.state,
            finished: replay.finished,
            before: None,
            begun,
        })
    }

    /// Reads a session up to the first start of `step`, or of a step below it.
    async fn before(env: &Env, summary: &Summary, step: &str) -> Result<Self, Error> {
        let mut replay = Replay::new(summary);
        let (mut known, mut cut) = (BTreeSet::new(), false);
        let below = format!("{step}/");
        history::read_events(env, summary.id, replay.state.head, |entry| {
            if let Event::StepStarted(_) | Event::QuestionAsked(_) = &entry.event
                && let Some((path, _)) = entry.event.step()
            {
                cut |= path.as_str() == step || path.as_str().starts_with(&below);
                if !cut {
                    known.insert(path.clone());
                }
            }
            if cut {
                replay.skip(&entry);
                return Ok(());
            }
            replay.apply(&entry)
        })
        .await?;
        if !cut {
            return Err(Error::NoSuchStep {
                name: summary.name.clone(),
                step: step.to_owned(),
                near: similar(step, known.iter().map(Path::as_str), 3),
            });
        }
        Ok(Self {
            state: replay.state,
            finished: replay.finished,
            before: Path::new(step).ok(),
            // The conversations of these steps have later messages, too.
            begun: BTreeSet::new(),
        })
    }

    /// The first event of the fork: the current spec, and the properties of the source.
    pub(super) async fn created(
        &self,
        env: &Env,
        summary: &Summary,
        target: &Target,
    ) -> Result<SessionCreated, Error> {
        let senseless = |reason: &str| history::Error::InvalidJournal {
            session: summary.id,
            reason: reason.to_owned(),
        };
        let created = self.state.created.clone();
        let created: Created = created.ok_or_else(|| senseless("it has no creation event"))?;
        let entry = env.store.event(summary.id, self.state.spec_seq).await?;
        let spec = entry.event.text().cloned();
        let spec = spec.ok_or_else(|| senseless("it has no spec"))?;
        put_again(env, &spec).await?;
        let moved = relocate::moved(&created, &target.folder)?;
        Ok(SessionCreated {
            name: target.name.clone(),
            session_kind: created.kind,
            workspace: moved.workspace,
            spec_path: moved.spec_path,
            spec,
            spec_digest: self
                .state
                .spec_digest
                .ok_or_else(|| senseless("its spec has no digest"))?,
            variables: created.variables,
            out: moved.out,
            // The fork must not overwrite artifacts of the source.
            force: false,
            commit: created.commit,
            pattern: created.pattern,
        })
    }

    /// The events of all finished steps, and of those that continue.
    pub(super) async fn events(
        &self,
        env: &Env,
        summary: &Summary,
        conversations: &[ForkedConversation],
    ) -> Result<Vec<Event>, history::Error> {
        let (mut events, end) = (Vec::new(), self.state.head.seq);
        history::read_events(env, summary.id, Head::genesis(summary.id), |entry| {
            if entry.seq <= end {
                events.extend(self.copied_event(entry, conversations));
            }
            Ok(())
        })
        .await?;
        for event in &events {
            if let Some(text) = event.text() {
                put_again(env, text).await?;
            }
        }
        Ok(events)
    }

    /// An event as it is in the fork, if it is copied: its step is finished or continues, and its
    /// revision is the current one.
    fn copied_event(
        &self,
        entry: JournalEvent,
        conversations: &[ForkedConversation],
    ) -> Option<Event> {
        match entry.event {
            // Notes stay true, whichever step they are from. Journal positions differ in the fork.
            Event::NotesWritten(written) => {
                let read_to = None;
                return Some(NotesWritten { read_to, ..written }.into());
            }
            // So is what agents stored, as of the last event that is copied.
            Event::NoteWithdrawn(_)
            | Event::AgentStateChanged(_)
            | Event::ChatOpened(_)
            | Event::ChatCleared(_) => {
                return Some(entry.event);
            }
            _ => {}
        }
        let (path, revision) = entry.event.step()?;
        if let Some(step) = self.finished.get(path) {
            match &entry.event {
                Event::ExchangeEnded(_) => return Some(entry.event),
                // The transcript of a chat belongs to the source: the fork starts a new
                // conversation with a resume context.
                Event::ConversationOpened(_) if self.state.chat.is_some() => return None,
                _ => {}
            }
            let counts = step.revision == revision && entry.seq <= step.seq;
            return counts.then_some(entry.event);
        }
        if self.state.chat.is_some() && !self.state.open_steps.contains_key(path) {
            // A message without an answer is still part of the chat.
            return (!matches!(entry.event, Event::ConversationOpened(_))).then_some(entry.event);
        }
        let open = self
            .state
            .open_steps
            .get(path)
            .filter(|_| self.begun.contains(path))?;
        if open.revision != revision {
            return None;
        }
        match entry.event {
            // The fork never continues a conversation of the source: it has its own copy, or starts
            // a new one with a resume context.
            Event::ConversationOpened(opened) => {
                let conversation = conversations
                    .iter()
                    .find(|conversation| conversation.is_opened_by(&opened))?;
                let native = conversation.id.clone();
                Some(
                    ConversationOpened {
                        native_id: native,
                        ..opened
                    }
                    .into(),
                )
            }
            // The adopted transcript belongs to the source.
            Event::TranscriptImported(_) => None,
            event => Some(event),
        }
    }
}

/// Replays the events of the source.
struct Replay<'a> {
    summary: &'a Summary,
    state: State,
    finished: FinishedSteps,
}

impl<'a> Replay<'a> {
    fn new(summary: &'a Summary) -> Self {
        Self {
            summary,
            state: State::empty(summary.id),
            finished: FinishedSteps::default(),
        }
    }

    /// Skips a later event. Moves still apply: the fork uses the current folder of the source.
    fn skip(&mut self, entry: &JournalEvent) {
        if let (Event::SessionMoved(moved), Some(created)) = (&entry.event, &mut self.state.created)
        {
            created.relocate(moved);
        }
    }

    fn apply(&mut self, entry: &JournalEvent) -> Result<(), history::Error> {
        self.finished.apply(entry);
        history::apply(&mut self.state, self.summary.id, entry)
    }
}

/// Whether an event of an unfinished step is a reason to copy the step: a message of a conversation, or
/// what a user said about its outcome.
fn is_worth_copying(event: &Event) -> bool {
    matches!(
        event,
        Event::AgentMessages(_) | Event::ModelReplied(_) | Event::StepResolved(_)
    )
}

/// Checks that a checkpoint belongs to this session and to this journal.
async fn check_checkpoint(env: &Env, summary: &Summary, manifest: &Manifest) -> Result<(), Error> {
    let foreign = |reason: String| Error::CheckpointOfOtherSession {
        checkpoint: manifest.id,
        name: summary.name.clone(),
        reason,
    };
    if manifest.session != summary.id {
        let of = match env.store.summary(manifest.session).await {
            Ok(of) => of.name.to_string(),
            Err(_) => manifest.session.to_string(),
        };
        return Err(foreign(format!("it belongs to session `{of}`")));
    }
    let Position { seq, hash, .. } = manifest.journal;
    if seq == Seq(0) {
        return Err(foreign("it has files, but no journal".to_owned()));
    }
    let end = summary.head.seq;
    if seq > end {
        return Err(foreign(format!(
            "it refers to event {seq}, but the local journal ends at event {end}"
        )));
    }
    if env.store.event(summary.id, seq).await?.hash != hash {
        return Err(foreign(format!(
            "event {seq} of the local journal is not the one it refers to"
        )));
    }
    Ok(())
}

/// Stores a long text again: the source may be deleted while the fork is created.
async fn put_again(env: &Env, text: &Text) -> Result<(), StoreError> {
    if let Text::Blob { blob, .. } = text {
        let bytes = env.store.get(*blob).await?;
        env.store.put(bytes).await?;
    }
    Ok(())
}
