//! Acquires a session's lease and keeps it.
//!
//! At most one process holds the lease of a session. [`acquire`] acquires it or says who holds it;
//! `keep_lease` renews it while the run is active and reads the inbox. The store fences a run whose
//! lease was taken over; this module turns that into a stop.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Run, StopMode};
use segno_core::lease::{Lease, LeaseDecision, Liveness, Owner, assess};
use segno_core::session::Status;
use segno_core::store::{Error as StoreError, Filter, InboxMessage, Summary};
use segno_core::time::{Timestamp, format_duration};

use crate::agent_state;
use crate::env::Env;
use crate::journal::Writer;
use crate::note_events;
use crate::observe::Observer;
use crate::stop::{Stop, StopToken};
use crate::workspace::canonical;

/// How often the inbox is read while a run is active.
const INBOX_POLL: Duration = Duration::from_millis(100);

/// How long to wait for a process that holds the lock of a session for a moment only: to acquire
/// the lease, or to look at it.
const MOST_WAIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// Why the lease of a session cannot be acquired.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another run holds it.
    #[error("session `{name}` ({session}) is running in process {} on {} since {since}", .owner.pid, .owner.host)]
    Held {
        session: SessionId,
        name: Name,
        owner: Box<Owner>,
        since: Timestamp,
    },
    /// A run holds it whose process lives and is stopped.
    #[error("session `{name}` ({session}) is held by process {} on {} since {since}, and that process is stopped", .owner.pid, .owner.host)]
    HeldByStopped {
        session: SessionId,
        name: Name,
        owner: Box<Owner>,
        since: Timestamp,
    },
    /// The process that holds it cannot be ended.
    #[error("process {} on {}, which holds session `{name}`, cannot be ended: {reason}", .owner.pid, .owner.host)]
    NotEnded {
        name: Name,
        owner: Box<Owner>,
        reason: String,
    },
}

impl Error {
    /// Whether a run holds the session.
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. } | Self::HeldByStopped { .. })
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Held { name, .. } => Diagnosis::new(Kind::Locked, "S0107").hint(format!(
                "`segno logs -f {name}` follows it, `segno cancel {name}` cancels it"
            )),
            Self::HeldByStopped { name, owner, .. } => {
                let pid = owner.pid;
                Diagnosis::new(Kind::Locked, "S0117").hint(format!(
                    "`kill -CONT {pid}` lets it continue; `segno resume {name} --take-over` ends it and resumes"
                ))
            }
            Self::NotEnded { name, .. } => Diagnosis::new(Kind::Locked, "S0118").hint(format!(
                "end the process where it runs, then `segno resume {name}`"
            )),
        }
    }
}

/// Acquires the lease of a session, or says who holds it. A dead owner on this machine loses it at
/// once. A stopped owner (SIGSTOP) is ended only if the user's settings say so.
pub async fn acquire(env: &Env, summary: &Summary) -> Result<Lease, Error> {
    let begun = env.clock.elapsed();
    // A caller that lost the race reads the lease again and then knows who won.
    loop {
        let seen = env.store.lease(summary.id).await?;
        let decision = verdict(env, &seen);
        match (decision, &seen.owner) {
            (LeaseDecision::HeldByStopped, Some(owner)) if env.end_stopped_owners => {
                end(env, summary, owner)?;
            }
            (LeaseDecision::Held | LeaseDecision::HeldByStopped, Some(_))
                if !is_changing_hands(env, &seen) =>
            {
                return Err(held_error(summary, &seen, decision));
            }
            // Another process is about to become the owner, or has just died.
            (LeaseDecision::Held | LeaseDecision::HeldByStopped, _) => {}
            (LeaseDecision::Acquire, _) => {
                let owner = env.processes.current();
                match env.store.acquire(seen, owner, env.ttl).await {
                    Err(StoreError::LeaseChanged(_)) => {}
                    other => return Ok(other?),
                }
            }
        }
        if env.clock.elapsed().saturating_sub(begun) >= MOST_WAIT {
            return Err(StoreError::LeaseChanged(summary.id).into());
        }
        env.clock.sleep(POLL).await;
    }
}

/// Whether the lock is held although the recorded owner is gone: by a process that is acquiring the
/// lease right now.
fn is_changing_hands(env: &Env, lease: &Lease) -> bool {
    let owner = lease.owner.as_ref();
    owner.is_some_and(|owner| env.processes.liveness(owner) == Liveness::Gone)
}

/// Ends the process that holds a session, running or stopped. Does nothing if nobody holds it.
pub async fn end_owner(env: &Env, summary: &Summary) -> Result<(), Error> {
    let lease = env.store.lease(summary.id).await?;
    match &lease.owner {
        Some(owner) if verdict(env, &lease).is_held() => end(env, summary, owner),
        _ => Ok(()),
    }
}

fn end(env: &Env, summary: &Summary, owner: &Owner) -> Result<(), Error> {
    let failed = |reason: String| Error::NotEnded {
        name: summary.name.clone(),
        owner: Box::new(owner.clone()),
        reason,
    };
    if env.processes.liveness(owner) == Liveness::Unobservable {
        return Err(failed(
            "it runs in another container or on another machine".into(),
        ));
    }
    env.processes
        .kill(owner)
        .map_err(|error| failed(error.to_string()))
}

/// Whether the lease may be acquired.
pub fn verdict(env: &Env, lease: &Lease) -> LeaseDecision {
    let liveness = lease
        .owner
        .as_ref()
        .map_or(Liveness::Gone, |owner| env.processes.liveness(owner));
    assess(lease, liveness)
}

