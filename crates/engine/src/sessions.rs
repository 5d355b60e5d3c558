//! Finding and showing sessions.

use std::collections::HashMap;
use std::path::Path as Folder;
use std::time::Duration;

use segno_core::error::{Diagnose, Kind as ErrorKind};
use segno_core::id::{self, Name, SessionId, Unresolved};
use segno_core::journal::{Event, Failure, Seq, Suspension};
use segno_core::lease::Lease;
use segno_core::session::{Status, Summary};
use segno_core::state::{Finished, State};
use segno_core::step::Path;
use segno_core::store::{Discarded, Error as StoreError};
use segno_core::usage::Usage;

use crate::error::Error;
use crate::talk::{self, Talk};
use crate::world::World;
use crate::{claim, history, trash};

/// A session as a list shows it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What its rows say.
    pub summary: Summary,
    /// Who runs it.
    pub lease: Lease,
    /// Where it really stands, given how its owner is doing.
    pub standing: Status,
}

/// All sessions, newest first, and what is wrong with those that cannot be shown.
pub async fn list(world: &World) -> Result<(Vec<Listed>, Vec<StoreError>), Error> {
    let (mut listed, mut damaged) = (Vec::new(), Vec::new());
    for found in world.store.list().await? {
        match found {
            Ok(summary) => match world.store.lease(summary.id).await {
                Ok(lease) => listed.push(Listed {
                    standing: claim::standing(world, &summary, &lease),
                    summary,
                    lease,
                }),
                Err(error) => damaged.push(error),
            },
            Err(error) => damaged.push(error),
        }
    }
    Ok((listed, damaged))
}

/// What sessions of a list wait for, where all that they do waits for a limit to be lifted. One that
/// cannot be read is passed over.
pub async fn suspensions(
    world: &World,
    listed: &[Listed],
) -> HashMap<SessionId, (Path, Suspension)> {
    let now = world.clock.now();
    let mut found = HashMap::new();
    for listed in listed
        .iter()
        .filter(|listed| listed.standing.is_resumable())
    {
        let session = listed.summary.id;
        let Ok(state) = history::look(world, session).await else {
            continue;
        };
        if let Some((path, suspension)) = state.suspended(now) {
            found.insert(session, (path.clone(), suspension));
        }
    }
    found
}

/// The newest session that works in a folder, if there is one. Those that cannot be read are passed
/// over.
pub async fn newest_in(world: &World, folder: &Folder) -> Result<Option<Summary>, Error> {
    let mut readable = world.store.list().await?.into_iter().flatten();
    Ok(readable.find(|summary| Folder::new(&summary.workspace) == folder))
}

/// The session that a person means: by id, by name, or by the beginning of either.
pub async fn find(world: &World, reference: &str) -> Result<Summary, Error> {
    if let Some(discarded) = in_trash(world, reference).await? {
        return Err(discarded);
    }
    if let Ok(session) = reference.parse::<SessionId>() {
        return match world.store.summary(session).await {
            Err(StoreError::NoSession(_)) => Err(Error::NoSuchSession {
                reference: reference.to_owned(),
            }),
            other => Ok(other?),
        };
    }
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    for found in world.store.list().await? {
        match found {
            Ok(summary) => all.push(summary),
            Err(error) => damaged.push(error),
        }
    }
    let names: Vec<(SessionId, Name)> = all
        .iter()
        .map(|summary| (summary.id, summary.name.clone()))
        .collect();
    let resolved = id::resolve(reference, &names);
    // A damaged session cannot say its name: where it may be meant, the damage is the answer.
    let certain = resolved
        .as_ref()
        .is_ok_and(|(_, name)| name.as_str() == reference);
    if let Some(error) = damaged.pop()
        && !certain
    {
        return Err(error.into());
    }
    match resolved {
        Ok((session, _)) => Ok(all
            .into_iter()
            .find(|summary| summary.id == session)
            .expect("it was just found")),
        Err(Unresolved::Unknown) => Err(Error::NoSuchSession {
            reference: reference.to_owned(),
        }),
        Err(Unresolved::Ambiguous(candidates)) => Err(Error::Ambiguous {
            reference: reference.to_owned(),
            candidates,
        }),
    }
}

/// That the session of this whole id or name is in the trash, if it is, and no other has the name.
async fn in_trash(world: &World, reference: &str) -> Result<Option<Error>, Error> {
    let id = reference.parse::<SessionId>().ok();
    let means = |found: &Discarded| {
        id == Some(found.session)
            || found
                .name
                .as_ref()
                .is_some_and(|name| name.as_str() == reference)
    };
    let thrown = match world.store.discarded().await {
        // A trash that cannot be read is no reason not to look at what can be.
        Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
        other => other?,
    };
    let Some(found) = thrown.into_iter().flatten().find(means) else {
        return Ok(None);
    };
    let named = |listed: &Result<Summary, StoreError>| {
        listed
            .as_ref()
            .is_ok_and(|listed| listed.name.as_str() == reference)
    };
    if id.is_none() && world.store.list().await?.iter().any(named) {
        return Ok(None);
    }
    Ok(Some(Error::InTrash {
        session: found.session,
        name: trash::name(&found),
    }))
}

