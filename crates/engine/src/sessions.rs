//! Lists, finds and shows sessions.

use std::collections::HashMap;
use std::path::Path as Folder;
use std::time::Duration;

use segno_core::error::{Diagnose, Kind as ErrorKind};
use segno_core::id::{self, Name, SessionId, Unresolved};
use segno_core::journal::{Event, Failure, Seq, Suspension};
use segno_core::lease::Lease;
use segno_core::session::Status;
use segno_core::state::{FinishedSteps, State};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::store::{Error as StoreError, TrashedSession};
use segno_core::usage::Usage;

use crate::conversations::{self, Conversation};
use crate::env::Env;
use crate::error::Error;
use crate::{history, lease, trash};

#[derive(Debug, Clone)]
pub struct ListedSession {
    pub summary: Summary,
    pub lease: Lease,
    /// The status, given whether the owner of the lease is alive.
    pub status: Status,
}

/// All sessions, newest first, and the errors of unreadable ones.
pub async fn list(env: &Env) -> Result<(Vec<ListedSession>, Vec<StoreError>), Error> {
    let (mut listed, mut damaged) = (Vec::new(), Vec::new());
    for found in env.store.list().await? {
        match found {
            Ok(summary) => match env.store.lease(summary.id).await {
                Ok(lease) => listed.push(ListedSession {
                    status: lease::effective_status(env, &summary, &lease),
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
    env: &Env,
    listed: &[ListedSession],
) -> HashMap<SessionId, (Path, Suspension)> {
    let now = env.clock.now();
    let mut found = HashMap::new();
    for listed in listed.iter().filter(|listed| listed.status.is_resumable()) {
        let session = listed.summary.id;
        let Ok(state) = history::load_state(env, session).await else {
            continue;
        };
        if let Some((path, suspension)) = state.suspended(now) {
            found.insert(session, (path.clone(), suspension));
        }
    }
    found
}

/// The newest session with this workspace. Skips unreadable sessions.
pub async fn newest_in(env: &Env, folder: &Folder) -> Result<Option<Summary>, Error> {
    let mut readable = env.store.list().await?.into_iter().flatten();
    Ok(readable.find(|summary| Folder::new(&summary.workspace) == folder))
}

/// Resolves a session reference: an id, a name, or the beginning of either.
pub async fn find(env: &Env, reference: &str) -> Result<Summary, Error> {
    if let Some(discarded) = in_trash(env, reference).await? {
        return Err(discarded);
    }
    if let Ok(session) = reference.parse::<SessionId>() {
        return match env.store.summary(session).await {
            Err(StoreError::NoSession(_)) => Err(Error::NoSuchSession {
                reference: reference.to_owned(),
            }),
            other => Ok(other?),
        };
    }
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    for found in env.store.list().await? {
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
async fn in_trash(env: &Env, reference: &str) -> Result<Option<Error>, Error> {
    let id = reference.parse::<SessionId>().ok();
    let means = |found: &TrashedSession| {
        id == Some(found.session)
            || found
                .name
                .as_ref()
                .is_some_and(|name| name.as_str() == reference)
    };
    let trashed = match env.store.list_trash().await {
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
    if id.is_none() && env.store.list().await?.iter().any(named) {
        return Ok(None);
    }
    Ok(Some(Error::InTrash {
        session: found.session,
        name: trash::name(&found),
    }))
}

/// A session with all its steps and conversations.
#[derive(Debug, Clone)]
pub struct SessionDetails {
    pub listed: ListedSession,
    /// The state after all events of the journal.
    pub state: State,
    /// In the order in which they were first started.
    pub steps: Vec<StepDetails>,
    /// The conversations of CLI agents, in the same order.
    pub conversations: Vec<Conversation>,
}

#[derive(Debug, Clone)]
pub struct StepDetails {
    pub path: Path,
    pub agent: String,
    /// How often it was started.
    pub attempts: u32,
    pub status: StepStatus,
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
pub enum StepStatus {
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
pub async fn show(env: &Env, summary: Summary) -> Result<SessionDetails, Error> {
    let lease = env.store.lease(summary.id).await?;
    let mut state = State::empty(summary.id);
    let mut steps: Vec<StepDetails> = Vec::new();
    let mut indexes = HashMap::new();
    let mut conversations = conversations::Collector::default();
    history::read_events(env, summary.id, state.head, |entry| {
        conversations.apply(&entry.event);
        if let Some((path, _)) = entry.event.step() {
            let index = *indexes.entry(path.clone()).or_insert_with(|| {
                steps.push(StepDetails {
                    path: path.clone(),
                    agent: String::new(),
                    attempts: 0,
                    status: StepStatus::InFlight,
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
        state
            .apply(&entry)
            .map_err(|illegal| Error::InvalidJournal {
                session: summary.id,
                reason: illegal.to_string(),
            })
    })
    .await?;
    let standing = lease::effective_status(env, &summary, &lease);
    if standing != Status::Running {
        // No run is left to finish the step.
        for step in steps
            .iter_mut()
            .filter(|step| step.status == StepStatus::InFlight)
        {
            step.status = StepStatus::Unknown;
        }
    }
    Ok(SessionDetails {
        listed: ListedSession {
            summary,
            lease,
            status: standing,
        },
        state,
        steps,
        conversations: conversations.finish(env).await?,
    })
}

fn apply_event(step: &mut StepDetails, event: &Event) {
    match event {
        Event::StepStarted(event) => {
            step.agent.clone_from(&event.agent);
            step.attempts += 1;
            step.status = StepStatus::InFlight;
        }
        Event::StepFinished(event) => {
            step.status = StepStatus::Finished;
            step.usage += event.usage;
            // The last answer of a conversation is the answer of the step.
            step.turns += u32::from(step.turns > 0);
            step.elapsed = Some(Duration::from_millis(event.elapsed_ms));
        }
        Event::StepFailed(event) => {
            step.status = StepStatus::Failed(event.error.clone());
            step.usage += event.usage;
        }
        Event::StepUnknown(_) => step.status = StepStatus::Unknown,
        Event::StepDiscarded(_) => step.status = StepStatus::Discarded,
        Event::StepPaused(_) => step.status = StepStatus::Paused,
        Event::ModelReplied(event) => {
            step.usage += event.usage;
            step.turns += 1;
        }
        Event::ToolFinished(_) => step.tools += 1,
        Event::ConversationCompacted(event) => step.usage += event.usage,
        Event::QuestionAsked(_) => {
            FinishedSteps::USER.clone_into(&mut step.agent);
            step.attempts += 1;
            step.status = StepStatus::Waiting;
        }
        Event::QuestionAnswered(_) => step.status = StepStatus::Finished,
        _ => {}
    }
}

/// The sessions that are old enough to delete: unchanged for `age`, and no run holds them.
/// Completed sessions stay with `keep_completed`. Resumable sessions stay unless `unfinished` is
/// set.
pub async fn outdated(
    env: &Env,
    age: Duration,
    keep_completed: bool,
    unfinished: bool,
) -> Result<Vec<ListedSession>, Error> {
    let now = env.clock.now();
    let (listed, _) = list(env).await?;
    let goes = |listed: &ListedSession| {
        let status = listed.status;
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
