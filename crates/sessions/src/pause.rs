//! Pauses a running session from any process.
//!
//! The request waits in the session's inbox until the run has handled it. The run stops at the end
//! of its step, or immediately if that takes too long, and creates a checkpoint. The caller can
//! wait for both, and creates the checkpoint itself if the run was lost before it could.

use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Run, StopMode, StopRequested};
use segno_core::lease::{Liveness, Owner};
use segno_core::session::Status;
use segno_core::store::{Error as StoreError, InboxMessage, Summary};
use segno_engine::{Env, checkpoint, lease};

use crate::background;
use crate::listing::Ambiguous;

/// How often [`wait`] checks whether a run has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a process that ended its run may take for the checkpoint of the pause.
const CHECKPOINT_TIME: Duration = Duration::from_mins(5);

/// The limit of characters of a reason.
const MAX_REASON: usize = 1000;

/// Why no pause could be requested.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no session is running in {}", .workspace.display())]
    NoRunningSession { workspace: PathBuf },
    /// Several sessions run in the folder.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    /// The requested run of the session cannot be withdrawn.
    #[error(transparent)]
    Background(#[from] background::Error),
    #[error("session `{name}` is not running; it is {status}")]
    NotRunning { name: Name, status: Status },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::NoRunningSession { .. } => Diagnosis::new(Kind::NotFound, "S0115")
                .hint("`segno status` shows the running sessions"),
            Self::Ambiguous(error) => error.diagnosis(),
            Self::Background(error) => error.diagnosis(),
            Self::NotRunning { name, status } if status.is_resumable() => {
                Diagnosis::new(Kind::Conflict, "S0116")
                    .hint(format!("`segno resume {name}` continues it"))
            }
            Self::NotRunning { .. } => Diagnosis::new(Kind::Conflict, "S0116"),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Request {
    pub mode: StopMode,
    pub by: String,
    pub reason: Option<String>,
}

/// What a request to pause did.
#[derive(Debug, Clone)]
pub enum Requested {
    /// The run was asked.
    Sent(SentRequest),
    /// The session waited for a run, which does not take place now.
    Withdrawn(Box<Summary>),
}

/// A run that was sent a pause request.
#[derive(Debug, Clone)]
pub struct SentRequest {
    run: Run,
    owner: Owner,
}

#[derive(Debug)]
pub struct Paused {
    /// The session afterwards: it may have completed before it could pause.
    pub summary: Summary,
    /// The checkpoint of a paused session, or why there is none.
    pub checkpoint: Option<Result<Manifest, checkpoint::Error>>,
}

/// The session that runs in a folder.
pub async fn running(env: &Env, workspace: &Path) -> Result<Summary, Error> {
    let mut found = lease::active_sessions(env, workspace).await?;
    match (found.pop(), &found[..]) {
        (Some((one, _)), []) => Ok(one),
        (Some(one), others) => Err(Ambiguous {
            reference: workspace.display().to_string(),
            candidates: others.iter().chain([&one]).map(id_and_name).collect(),
        }
        .into()),
        (None, _) => Err(Error::NoRunningSession {
            workspace: workspace.to_owned(),
        }),
    }
}

fn id_and_name((summary, _): &(Summary, Owner)) -> (SessionId, Name) {
    (summary.id, summary.name.clone())
}

/// Sends a pause request to the run of a session. A run that has not started is withdrawn.
pub async fn request(env: &Env, summary: &Summary, request: Request) -> Result<Requested, Error> {
    if summary.status == Status::Pending {
        let withdrawn = background::withdraw(env, summary, &request.by).await?;
        return Ok(Requested::Withdrawn(Box::new(withdrawn)));
    }
    let lease = env.store.lease(summary.id).await?;
    let (true, Some(owner)) = (lease::verdict(env, &lease).is_held(), lease.owner.clone()) else {
        return Err(Error::NotRunning {
            name: summary.name.clone(),
            status: lease::effective_status(env, summary, &lease),
        });
    };
    let reason = request.reason.map(|reason| {
        // Redacted first: half a secret would not be recognised.
        let reason = env.redactor.redact(&reason);
        reason.chars().take(MAX_REASON).collect()
    });
    let message = InboxMessage::Stop(StopRequested {
        by: request.by,
        mode: request.mode,
        status: Status::Paused,
        reason,
        checkpoint: Some(Trigger::Pause),
    });
    env.store.post(summary.id, env.clock.now(), message).await?;
    Ok(Requested::Sent(SentRequest {
        run: lease.run,
        owner,
    }))
}

/// Waits until the run has released the session, and until its checkpoint exists.
pub async fn wait(env: &Env, summary: &Summary, sent: &SentRequest) -> Result<Paused, StoreError> {
    let summary = loop {
        let lease = env.store.lease(summary.id).await?;
        if lease.run != sent.run || !lease::verdict(env, &lease).is_held() {
            let summary = env.store.summary(summary.id).await?;
            let status = lease::effective_status(env, &summary, &lease);
            break Summary { status, ..summary };
        }
        env.clock.sleep(POLL_INTERVAL).await;
    };
    let checkpoint = match summary.status {
        Status::Paused => Some(wait_for_checkpoint(env, &summary, sent).await),
        _ => None,
    };
    Ok(Paused {
        summary,
        checkpoint,
    })
}

/// The checkpoint that the run creates at its end; created here if the run is gone without one.
async fn wait_for_checkpoint(
    env: &Env,
    summary: &Summary,
    sent: &SentRequest,
) -> Result<Manifest, checkpoint::Error> {
    let deadline = env.clock.elapsed() + CHECKPOINT_TIME;
    loop {
        // A process that only appended to the session lives on, and takes no checkpoint.
        let works = sent.owner != env.processes.current()
            && env.processes.liveness(&sent.owner) == Liveness::Running
            && env.clock.elapsed() < deadline;
        let (checkpoints, _) = checkpoint::list(env, Some(summary)).await?;
        let newest = checkpoints.into_iter().next_back();
        if let Some(newest) = newest.filter(|newest| newest.journal.seq == summary.head.seq) {
            return Ok(newest);
        }
        if !works {
            let taken = checkpoint::create(env, summary, Trigger::Pause, None, &|_, _| {});
            return Ok(taken.await?.manifest);
        }
        env.clock.sleep(POLL_INTERVAL).await;
    }
}
