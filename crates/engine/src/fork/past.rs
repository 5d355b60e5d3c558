//! What a session had done up to some entry, and what of it a copy takes over.

use std::collections::BTreeSet;

use segno_core::checkpoint::{Manifest, Position};
use segno_core::journal::{
    AgentOpened, Entry, Event, Head, MemosWritten, Seq, SessionCreated, Text,
};
use segno_core::session::Summary;
use segno_core::state::{Created, Finished, State};
use segno_core::step::Path;

use super::Part;
use super::place::Seat;
use super::talk::Talk;
use crate::error::Error;
use crate::spec::near;
use crate::world::World;
use crate::{history, relocate};

/// What a session had done.
pub(super) struct Past {
    pub(super) state: State,
    finished: Finished,
    /// The step before which it was cut, if it was.
    pub(super) before: Option<Path>,
    /// The unfinished steps that go on in the copy, because something was said in them.
    pub(super) begun: BTreeSet<Path>,
}

impl Past {
    pub(super) async fn read(world: &World, summary: &Summary, part: &Part) -> Result<Self, Error> {
        match part {
            Part::All | Part::Apart(_) => Self::until(world, summary, Seq(u64::MAX)).await,
            Part::Until(manifest, _) => {
                check(world, summary, manifest).await?;
                Self::until(world, summary, manifest.journal.seq).await
            }
            Part::Before(step) => Self::before(world, summary, step).await,
        }
    }

    /// Reads a session up to an entry.
    async fn until(world: &World, summary: &Summary, end: Seq) -> Result<Self, Error> {
        let mut reading = Reading::new(summary);
        let mut spoken = BTreeSet::new();
        history::follow(world, summary.id, reading.state.head, |entry| {
            if entry.seq > end {
                reading.pass(&entry);
                return Ok(());
            }
            if is_said(&entry.event)
                && let Some((path, revision)) = entry.event.step()
            {
                spoken.insert((path.clone(), revision));
            }
            reading.take(&entry)
        })
        .await?;
        let open = reading.state.open.iter();
        let goes_on =
            open.filter(|(path, open)| spoken.contains(&((*path).clone(), open.revision)));
        let begun = goes_on.map(|(path, _)| path.clone()).collect();
        Ok(Self {
            state: reading.state,
            finished: reading.finished,
            before: None,
            begun,
        })
    }

    /// Reads a session up to the first time that `step`, or one below it, was begun.
    async fn before(world: &World, summary: &Summary, step: &str) -> Result<Self, Error> {
        let mut reading = Reading::new(summary);
        let (mut known, mut cut) = (BTreeSet::new(), false);
        let below = format!("{step}/");
        history::follow(world, summary.id, reading.state.head, |entry| {
            if let Event::StepStarted(_) | Event::QuestionAsked(_) = &entry.event
                && let Some((path, _)) = entry.event.step()
            {
                cut |= path.as_str() == step || path.as_str().starts_with(&below);
                if !cut {
                    known.insert(path.clone());
                }
            }
            if cut {
                reading.pass(&entry);
                return Ok(());
            }
            reading.take(&entry)
        })
        .await?;
        if !cut {
            return Err(Error::NoSuchStep {
                name: summary.name.clone(),
                step: step.to_owned(),
                near: near(step, known.iter().map(Path::as_str), 3),
            });
        }
        Ok(Self {
            state: reading.state,
            finished: reading.finished,
            before: Path::new(step).ok(),
            // What agents have of these steps goes further than that.
            begun: BTreeSet::new(),
        })
    }

    /// What the copy is started with: the spec that was in force, and what else the other was.
    pub(super) async fn created(
        &self,
        world: &World,
        summary: &Summary,
        seat: &Seat,
    ) -> Result<SessionCreated, Error> {
        let senseless = |reason: &str| Error::Senseless {
            session: summary.id,
            reason: reason.to_owned(),
        };
        let created = self.state.created.clone();
        let created: Created = created.ok_or_else(|| senseless("it was never created"))?;
        let entry = world.store.entry(summary.id, self.state.spec_seq).await?;
        let spec = entry.event.text().cloned();
        let spec = spec.ok_or_else(|| senseless("it has no spec"))?;
        refresh(world, &spec).await?;
        let moved = relocate::moved(&created, &seat.folder)?;
        Ok(SessionCreated {
            name: seat.name.clone(),
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
            // What the other wrote is not the copy's to replace.
            force: false,
            commit: created.commit,
        })
    }

