//! Why no further run of a session can start.

use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::id::{Name, SessionId};
use segno_core::session::Status;
use segno_core::step;
use segno_core::store::{Error as StoreError, Summary};
use segno_engine::steps::PrepareError;
use segno_engine::{env, history};

use crate::spec_edit;
use crate::start::SpecError;
use crate::unknown;

/// Why no further run of a session can start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The replacement for an agent cannot be used.
    #[error(transparent)]
    Driver(#[from] env::Error),
    #[error(transparent)]
    Ended(#[from] SessionEnded),
    /// The run was lost while steps were in flight, and the spec says `in_flight: stop`.
    #[error("the outcome of {} is unknown: the run was lost while it was in flight", join_shown(.steps.iter().map(|path| format!("step {path}"))))]
    UnknownOutcome { name: Name, steps: Vec<step::Path> },
    /// What the user says about an unknown outcome does not fit.
    #[error(transparent)]
    Decision(#[from] unknown::Error),
    /// The edited spec is not used.
    #[error(transparent)]
    SpecEdit(#[from] spec_edit::Error),
    /// The workspace changed since the last run, and the drift policy is to refuse.
    #[error("the workspace changed since session `{name}` last ran: {}", join_shown(.drift))]
    WorkspaceDrifted { name: Name, drift: Vec<String> },
    #[error("the workspace of session `{name}`, {folder}, does not exist")]
    WorkspaceMissing { name: Name, folder: String },
    /// Processes that an earlier run started are still there and cannot be ended.
    #[error("an agent of an earlier run of session `{name}` is still there: {reason}")]
    OrphansLeft { name: Name, reason: String },
    /// An option that only affects started work, where no work was started.
    #[error("`{option}` has no effect on session `{name}`: {reason}")]
    OptionWithoutEffect {
        name: Name,
        option: &'static str,
        reason: &'static str,
    },
    #[error(transparent)]
    NoSuchAgent(#[from] NoSuchAgent),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Spec(error) => error.diagnosis(),
            Self::Prepare(error) => error.diagnosis(),
            Self::Driver(error) => error.diagnosis(),
            Self::Ended(error) => error.diagnosis(),
            Self::UnknownOutcome { name, steps } => {
                let [done, failed, repeat] = match &steps[..] {
                    [step] => unknown::commands(name, step, true),
                    steps => unknown::commands(name, &steps[0], false),
                };
                Diagnosis::new(Kind::NeedsUser, "R0103").hint(format!(
                    "check whether it took effect; if it did, `{done}`; if not, `{failed}`; `{repeat}` runs it again"
                ))
            }
            Self::Decision(error) => error.diagnosis(),
            Self::SpecEdit(error) => error.diagnosis(),
            Self::WorkspaceDrifted { name, .. } => {
                Diagnosis::new(Kind::Changed, "R0114").hint(format!(
                    "`segno resume {name} --on-drift warn` continues and tells the agent the current state"
                ))
            }
            Self::WorkspaceMissing { name, .. } => {
                Diagnosis::new(Kind::Invalid, "R0118").hint(format!(
                    "if you moved it, run `segno sessions move {name} FOLDER`; nothing was started"
                ))
            }
            Self::OrphansLeft { name, .. } => Diagnosis::new(Kind::Locked, "R0125")
                .hint(format!("end it, then `segno resume {name}`")),
            Self::OptionWithoutEffect { name, .. } => Diagnosis::new(Kind::Invalid, "R0127")
                .hint(format!("`segno resume {name}` resumes without the option")),
            Self::NoSuchAgent(error) => error.diagnosis(),
        }
    }
}

/// The session has a final status and cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[error("session `{name}` ({session}) is {status}; fork it to continue from it")]
pub struct SessionEnded {
    pub session: SessionId,
    pub name: Name,
    pub status: Status,
}

impl SessionEnded {
    pub(crate) fn new(summary: &Summary, status: Status) -> Self {
        Self {
            session: summary.id,
            name: summary.name.clone(),
            status,
        }
    }
}

impl Diagnose for SessionEnded {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Conflict, "S0108").hint(format!(
            "`segno fork {}` makes a copy that can be resumed; `segno run` starts a new session",
            self.name
        ))
    }
}

/// No agent of this name can do the work.
#[derive(Debug, thiserror::Error)]
#[error("`{agent}` cannot take over: {reason}")]
pub struct NoSuchAgent {
    pub agent: String,
    pub reason: String,
}

impl Diagnose for NoSuchAgent {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Invalid, "R0115")
            .hint("use `claude`, `codex`, or an agent of the spec")
    }
}
