//! A new session out of what another has finished.
//!
//! The copy stands by itself: its journal has the entries of the steps that count, sealed anew,
//! and says where they came from. The other session is only read.

use std::collections::BTreeSet;
use std::path::PathBuf;

use segno_core::id::{Name, SessionId};
use segno_core::journal::{
    Entry, Event, Head, Record, Run, RunEnded, SessionCreated, SessionForked, Text,
};
use segno_core::session::{Status, Summary};
use segno_core::state::{Created, Finished, State};
use segno_core::step::Path;
use segno_core::store::{Batch, Error as StoreError, Hold, New};
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

use crate::error::Error;
use crate::spec::near;
use crate::world::World;
use crate::{history, pen, start};

/// What a person asks for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The step before which to cut; otherwise everything that is finished is copied.
    pub before: Option<String>,
    /// What to call the copy.
    pub name: Option<Name>,
    /// Where the copy's artifacts go; otherwise where the other's go.
    pub out: Option<PathBuf>,
}

/// A copy that was made.
#[derive(Debug)]
pub struct Forked {
    /// The new session.
    pub summary: Summary,
    /// How many steps are done in it.
    pub steps: u64,
    /// What they took.
    pub usage: Usage,
}

/// Makes a new session that has what `summary` had finished before a step was first begun. It
/// stands as paused.
pub async fn fork(world: &World, summary: &Summary, request: Request) -> Result<Forked, Error> {
    let past = past(world, summary, request.before.as_deref()).await?;
    let created = past.created(world, summary, &request).await?;
    let copied = past.copied(world, summary).await?;
    let forked = SessionForked {
        from: summary.id,
        from_name: summary.name.clone(),
        seq: past.state.head.seq,
        before: past.before,
    };
    let mut entropy = [0; 10];
    world.random.fill(&mut entropy);
    let session = SessionId::new(world.clock.now(), entropy);
    let family = created.name.clone();
    for number in 1.. {
        let mut created = created.clone();
        created.name = family.numbered(number);
        let mut copy = Copy::new(session, world.clock.now());
        copy.write(created.clone().into())?;
        copy.write(world.run_started())?;
        copy.write(forked.clone().into())?;
        for event in &copied {
            copy.write(event.clone())?;
        }
        copy.write(
            RunEnded {
                status: Status::Paused,
                error: None,
            }
            .into(),
        )?;
        let (steps, usage) = (copy.state.finished, copy.state.usage);
        match world.store.create(copy.session(world, created)).await {
            Err(StoreError::NameTaken(_)) if request.name.is_none() => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                return Ok(Forked {
                    summary: world.store.summary(session).await?,
                    steps,
                    usage,
                });
            }
        }
    }
    unreachable!("there are more numbers than sessions")
}

/// What a session had done up to some entry.
struct Past {
    state: State,
    finished: Finished,
    before: Option<Path>,
}

/// Reads a session up to the first time that `step`, or one below it, was begun.
async fn past(world: &World, summary: &Summary, step: Option<&str>) -> Result<Past, Error> {
    let (mut state, mut finished) = (State::empty(summary.id), Finished::default());
    let (mut known, mut cut) = (BTreeSet::new(), false);
    let below = step.map(|step| format!("{step}/"));
    let is_meant = |path: &Path| match (step, &below) {
        (Some(step), Some(below)) => path.as_str() == step || path.as_str().starts_with(below),
        _ => false,
    };
    history::follow(world, summary.id, state.head, |entry| {
        if let Event::StepStarted(_) | Event::QuestionAsked(_) = &entry.event
            && let Some((path, _)) = entry.event.step()
        {
            cut |= is_meant(path);
            if !cut {
                known.insert(path.clone());
            }
        }
        if cut {
            return Ok(());
        }
        finished.apply(&entry);
        state.apply(&entry).map_err(|illegal| Error::Senseless {
            session: summary.id,
            reason: illegal.to_string(),
        })
    })
    .await?;
    let before = match step {
        Some(step) if !cut => {
            return Err(Error::NoSuchStep {
                name: summary.name.clone(),
                step: step.to_owned(),
                near: near(step, known.iter().map(Path::as_str), 3),
            });
        }
        step => step.and_then(|step| Path::new(step).ok()),
    };
    Ok(Past {
        state,
        finished,
        before,
    })
}

