//! Getting a session's lease, and keeping it.

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

/// How often the inbox is looked at while a run goes on.
const GLANCE: Duration = Duration::from_millis(100);

/// Gets the lease of a session, or says who has it. An owner on this machine that is dead is
/// noticed at once; one that is stopped is ended once its lease ran out.
pub async fn claim(world: &World, summary: &Summary) -> Result<Lease, Error> {
    // Whoever is outrun looks once more, and then knows who was faster.
    loop {
        let seen = world.store.lease(summary.id).await?;
        match verdict(world, &seen) {
            Verdict::Held => return Err(held(summary, &seen)),
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

/// Whether a lease may be asked for.
pub fn verdict(world: &World, lease: &Lease) -> Verdict {
    let liveness = lease
        .owner
        .as_ref()
        .map_or(Liveness::Gone, |owner| world.processes.liveness(owner));
    judge(lease, liveness)
}

/// Refuses a session that somebody runs.
pub(crate) async fn at_rest(world: &World, summary: &Summary) -> Result<(), Error> {
    let lease = world.store.lease(summary.id).await?;
    match verdict(world, &lease) {
        Verdict::Held => Err(held(summary, &lease)),
        Verdict::EndAndAsk | Verdict::Ask => Ok(()),
    }
}

/// The sessions of a folder that are being run, and by whom.
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

/// Where a session stands, given how its owner is doing: one that says `running` and has lost its
/// owner was interrupted.
pub fn standing(world: &World, summary: &Summary, lease: &Lease) -> Status {
    if summary.status == Status::Running && verdict(world, lease) != Verdict::Held {
        Status::Interrupted
    } else {
        summary.status
    }
}

fn held(summary: &Summary, lease: &Lease) -> Error {
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

/// What waits in the inbox. Whoever wants the run to stop pulls the brake.
pub(crate) async fn hear_wishes(
    world: &World,
    session: SessionId,
    brake: &Brake,
    observer: &dyn Observer,
) -> Vec<(u64, Message)> {
    // What cannot be read now is read the next time.
    let waiting = world.store.pending(session).await.unwrap_or_default();
    for (_, message) in &waiting {
        let Message::Stop(asked) = message else {
            continue;
        };
        if brake.add(Stop::heard(asked.clone(), &world.redactor)) {
            let when = match asked.mode {
                StopMode::Now => "at once".to_owned(),
                StopMode::Boundary => format!("after {}", brake.last_piece()),
            };
            observer.notice(&match asked.status {
                Status::Cancelled => format!("someone cancelled this session; stopping {when}"),
                _ => format!("someone asked for a pause; stopping {when}"),
            });
        }
    }
    waiting
}

/// Keeps a lease and looks at the inbox, until it is dropped. Being overtaken, or a wish to stop,
/// pulls the brake. A pause that no boundary answers `within` that time is had at once. Memos are
/// taken into the journal.
pub(crate) async fn keep(
    world: World,
    session: SessionId,
    run: Run,
    pen: Pen,
    brake: Brake,
    within: Duration,
    observer: std::sync::Arc<dyn Observer>,
) {
    let (mut renewed, mut asked_at) = (world.clock.elapsed(), None);
    loop {
        world.clock.sleep(GLANCE).await;
        if world.clock.elapsed().saturating_sub(renewed) >= world.ttl / 3 {
            match world.store.heartbeat(session, run, world.ttl).await {
                Ok(()) => renewed = world.clock.elapsed(),
                Err(error) if matches!(error.kind(), Kind::Fenced | Kind::NotFound) => {
                    brake.pull(Stop::Fenced(error));
                    return;
                }
                // It may work again before the lease runs out; the next append will tell.
                Err(_) => {}
            }
        }
        let (mut memos, mut taken) = (Vec::new(), Vec::new());
        for (number, message) in hear_wishes(&world, session, &brake, &*observer).await {
            match message {
                Message::Stop(asked) => {
                    if (asked.status, asked.mode) == (Status::Paused, StopMode::Boundary) {
                        asked_at.get_or_insert(world.clock.elapsed());
                    }
                }
                memo => {
                    if let Some(memo) = memos::event(&world, memo) {
                        memos.push(memo);
                        taken.push(number);
                    }
                }
            }
        }
        if !taken.is_empty() {
            // Whoever writes next hears of an error.
            let _ = pen.take(memos, taken).await;
        }
        let waited = asked_at.is_some_and(|at| world.clock.elapsed().saturating_sub(at) >= within);
        if waited && !brake.pulled().is_some_and(|stop| stop.is_immediate()) {
            let long = human(within);
            observer.notice(&format!(
                "no step ended within {long} of the wish to pause; stopping at once"
            ));
            let by = format!("a pause that waited {long}");
            brake.pull(Stop::asked(&by, StopMode::Now, Status::Paused));
        }
    }
}