/// A session in full.
#[derive(Debug, Clone)]
pub struct Shown {
    /// As the list has it.
    pub listed: Listed,
    /// What its journal adds up to.
    pub state: State,
    /// Its steps, in the order in which they were first begun.
    pub steps: Vec<ShownStep>,
    /// The conversations that agents' programs keep, in the same order.
    pub talks: Vec<Talk>,
}

/// A step, as a person wants to see it.
#[derive(Debug, Clone)]
pub struct ShownStep {
    /// Its path.
    pub path: Path,
    /// Who was asked.
    pub agent: String,
    /// How often it was begun.
    pub attempts: u32,
    /// How it stands.
    pub standing: StepStanding,
    /// What it took, all attempts together.
    pub usage: Usage,
    /// How often a model answered in it, where tools were asked for.
    pub turns: u32,
    /// How many tools answered.
    pub tools: u32,
    /// How long the answer took.
    pub elapsed: Option<Duration>,
    /// Where its newest entry stands.
    pub seq: Seq,
}

/// How a step stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepStanding {
    /// Done.
    Finished,
    /// Asked, not answered.
    InFlight,
    /// Asked by a run that was lost.
    Unknown,
    /// Failed.
    Failed(Failure),
    /// To be asked again, because its question changed.
    Discarded,
    /// Stopped between two turns of a model.
    Paused,
    /// Waits for a person.
    Waiting,
}

/// A session in full, with every entry verified.
pub async fn show(world: &World, summary: Summary) -> Result<Shown, Error> {
    let lease = world.store.lease(summary.id).await?;
    let mut state = State::empty(summary.id);
    let mut steps: Vec<ShownStep> = Vec::new();
    let mut places = HashMap::new();
    let mut heard = talk::Heard::default();
    history::follow(world, summary.id, state.head, |entry| {
        heard.take(&entry.event);
        if let Some((path, _)) = entry.event.step() {
            let place = *places.entry(path.clone()).or_insert_with(|| {
                steps.push(ShownStep {
                    path: path.clone(),
                    agent: String::new(),
                    attempts: 0,
                    standing: StepStanding::InFlight,
                    usage: Usage::default(),
                    turns: 0,
                    tools: 0,
                    elapsed: None,
                    seq: entry.seq,
                });
                steps.len() - 1
            });
            tell(&mut steps[place], &entry.event);
            steps[place].seq = entry.seq;
        }
        state.apply(&entry).map_err(|illegal| Error::Senseless {
            session: summary.id,
            reason: illegal.to_string(),
        })
    })
    .await?;
    let standing = claim::standing(world, &summary, &lease);
    if standing != Status::Running {
        // Nobody is there to answer any more.
        for step in steps
            .iter_mut()
            .filter(|step| step.standing == StepStanding::InFlight)
        {
            step.standing = StepStanding::Unknown;
        }
    }
    Ok(Shown {
        listed: Listed {
            summary,
            lease,
            standing,
        },
        state,
        steps,
        talks: heard.talks(world).await?,
    })
}

fn tell(step: &mut ShownStep, event: &Event) {
    match event {
        Event::StepStarted(event) => {
            step.agent.clone_from(&event.agent);
            step.attempts += 1;
            step.standing = StepStanding::InFlight;
        }
        Event::StepFinished(event) => {
            step.standing = StepStanding::Finished;
            step.usage += event.usage;
            // The last answer of a conversation is the step's own.
            step.turns += u32::from(step.turns > 0);
            step.elapsed = Some(Duration::from_millis(event.elapsed_ms));
        }
        Event::StepFailed(event) => {
            step.standing = StepStanding::Failed(event.error.clone());
            step.usage += event.usage;
        }
        Event::StepUnknown(_) => step.standing = StepStanding::Unknown,
        Event::StepDiscarded(_) => step.standing = StepStanding::Discarded,
        Event::StepPaused(_) => step.standing = StepStanding::Paused,
        Event::ModelReplied(event) => {
            step.usage += event.usage;
            step.turns += 1;
        }
        Event::ToolFinished(_) => step.tools += 1,
        Event::TalkShortened(event) => step.usage += event.usage,
        Event::QuestionAsked(_) => {
            Finished::PERSON.clone_into(&mut step.agent);
            step.attempts += 1;
            step.standing = StepStanding::Waiting;
        }
        Event::QuestionAnswered(_) => step.standing = StepStanding::Finished,
        _ => {}
    }
}

/// Sessions that are old enough to go: over for `age`, and nobody runs them. Completed ones stay
/// if asked, and those that can still go on always do unless `unfinished` says otherwise.
pub async fn outdated(
    world: &World,
    age: Duration,
    keep_completed: bool,
    unfinished: bool,
) -> Result<Vec<Listed>, Error> {
    let now = world.clock.now();
    let (listed, _) = list(world).await?;
    let goes = |listed: &Listed| {
        let status = listed.standing;
        let chosen = match status {
            Status::Completed => !keep_completed,
            Status::Running | Status::Waiting => false,
            Status::Expired => true,
            other => other.is_final() || unfinished,
        };
        chosen && now.since(listed.summary.updated_at) >= age
    };
    Ok(listed.into_iter().filter(goes).collect())
}