    /// Everything that happened in the steps that are finished, and in those that go on.
    pub(super) async fn events(
        &self,
        world: &World,
        summary: &Summary,
        talks: &[Talk],
    ) -> Result<Vec<Event>, Error> {
        let (mut events, end) = (Vec::new(), self.state.head.seq);
        history::follow(world, summary.id, Head::genesis(summary.id), |entry| {
            if entry.seq <= end {
                events.extend(self.copied(entry, talks));
            }
            Ok(())
        })
        .await?;
        for event in &events {
            if let Some(text) = event.text() {
                refresh(world, text).await?;
            }
        }
        Ok(events)
    }

    /// An entry as it stands in the copy, if it does: it is about a step that is finished or goes on, in
    /// the revision that counts.
    fn copied(&self, entry: Entry, talks: &[Talk]) -> Option<Event> {
        match entry.event {
            // What was learnt stays true, whichever step it was learnt in. Places are others in the copy.
            Event::MemosWritten(written) => {
                let read_to = None;
                return Some(MemosWritten { read_to, ..written }.into());
            }
            Event::MemoWithdrawn(_) | Event::ChatOpened(_) | Event::ChatCleared(_) => {
                return Some(entry.event);
            }
            _ => {}
        }
        let (path, revision) = entry.event.step()?;
        if let Some(step) = self.finished.get(path) {
            match &entry.event {
                Event::ExchangeEnded(_) => return Some(entry.event),
                // What a program has of a chat is the other's: the copy begins anew, and is told.
                Event::AgentOpened(_) if self.state.chat.is_some() => return None,
                _ => {}
            }
            let counts = step.revision == revision && entry.seq <= step.seq;
            return counts.then_some(entry.event);
        }
        if self.state.chat.is_some() && !self.state.open.contains_key(path) {
            // What was said and never answered was said all the same.
            return (!matches!(entry.event, Event::AgentOpened(_))).then_some(entry.event);
        }
        let open = self
            .state
            .open
            .get(path)
            .filter(|_| self.begun.contains(path))?;
        if open.revision != revision {
            return None;
        }
        match entry.event {
            // The copy never goes on with a conversation of the other: it has its own, or begins one and
            // is told what was said.
            Event::AgentOpened(opened) => {
                let talk = talks.iter().find(|talk| talk.is_opened_by(&opened))?;
                let native = talk.id.clone();
                Some(AgentOpened { native, ..opened }.into())
            }
            // The transcript is the other's.
            Event::TranscriptAdopted(_) => None,
            event => Some(event),
        }
    }
}

/// A session that is being read.
struct Reading<'a> {
    summary: &'a Summary,
    state: State,
    finished: Finished,
}

impl<'a> Reading<'a> {
    fn new(summary: &'a Summary) -> Self {
        Self {
            summary,
            state: State::empty(summary.id),
            finished: Finished::default(),
        }
    }

    /// Passes by what came later. The copy works where the other works now, wherever that was when it
    /// stood there.
    fn pass(&mut self, entry: &Entry) {
        if let (Event::SessionMoved(moved), Some(created)) = (&entry.event, &mut self.state.created)
        {
            created.relocate(moved);
        }
    }

    fn take(&mut self, entry: &Entry) -> Result<(), Error> {
        self.finished.apply(entry);
        self.state.apply(entry).map_err(|illegal| Error::Senseless {
            session: self.summary.id,
            reason: illegal.to_string(),
        })
    }
}

/// Whether an entry is something that was said in a conversation.
fn is_said(event: &Event) -> bool {
    matches!(event, Event::AgentSaid(_) | Event::ModelReplied(_))
}

/// Whether a checkpoint is one of this session, of the journal that is here.
async fn check(world: &World, summary: &Summary, manifest: &Manifest) -> Result<(), Error> {
    let foreign = |reason: String| Error::NotItsCheckpoint {
        checkpoint: manifest.id,
        name: summary.name.clone(),
        reason,
    };
    if manifest.session != summary.id {
        let of = match world.store.summary(manifest.session).await {
            Ok(of) => of.name.to_string(),
            Err(_) => manifest.session.to_string(),
        };
        return Err(foreign(format!("it is one of session {of}")));
    }
    let Position { seq, hash, .. } = manifest.journal;
    if seq == Seq(0) {
        return Err(foreign("it has files and no journal".to_owned()));
    }
    let end = summary.head.seq;
    if seq > end {
        return Err(foreign(format!(
            "it speaks of entry {seq}, and the journal that is here ends at {end}"
        )));
    }
    if world.store.entry(summary.id, seq).await?.hash != hash {
        return Err(foreign(format!(
            "entry {seq} of the journal that is here is not the one that it speaks of"
        )));
    }
    Ok(())
}

/// Keeps a long text once more: the other session may be deleted while the copy is made.
async fn refresh(world: &World, text: &Text) -> Result<(), Error> {
    if let Text::Blob { blob, .. } = text {
        let bytes = world.store.get(*blob).await?;
        world.store.put(bytes).await?;
    }
    Ok(())
}
