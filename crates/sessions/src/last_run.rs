//! When and why the newest run of a session ended.

use segno_core::session::Status;
use segno_core::state::State;
use segno_core::time::{Timestamp, format_duration};

/// The end of a session's newest run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    /// How many times the session had been started or resumed.
    pub session_number: u64,
    pub status: Status,
    /// When it ended; when its last event was written, if it was lost.
    pub ended_at: Timestamp,
    /// Who asked for it, if anyone did.
    pub by: Option<String>,
    /// The reason that was given, or the error.
    pub reason: Option<String>,
}

impl LastRun {
    /// The end of the newest run; `None` if the session was never started, like a new fork.
    pub fn of(state: &State) -> Option<Self> {
        let stopped = state.stopped.as_ref();
        // While a run is requested, the status before that is the one of the last run.
        let status = state
            .request()
            .map_or(state.status, |request| request.before);
        let lost = matches!(status, Status::Running | Status::Interrupted);
        let failed = state.error.as_ref().map(|error| error.message.clone());
        let reason = match stopped {
            Some(stopped) => stopped.reason.clone(),
            None if lost => Some("its process was lost".to_owned()),
            None => failed,
        };
        (state.session_number > 0).then_some(Self {
            session_number: state.session_number,
            status: match status {
                Status::Running => Status::Interrupted,
                status => status,
            },
            ended_at: state.ended_at.unwrap_or(state.updated_at),
            by: stopped.map(|stopped| stopped.by.clone()),
            reason,
        })
    }

    /// The end in words.
    pub fn describe(&self, now: Timestamp) -> String {
        let ended = match self.status {
            Status::Interrupted => "was interrupted",
            Status::Waiting => "stopped to wait for you",
            Status::Expired => "expired",
            Status::Failed => "failed",
            Status::Completed => "completed",
            Status::Cancelled => "was cancelled",
            Status::Paused | Status::Pending | Status::Running => "paused",
        };
        let age = format_duration(now.since(self.ended_at));
        let by = self.by.as_ref();
        let by = by.map_or(String::new(), |by| format!(", requested by {by}"));
        let reason = self.reason.as_ref();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        format!(
            "session number {} {ended} {age} ago{by}{reason}",
            self.session_number
        )
    }
}
