//! What users ask of sessions, wherever the sessions are: in a home of this machine ([`Local`]), or
//! behind a server.
//!
//! Reading needs no such trait: a server's sessions are a [`Store`](segno_core::store::Store), too.

use std::sync::Arc;

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::error::{Diagnose, Diagnosis};
use segno_core::id::CheckpointId;
use segno_core::journal::{RunOptions, StopMode};
use segno_core::note::Source;
use segno_core::ports::Boxed;
use segno_core::session::Status;
use segno_core::snapshot::Progress;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_engine::observe::NoObserver;

use crate::cancel::{self, Cancelled};
use crate::checkpoint::{self, NewCheckpoint, RestoreOutcome};
use crate::fork::{self, Forked};
use crate::notes::{self, Author, Change, Recorded};
use crate::pause::{self, Paused, Requested};
use crate::start::Request;
use crate::unknown::Decision;
use crate::{answer, background};

/// Why a request was refused or failed: an error of a use case, whatever its type.
#[derive(Debug)]
pub struct Failed(Box<dyn Diagnose + Send + Sync>);

impl Failed {
    pub fn new(error: impl Diagnose + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Diagnose for Failed {
    fn diagnosis(&self) -> Diagnosis {
        self.0.diagnosis()
    }
}

/// The answer to a request.
pub type Reply<'a, T> = Boxed<'a, Result<T, Failed>>;

/// A request to pause.
#[derive(Debug, Clone)]
pub struct Pause {
    pub mode: StopMode,
    pub reason: Option<String>,
    /// Whether the answer waits until the session is paused and its checkpoint exists.
    pub wait: bool,
}

/// What became of a request to pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseOutcome {
    /// The run was asked.
    Requested,
    /// The session stopped: it may have completed before it could pause.
    Stopped {
        status: Status,
        checkpoint: Option<CheckpointId>,
        /// Why there is no checkpoint.
        problem: Option<String>,
    },
}

/// Changes sessions.
pub trait Control: Send + Sync {
    fn pause<'a>(&'a self, session: &'a Summary, request: Pause) -> Reply<'a, PauseOutcome>;

    fn cancel<'a>(&'a self, session: &'a Summary, mode: StopMode) -> Reply<'a, Cancelled>;

    /// Answers a question. Returns the step that asked.
    fn answer<'a>(
        &'a self,
        session: &'a Summary,
        step: Option<&'a str>,
        text: &'a str,
    ) -> Reply<'a, Path>;

    /// Writes, corrects or withdraws notes of the user.
    fn note<'a>(
        &'a self,
        session: &'a Summary,
        step: Option<Path>,
        change: Change,
    ) -> Reply<'a, Recorded>;

    /// Asks a worker to run the session.
    /// The decisions say what became of steps whose outcome is unknown.
    fn request_run<'a>(
        &'a self,
        session: &'a Summary,
        options: RunOptions,
        decisions: &'a [Decision],
    ) -> Reply<'a, Summary>;

    /// Creates a session for a worker to run.
    fn submit<'a>(
        &'a self,
        request: Request,
        notice: &'a (dyn Fn(&str) + Sync),
    ) -> Reply<'a, Summary>;

    /// Takes a checkpoint.
    fn checkpoint<'a>(
        &'a self,
        session: &'a Summary,
        note: Option<String>,
        progress: &'a Progress,
    ) -> Reply<'a, NewCheckpoint>;

    /// Verifies the data of a checkpoint, and returns what is wrong.
    fn verify<'a>(
        &'a self,
        manifest: &'a Manifest,
        progress: &'a Progress,
    ) -> Reply<'a, Vec<String>>;

    /// Restores the files of a checkpoint.
    fn restore<'a>(
        &'a self,
        manifest: &'a Manifest,
        request: checkpoint::Request,
        progress: &'a Progress,
    ) -> Reply<'a, RestoreOutcome>;

    fn fork<'a>(
        &'a self,
        session: &'a Summary,
        request: fork::Request,
        progress: &'a Progress,
    ) -> Reply<'a, Forked>;
}

/// The sessions of this home.
pub struct Local {
    env: Env,
    /// Who asks, for the journal.
    by: String,
}

impl Local {
    pub fn new(env: Env, by: String) -> Self {
        Self { env, by }
    }
}

