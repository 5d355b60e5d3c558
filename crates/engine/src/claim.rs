//! Getting a session's lease, and keeping it.

use std::time::Duration;

use segno_core::error::{Diagnose, Kind};
use segno_core::id::SessionId;
use segno_core::journal::{Run, StopMode};
use segno_core::lease::{Lease, Liveness, Verdict, judge};
use segno_core::session::{Status, Summary};
use segno_core::store::{Error as StoreError, Message};

use crate::error::Error;
use crate::observe::Observer;
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

/// Keeps a lease and looks at the inbox, until it is dropped. Being overtaken, or a wish to stop,
/// pulls the brake.
pub(crate) async fn keep(
    world: World,
    session: SessionId,
    run: Run,
    brake: Brake,
    observer: std::sync::Arc<dyn Observer>,
) {
    let mut renewed = world.clock.elapsed();
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
        for (_, message) in world.store.pending(session).await.unwrap_or_default() {
            let Message::Cancel { mode, by } = message else {
                continue;
            };
            let before = brake.pulled();
            brake.pull(Stop::Asked {
                by,
                mode,
                status: Status::Cancelled,
            });
            if brake.pulled() != before {
                let when = if mode == StopMode::Now {
                    "at once"
                } else {
                    "after this step"
                };
                observer.notice(&format!("someone cancelled this session; stopping {when}"));
            }
        }
    }
}
