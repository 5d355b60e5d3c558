//! Acquires a session's lease and keeps it.
//!
//! At most one process holds the lease of a session. [`claim`] acquires it or says who holds it;
//! `keep` renews it while the run is active and reads the inbox. The store fences a run whose lease
//! was taken over; this module turns that into a stop.

use std::path::Path;
use std::time::Duration;

use segno_core::error::{Diagnose, Kind};
use segno_core::id::SessionId;
use segno_core::journal::{Run, StopMode};
use segno_core::lease::{Lease, Liveness, Owner, Verdict, judge};
use segno_core::session::{Status, Summary};
use segno_core::store::{Error as StoreError, Message};
use segno_core::time::human;

use crate::checkpoint::real;
use crate::error::Error;
use crate::memos;
use crate::observe::Observer;
use crate::pen::Pen;
use crate::stop::{Brake, Stop};
use crate::world::World;

/// How often the inbox is read while a run is active.
const INBOX_POLL: Duration = Duration::from_millis(100);

/// Acquires the lease of a session, or says who holds it. A dead owner on this machine loses it at
/// once; a suspended owner (SIGSTOP) is killed once its lease has expired.
pub async fn claim(world: &World, summary: &Summary) -> Result<Lease, Error> {
    // A caller that lost the race reads the lease again and then knows who won.
    loop {
        let seen = world.store.lease(summary.id).await?;
        match verdict(world, &seen) {
            Verdict::Held => return Err(held_error(summary, &seen)),
            Verdict::EndAndAsk => {
                if let Some(owner) = &seen.owner {
                    world
                        .processes
                        .end(owner)
                        .map_err(|error| StoreError::Unavailable {
                            place: format!("process {} on {}", owner.pid, owner.host),
                            reason: format!(
                                "it holds the session, is stopped, and cannot be ended: {error}"
                            ),
                        })?;
                }
            }
            Verdict::Ask => {}
        }
        match world
            .store
            .acquire(seen, world.processes.current(), world.ttl)
            .await
        {
            Err(StoreError::Outrun(_)) => {}
            other => return Ok(other?),
        }
    }
}

/// Whether the lease may be acquired.
pub fn verdict(world: &World, lease: &Lease) -> Verdict {
    let liveness = lease
        .owner
        .as_ref()
        .map_or(Liveness::Gone, |owner| world.processes.liveness(owner));
    judge(lease, liveness)
}

/// Refuses a session that has an active run.
pub(crate) async fn at_rest(world: &World, summary: &Summary) -> Result<(), Error> {
    let lease = world.store.lease(summary.id).await?;
    match verdict(world, &lease) {
        Verdict::Held => Err(held_error(summary, &lease)),
        Verdict::EndAndAsk | Verdict::Ask => Ok(()),
    }
}

/// The sessions of a workspace that have an active run, and the owners of the runs.
pub(crate) async fn at_work(world: &World, folder: &Path) -> Result<Vec<(Summary, Owner)>, Error> {
    let (folder, mut found) = (real(folder), Vec::new());
    for summary in world.store.list().await?.into_iter().flatten() {
        if real(Path::new(&summary.workspace)) != folder {
            continue;
        }
        let lease = world.store.lease(summary.id).await?;
        if verdict(world, &lease) == Verdict::Held
            && let Some(owner) = lease.owner
        {
            found.push((summary, owner));
        }
    }
    Ok(found)
}

/// The session's status, given its owner's liveness: a session that is recorded as `running` and
/// has lost its owner was interrupted.
pub fn standing(world: &World, summary: &Summary, lease: &Lease) -> Status {
    if summary.status == Status::Running && verdict(world, lease) != Verdict::Held {
        Status::Interrupted
    } else {
        summary.status
    }
}

fn held_error(summary: &Summary, lease: &Lease) -> Error {
    match lease.owner.clone() {
        Some(owner) => Error::Held {
            session: summary.id,
            name: summary.name.clone(),
            owner: Box::new(owner),
            since: lease.since,
            until: lease.until,
        },
        None => Error::Store(StoreError::Outrun(summary.id)),
    }
}

/// Reads the inbox. Stop requests in it trigger the stop token.
pub(crate) async fn read_stop_requests(
    world: &World,
    session: SessionId,
    stop_token: &Brake,
    observer: &dyn Observer,
) -> Vec<(u64, Message)> {
    // A failed read is repeated the next time.
    let waiting = world.store.pending(session).await.unwrap_or_default();
    for (_, message) in &waiting {
        let Message::Stop(asked) = message else {
            continue;
        };
        if stop_token.merge(Stop::from_inbox(asked.clone(), &world.redactor)) {
            let when = match asked.mode {
                StopMode::Now => "at once".to_owned(),
                StopMode::Boundary => format!("after {}", stop_token.last_piece()),
            };
            observer.notice(&match asked.status {
                Status::Cancelled => format!("someone cancelled this session; stopping {when}"),
                _ => format!("someone asked for a pause; stopping {when}"),
            });
        }
    }
    waiting
}

/// Renews the lease and reads the inbox until it is dropped. Losing the lease, or a stop request,
/// triggers the stop token. A requested pause that no step boundary honours `within` that time
/// becomes immediate. Notes from the inbox are appended to the journal.
pub(crate) async fn keep_lease(
    world: World,
    session: SessionId,
    run: Run,
    pen: Pen,
    stop_token: Brake,
    within: Duration,
    observer: std::sync::Arc<dyn Observer>,
) {
    let (mut renewed, mut asked_at) = (world.clock.elapsed(), None);
    loop {
        world.clock.sleep(INBOX_POLL).await;
        if world.clock.elapsed().saturating_sub(renewed) >= world.ttl / 3 {
            match world.store.heartbeat(session, run, world.ttl).await {
                Ok(()) => renewed = world.clock.elapsed(),
                Err(error) if matches!(error.kind(), Kind::Fenced | Kind::NotFound) => {
                    stop_token.pull(Stop::Fenced(error));
                    return;
                }
                // The store may recover before the lease expires; the next append will tell.
                Err(_) => {}
            }
        }
        let (mut notes, mut taken) = (Vec::new(), Vec::new());
        for (number, message) in read_stop_requests(&world, session, &stop_token, &*observer).await
        {
            match message {
                Message::Stop(asked) => {
                    if (asked.status, asked.mode) == (Status::Paused, StopMode::Boundary) {
                        asked_at.get_or_insert(world.clock.elapsed());
                    }
                }
                note => {
                    if let Some(note) = memos::to_event(&world, note) {
                        notes.push(note);
                        taken.push(number);
                    }
                }
            }
        }
        if !taken.is_empty() {
            // The next append reports the error.
            let _ = pen.write_and_consume(notes, taken).await;
        }
        let waited = asked_at.is_some_and(|at| world.clock.elapsed().saturating_sub(at) >= within);
        if waited && !stop_token.pulled().is_some_and(|stop| stop.is_immediate()) {
            let long = human(within);
            observer.notice(&format!(
                "no step ended within {long} of the wish to pause; stopping at once"
            ));
            let by = format!("a pause that waited {long}");
            stop_token.pull(Stop::asked(&by, StopMode::Now, Status::Paused));
        }
    }
}