impl Control for Local {
    fn pause<'a>(&'a self, session: &'a Summary, request: Pause) -> Reply<'a, PauseOutcome> {
        Box::pin(async move {
            let wanted = pause::Request {
                mode: request.mode,
                by: self.by.clone(),
                reason: request.reason,
            };
            let requested = pause::request(&self.env, session, wanted).await;
            let sent = match requested.map_err(Failed::new)? {
                Requested::Sent(_) if !request.wait => return Ok(PauseOutcome::Requested),
                Requested::Sent(sent) => sent,
                Requested::Withdrawn(summary) => {
                    return Ok(PauseOutcome::Stopped {
                        status: summary.status,
                        checkpoint: None,
                        problem: None,
                    });
                }
            };
            let paused = pause::wait(&self.env, session, &sent).await;
            Ok(PauseOutcome::from(paused.map_err(Failed::new)?))
        })
    }

    fn cancel<'a>(&'a self, session: &'a Summary, mode: StopMode) -> Reply<'a, Cancelled> {
        Box::pin(async move {
            let observer = Arc::new(NoObserver);
            let cancelled = cancel::cancel(&self.env, session, mode, &self.by, observer).await;
            cancelled.map_err(Failed::new)
        })
    }

    fn answer<'a>(
        &'a self,
        session: &'a Summary,
        step: Option<&'a str>,
        text: &'a str,
    ) -> Reply<'a, Path> {
        Box::pin(async move {
            let answered = answer::answer(&self.env, session, step, text, &self.by).await;
            answered.map_err(Failed::new)
        })
    }

    fn note<'a>(
        &'a self,
        session: &'a Summary,
        step: Option<Path>,
        change: Change,
    ) -> Reply<'a, Recorded> {
        Box::pin(async move {
            let author = Author {
                source: Source::User,
                by: self.by.clone(),
                path: step,
            };
            let recorded = notes::record(&self.env, session, author, change).await;
            recorded.map_err(Failed::new)
        })
    }

    fn request_run<'a>(
        &'a self,
        session: &'a Summary,
        options: RunOptions,
        decisions: &'a [Decision],
    ) -> Reply<'a, Summary> {
        Box::pin(async move {
            let by = self.by.clone();
            let requested = background::request(&self.env, session, by, options, decisions);
            requested.await.map_err(Failed::new)
        })
    }

    fn submit<'a>(
        &'a self,
        request: Request,
        notice: &'a (dyn Fn(&str) + Sync),
    ) -> Reply<'a, Summary> {
        Box::pin(async move {
            let submitted = background::submit(&self.env, request, self.by.clone(), notice);
            submitted.await.map_err(Failed::new)
        })
    }

    fn checkpoint<'a>(
        &'a self,
        session: &'a Summary,
        note: Option<String>,
        progress: &'a Progress,
    ) -> Reply<'a, NewCheckpoint> {
        Box::pin(async move {
            let taken = checkpoint::create(&self.env, session, Trigger::Manual, note, progress);
            taken.await.map_err(Failed::new)
        })
    }

    fn verify<'a>(
        &'a self,
        manifest: &'a Manifest,
        progress: &'a Progress,
    ) -> Reply<'a, Vec<String>> {
        Box::pin(async move {
            let verified = checkpoint::verify(&self.env, manifest, progress).await;
            verified.map_err(Failed::new)
        })
    }

    fn restore<'a>(
        &'a self,
        manifest: &'a Manifest,
        request: checkpoint::Request,
        progress: &'a Progress,
    ) -> Reply<'a, RestoreOutcome> {
        Box::pin(async move {
            let restored = checkpoint::restore(&self.env, manifest, request, progress).await;
            restored.map_err(Failed::new)
        })
    }

    fn fork<'a>(
        &'a self,
        session: &'a Summary,
        request: fork::Request,
        progress: &'a Progress,
    ) -> Reply<'a, Forked> {
        Box::pin(async move {
            let forked = fork::fork(&self.env, session, request, progress).await;
            forked.map_err(Failed::new)
        })
    }
}

impl From<Paused> for PauseOutcome {
    fn from(paused: Paused) -> Self {
        let (checkpoint, problem) = match paused.checkpoint {
            Some(Ok(manifest)) => (Some(manifest.id), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        Self::Stopped {
            status: paused.summary.status,
            checkpoint,
            problem,
        }
    }
}
