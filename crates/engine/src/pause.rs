//! Pausing a session that is being run, from anywhere.
//!
//! The wish waits in the session's inbox until its run has answered it. The run stops at the end of its
//! step, or at once when that takes too long, and takes a checkpoint. Whoever asked can wait for both,
//! and takes the checkpoint itself if the run was lost before it could.

use std::path::Path;
use std::time::Duration;

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Run, StopMode, StopRequested};
use segno_core::lease::{Liveness, Owner, Verdict};
use segno_core::session::{Status, Summary};
use segno_core::store::Message;

use crate::error::Error;
use crate::world::World;
use crate::{checkpoint, claim};

/// How often is looked whether a run has stopped.
const GLANCE: Duration = Duration::from_millis(50);

/// How many characters of a reason are kept.
const LONGEST: usize = 1000;

/// What a person asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// When.
    pub mode: StopMode,
    /// Who asks.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// A run that was told to pause.
#[derive(Debug, Clone)]
pub struct Told {
    run: Run,
    owner: Owner,
}

/// What became of it.
#[derive(Debug)]
pub struct Paused {
    /// Where the session stands: it may have come to its end before it could pause.
    pub summary: Summary,
    /// The checkpoint that was taken if it is paused, or why there is none.
    pub checkpoint: Option<Result<Manifest, Error>>,
}

/// The session of a folder that is being run.
pub async fn running(world: &World, workspace: &Path) -> Result<Summary, Error> {
    let mut found = claim::at_work(world, workspace).await?;
    match (found.pop(), &found[..]) {
        (Some((one, _)), []) => Ok(one),
        (Some(one), others) => Err(Error::Ambiguous {
            reference: workspace.display().to_string(),
            candidates: others.iter().chain([&one]).map(named).collect(),
        }),
        (None, _) => Err(Error::NothingRuns {
            workspace: workspace.to_owned(),
        }),
    }
}

fn named((summary, _): &(Summary, Owner)) -> (SessionId, Name) {
    (summary.id, summary.name.clone())
}

/// Asks the run of a session to pause.
pub async fn ask(world: &World, summary: &Summary, request: Request) -> Result<Told, Error> {
    let lease = world.store.lease(summary.id).await?;
    let (Verdict::Held, Some(owner)) = (claim::verdict(world, &lease), lease.owner.clone()) else {
        return Err(Error::NotRunning {
            name: summary.name.clone(),
            status: claim::standing(world, summary, &lease),
        });
    };
    let reason = request.reason.map(|reason| {
        // A secret that is cut in two would not be known any more.
        let reason = world.redactor.redact(&reason);
        reason.chars().take(LONGEST).collect()
    });
    let wish = Message::Stop(StopRequested {
        by: request.by,
        mode: request.mode,
        status: Status::Paused,
        reason,
        checkpoint: Some(Trigger::Pause),
    });
    world
        .store
        .post(summary.id, world.clock.now(), wish)
        .await?;
    Ok(Told {
        run: lease.run,
        owner,
    })
}

/// Waits until that run has let go of the session, and until its checkpoint is there.
pub async fn wait(world: &World, summary: &Summary, told: &Told) -> Result<Paused, Error> {
    let summary = loop {
        let lease = world.store.lease(summary.id).await?;
        if lease.run != told.run || claim::verdict(world, &lease) != Verdict::Held {
            let summary = world.store.summary(summary.id).await?;
            let status = claim::standing(world, &summary, &lease);
            break Summary { status, ..summary };
        }
        world.clock.sleep(GLANCE).await;
    };
    let checkpoint = match summary.status {
        Status::Paused => Some(kept(world, &summary, told).await),
        _ => None,
    };
    Ok(Paused {
        summary,
        checkpoint,
    })
}

/// The checkpoint that the run takes when it has ended; taken here if the run is gone without one.
async fn kept(world: &World, summary: &Summary, told: &Told) -> Result<Manifest, Error> {
    loop {
        let works = world.processes.liveness(&told.owner) == Liveness::Running;
        let (kept, _) = checkpoint::list(world, Some(summary)).await?;
        let newest = kept.into_iter().next_back();
        if let Some(newest) = newest.filter(|newest| newest.journal.seq == summary.head.seq) {
            return Ok(newest);
        }
        if !works {
            let taken = checkpoint::take(world, summary, Trigger::Pause, None, &|_, _| {});
            return Ok(taken.await?.manifest);
        }
        world.clock.sleep(GLANCE).await;
    }
}