/// Refuses a session that has an active run.
pub async fn refuse_if_running(env: &Env, summary: &Summary) -> Result<(), Error> {
    let lease = env.store.lease(summary.id).await?;
    let decision = verdict(env, &lease);
    if decision.is_held() {
        Err(held_error(summary, &lease, decision))
    } else {
        Ok(())
    }
}

/// The sessions of a workspace that have an active run, and the owners of the runs.
pub async fn active_sessions(
    env: &Env,
    folder: &Path,
) -> Result<Vec<(Summary, Owner)>, StoreError> {
    let (folder, mut found) = (canonical(folder), Vec::new());
    // Many sessions share few workspaces.
    let mut is_here: HashMap<String, bool> = HashMap::new();
    for summary in env.store.list(Filter::open()).await?.into_iter().flatten() {
        let workspace = &summary.workspace;
        let is_here = is_here
            .entry(workspace.clone())
            .or_insert_with(|| canonical(Path::new(workspace)) == folder);
        if !*is_here {
            continue;
        }
        let lease = env.store.lease(summary.id).await?;
        if verdict(env, &lease).is_held()
            && let Some(owner) = lease.owner
        {
            found.push((summary, owner));
        }
    }
    Ok(found)
}

/// The session's status, given its owner's liveness: a session that is recorded as `running` and
/// has lost its owner was interrupted.
pub fn effective_status(env: &Env, summary: &Summary, lease: &Lease) -> Status {
    if summary.status == Status::Running && !verdict(env, lease).is_held() {
        Status::Interrupted
    } else {
        summary.status
    }
}

fn held_error(summary: &Summary, lease: &Lease, decision: LeaseDecision) -> Error {
    let Some(owner) = lease.owner.clone().map(Box::new) else {
        return Error::Store(StoreError::LeaseChanged(summary.id));
    };
    let (session, name, since) = (summary.id, summary.name.clone(), lease.since);
    if decision == LeaseDecision::HeldByStopped {
        Error::HeldByStopped {
            session,
            name,
            owner,
            since,
        }
    } else {
        Error::Held {
            session,
            name,
            owner,
            since,
        }
    }
}

/// Reads the inbox. Stop requests in it trigger the stop token.
pub(crate) async fn read_stop_requests(
    env: &Env,
    session: SessionId,
    stop_token: &StopToken,
    observer: &dyn Observer,
) -> Vec<(u64, InboxMessage)> {
    // A failed read is repeated the next time.
    let waiting = env.store.pending(session).await.unwrap_or_default();
    for (_, message) in &waiting {
        let InboxMessage::Stop(asked) = message else {
            continue;
        };
        if stop_token.merge(Stop::from_inbox(asked.clone(), &env.redactor)) {
            let when = match asked.mode {
                StopMode::Now => "now".to_owned(),
                StopMode::Boundary => format!("after {}", stop_token.stops_after()),
            };
            observer.notice(&match asked.status {
                Status::Cancelled => format!("this session was cancelled; stopping {when}"),
                _ => format!("a pause was requested; stopping {when}"),
            });
        }
    }
    waiting
}

/// Renews the lease and reads the inbox until it is dropped. Losing the lease, or a stop request,
/// triggers the stop token. A requested pause that no step boundary honours `within` that time
/// becomes immediate. Notes and changes of agents' state from the inbox are appended to the journal.
pub(crate) async fn keep_lease(
    env: Env,
    session: SessionId,
    run: Run,
    journal: Writer,
    stop_token: StopToken,
    within: Duration,
    observer: std::sync::Arc<dyn Observer>,
) {
    let (mut renewed, mut asked_at) = (env.clock.elapsed(), None);
    loop {
        env.clock.sleep(INBOX_POLL).await;
        if env.clock.elapsed().saturating_sub(renewed) >= env.ttl / 3 {
            match env.store.heartbeat(session, run, env.ttl).await {
                Ok(()) => renewed = env.clock.elapsed(),
                Err(error) if matches!(error.kind(), Kind::Fenced | Kind::NotFound) => {
                    stop_token.request_stop(Stop::Fenced(error));
                    return;
                }
                // The store may recover before the lease expires; the next append will tell.
                Err(_) => {}
            }
        }
        let (mut notes, mut taken) = (Vec::new(), Vec::new());
        let mut changes_state = false;
        for (number, message) in read_stop_requests(&env, session, &stop_token, &*observer).await {
            match message {
                InboxMessage::Stop(asked) => {
                    if (asked.status, asked.mode) == (Status::Paused, StopMode::Boundary) {
                        asked_at.get_or_insert(env.clock.elapsed());
                    }
                }
                InboxMessage::AgentState { .. } => changes_state = true,
                note => {
                    if let Some(note) = note_events::to_event(&env, note) {
                        notes.push(note);
                        taken.push(number);
                    }
                }
            }
        }
        if !taken.is_empty() {
            // The next append reports the error.
            let _ = journal.write_and_consume(notes, taken).await;
        }
        if changes_state {
            let _ = agent_state::consume_inbox(&env, session, &journal).await;
        }
        let waited = asked_at.is_some_and(|at| env.clock.elapsed().saturating_sub(at) >= within);
        if waited
            && !stop_token
                .requested()
                .is_some_and(|stop| stop.is_immediate())
        {
            let long = format_duration(within);
            observer.notice(&format!(
                "no step finished within {long} after the pause request; stopping now"
            ));
            let by = format!("a pause request after {long}");
            stop_token.request_stop(Stop::request(&by, StopMode::Now, Status::Paused));
        }
    }
}
