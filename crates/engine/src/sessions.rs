//! Lists, finds and shows sessions.

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

#[derive(Debug, Clone)]
pub struct Listed {
    pub summary: Summary,
    pub lease: Lease,
    /// The status, given whether the owner of the lease is alive.
    pub standing: Status,
}

/// All sessions, newest first, and the errors of unreadable ones.
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

/// The sessions of a list in which all work waits for the end of a rate limit. Skips unreadable
/// sessions.
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

/// The newest session with this workspace. Skips unreadable sessions.
pub async fn newest_in(world: &World, folder: &Folder) -> Result<Option<Summary>, Error> {
    let mut readable = world.store.list().await?.into_iter().flatten();
    Ok(readable.find(|summary| Folder::new(&summary.workspace) == folder))
}

/// Resolves a session reference: an id, a name, or the beginning of either.
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
    // The name of a damaged session is unknown. Unless the reference matches another name exactly,
    // the damaged session may be meant, so its error is returned.
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

/// `Error::InTrash`, if the session with this whole id or name is in the trash and no other session
/// has the name.
async fn in_trash(world: &World, reference: &str) -> Result<Option<Error>, Error> {
    let id = reference.parse::<SessionId>().ok();
    let means = |found: &Discarded| {
        id == Some(found.session)
            || found
                .name
                .as_ref()
                .is_some_and(|name| name.as_str() == reference)
    };
    let trashed = match world.store.discarded().await {
        // An unreadable trash does not prevent finding readable sessions.
        Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
        other => other?,
    };
    let Some(found) = trashed.into_iter().flatten().find(means) else {
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

/// A session with all its steps and conversations.
#[derive(Debug, Clone)]
pub struct Shown {
    pub listed: Listed,
    /// The state after all events of the journal.
    pub state: State,
    /// In the order in which they were first started.
    pub steps: Vec<ShownStep>,
    /// The conversations of CLI agents, in the same order.
    pub talks: Vec<Talk>,
}

#[derive(Debug, Clone)]
pub struct ShownStep {
    pub path: Path,
    pub agent: String,
    /// How often it was started.
    pub attempts: u32,
    pub standing: StepStanding,
    /// All attempts together.
    pub usage: Usage,
    /// How often a model answered, if the step used tools.
    pub turns: u32,
    /// How many tool calls were answered.
    pub tools: u32,
    /// The duration of the answer.
    pub elapsed: Option<Duration>,
    /// The position of its newest event.
    pub seq: Seq,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepStanding {
    Finished,
    /// Started, not finished.
    InFlight,
    /// Started by a run that was lost.
    Unknown,
    Failed(Failure),
    /// Will run again, because its prompt changed.
    Discarded,
    /// Stopped between two turns of a model.
    Paused,
    /// Waits for a human.
    Waiting,
}

/// Reads a session, and verifies every event.
pub async fn show(world: &World, summary: Summary) -> Result<Shown, Error> {
    let lease = world.store.lease(summary.id).await?;
    let mut state = State::empty(summary.id);
    let mut steps: Vec<ShownStep> = Vec::new();
    let mut indexes = HashMap::new();
    let mut conversations = talk::Collector::default();
    history::follow(world, summary.id, state.head, |entry| {
        conversations.apply(&entry.event);
        if let Some((path, _)) = entry.event.step() {
            let index = *indexes.entry(path.clone()).or_insert_with(|| {
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
            apply_event(&mut steps[index], &entry.event);
            steps[index].seq = entry.seq;
        }
        state.apply(&entry).map_err(|illegal| Error::Senseless {
            session: summary.id,
            reason: illegal.to_string(),
        })
    })
    .await?;
    let standing = claim::standing(world, &summary, &lease);
    if standing != Status::Running {
        // No run is left to finish the step.
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
        talks: conversations.finish(world).await?,
    })
}

fn apply_event(step: &mut ShownStep, event: &Event) {
    match event {
        Event::StepStarted(event) => {
            step.agent.clone_from(&event.agent);
            step.attempts += 1;
            step.standing = StepStanding::InFlight;
        }
        Event::StepFinished(event) => {
            step.standing = StepStanding::Finished;
            step.usage += event.usage;
            // The last answer of a conversation is the answer of the step.
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

/// The sessions that are old enough to delete: unchanged for `age`, and no run holds them.
/// Completed sessions stay with `keep_completed`. Resumable sessions stay unless `unfinished` is
/// set.
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
