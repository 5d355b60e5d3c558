//! What workers know about a session: the run that someone asked for, and how often workers asked
//! for one by themselves.

use serde::{Deserialize, Serialize};

use crate::journal::{Failure, RunOptions, RunRequested, RunWithdrawn};
use crate::session::Status;
use crate::time::Timestamp;

/// What workers know about a session that was handed to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// The run that is to start.
    pub request: Option<RunRequest>,
    /// Whether a user asked for a run in the background: then workers also resume it when its run is
    /// lost, unless the spec says otherwise.
    pub by_user: bool,
    /// How often workers asked for a run by themselves since an agent answered.
    pub without_progress: u32,
    /// How often workers asked for a run by themselves since a user did.
    pub automatic: u32,
    /// Why the newest requested run could not start.
    pub error: Option<Failure>,
}

/// A run that is to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The user or program that asked.
    pub by: String,
    pub at: Timestamp,
    pub options: RunOptions,
    /// Why a worker asked by itself; `None` if a user did.
    pub evidence: Option<String>,
    /// The status before the request.
    pub before: Status,
}

impl Background {
    const NONE: Self = Self {
        request: None,
        by_user: false,
        without_progress: 0,
        automatic: 0,
        error: None,
    };

    /// Records a request. A second one replaces the first.
    pub(super) fn request(
        before: Option<&Self>,
        event: &RunRequested,
        status: Status,
        at: Timestamp,
    ) -> Self {
        let known = before.unwrap_or(&Self::NONE);
        let (by_user, without_progress, automatic) = match event.evidence {
            None => (true, 0, 0),
            Some(_) => (
                known.by_user,
                known.without_progress.saturating_add(1),
                known.automatic.saturating_add(1),
            ),
        };
        let first = known.request.as_ref();
        Self {
            request: Some(RunRequest {
                by: event.by.clone(),
                at,
                options: event.options.clone(),
                evidence: event.evidence.clone(),
                before: first.map_or(status, |first| first.before),
            }),
            by_user,
            without_progress,
            automatic,
            error: None,
        }
    }

    /// Records that the requested run does not take place. Returns the session's status after that.
    pub(super) fn withdraw(&mut self, event: &RunWithdrawn) -> Option<Status> {
        let request = self.request.take()?;
        self.error.clone_from(&event.error);
        Some(match (request.before, &event.error) {
            // It never ran.
            (Status::Pending, Some(_)) => Status::Failed,
            (Status::Pending, None) => Status::Paused,
            (before, _) => before,
        })
    }

    /// Records that a run started.
    pub(super) fn start(&mut self) {
        self.request = None;
        self.error = None;
    }

    /// Records that an agent answered.
    pub(super) fn progress(&mut self) {
        self.without_progress = 0;
    }
}