impl Past {
    /// What the copy is started with: the spec that was in force, and what else the other was.
    async fn created(
        &self,
        world: &World,
        summary: &Summary,
        request: &Request,
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
        let out = match &request.out {
            None => created.out,
            Some(out) => start::text_of(out)?,
        };
        let like = || Name::like(&format!("{}-fork", summary.name));
        Ok(SessionCreated {
            name: request.name.clone().unwrap_or_else(like),
            session_kind: created.kind,
            workspace: created.workspace,
            spec_path: created.spec_path,
            spec,
            spec_digest: self
                .state
                .spec_digest
                .ok_or_else(|| senseless("its spec has no digest"))?,
            variables: created.variables,
            out,
            // What the other wrote is not the copy's to replace.
            force: false,
        })
    }

    /// Everything that happened in the steps that are finished, and what was said in a conversation that
    /// was adopted.
    async fn copied(&self, world: &World, summary: &Summary) -> Result<Vec<Event>, Error> {
        let (mut copied, end) = (Vec::new(), self.state.head.seq);
        history::follow(world, summary.id, Head::genesis(summary.id), |entry| {
            if entry.seq <= end && self.counts(&entry) {
                copied.push(entry.event);
            }
            Ok(())
        })
        .await?;
        for event in &copied {
            if let Some(text) = event.text() {
                refresh(world, text).await?;
            }
        }
        Ok(copied)
    }

    /// Whether an entry is about a step that is finished, in the revision that counts.
    fn counts(&self, entry: &Entry) -> bool {
        let Some((path, revision)) = entry.event.step() else {
            return false;
        };
        if self.state.adopted.is_some() && self.state.open.contains_key(path) {
            return is_said(&entry.event);
        }
        let step = self.finished.get(path);
        step.is_some_and(|step| step.revision == revision && entry.seq <= step.seq)
    }
}

/// Whether an entry says what was asked and said, but not where a program keeps the conversation: the
/// copy must never go on with the conversation of the other, so it begins one and is told what was said.
fn is_said(event: &Event) -> bool {
    matches!(
        event,
        Event::StepStarted(_) | Event::AgentSaid(_) | Event::StepPaused(_)
    )
}

/// Keeps a long text once more: the other session may be deleted while the copy is made.
async fn refresh(world: &World, text: &Text) -> Result<(), Error> {
    if let Text::Blob { blob, .. } = text {
        let bytes = world.store.get(*blob).await?;
        world.store.put(bytes).await?;
    }
    Ok(())
}

/// The journal of the copy.
struct Copy {
    session: SessionId,
    at: Timestamp,
    state: State,
    records: Vec<Record>,
}

impl Copy {
    fn new(session: SessionId, at: Timestamp) -> Self {
        Self {
            session,
            at,
            state: State::empty(session),
            records: Vec::new(),
        }
    }

    fn write(&mut self, event: Event) -> Result<(), Error> {
        let (run, at) = (Run(1), self.at);
        let record = self.state.head.seal(run, at, &event);
        let entry = Entry {
            seq: record.seq,
            run,
            at,
            event,
            hash: record.hash,
        };
        self.records.push(record);
        self.state
            .apply(&entry)
            .map_err(|illegal| Error::Senseless {
                session: self.session,
                reason: illegal.to_string(),
            })
    }

    /// The session, ready to be made. Nobody holds its lease afterwards.
    fn session(self, world: &World, created: SessionCreated) -> New {
        let batch = Batch {
            session: self.session,
            run: Run(1),
            expected: Head::genesis(self.session),
            records: self.records,
            status: self.state.status,
            spec_digest: self.state.spec_digest,
            lease: Hold::Release,
            folded: Some(pen::fold(&self.state)),
            taken: Vec::new(),
        };
        New {
            id: self.session,
            name: created.name,
            kind: created.session_kind,
            workspace: created.workspace,
            owner: world.processes.current(),
            ttl: world.ttl,
            batch,
        }
    }
}
