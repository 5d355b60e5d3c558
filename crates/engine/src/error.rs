//! Why a run failed or ended early: one variant per cause, with the data that its message and hint
//! need.
//!
//! Steps and patterns share the type, because each of them reacts to the causes of the other: a
//! pause of one step ends its siblings, and a budget ends all of them.

use std::time::Duration;

use segno_core::cli_agent::{CliAgentKind, Holder};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::Name;
use segno_core::session::Status;
use segno_core::step::Path;
use segno_core::time::{Timestamp, format_duration};
use segno_core::{agent, store, worktree};
use segno_spec::template;

use crate::{artifact_files, checkpoint, history};

/// Why a run failed or ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    History(#[from] history::Error),
    /// The stored copy of a conversation cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// A git operation failed.
    #[error(transparent)]
    Worktree(#[from] worktree::Error),
    #[error(transparent)]
    Artifact(#[from] artifact_files::Error),
    #[error("{place}: {error}")]
    Template {
        /// Which template: an agent's prompt, an artifact, and so on.
        place: String,
        error: template::Error,
    },
    /// A step failed and its retries are exhausted, or the error is not transient.
    #[error("step {path} (agent `{agent}`) failed after {attempts} attempt{}: {error}", plural(*.attempts))]
    Step {
        name: Name,
        path: Path,
        agent: String,
        /// Attempts of this run.
        attempts: u32,
        error: Box<agent::Error>,
    },
    /// The step was not started because a concurrent step failed. The error of that step is the one
    /// reported.
    #[error("not started: a concurrent step failed")]
    ConcurrentStepFailed,
    /// An agent's answer has no usable form, for example no JSON that fits the schema.
    #[error("step {path} (agent `{agent}`) gave no usable answer{}: {reason}", times_asked(*.times))]
    UnusableAnswer {
        name: Name,
        path: Path,
        agent: String,
        times: u32,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The prompt of a step does not fit the agent's `input_schema`.
    #[error(
        "step {path}: the input does not match the `input_schema` of agent `{agent}`: {reason}"
    )]
    InvalidInput {
        name: Name,
        path: Path,
        agent: String,
        reason: String,
    },
    #[error("no draft reached the score {needed} of 100: the best of {drafts} got {best}")]
    BelowScore {
        name: Name,
        drafts: u32,
        best: u32,
        needed: u32,
    },
    #[error("node `{node}` was visited {visits} times, the limit of `max_iterations`")]
    TooManyVisits {
        name: Name,
        node: String,
        /// How often it was visited.
        visits: u32,
    },
    /// A human must answer before the session can continue.
    #[error("session `{name}` waits for your answer: {prompt}{}", .context.as_ref().map_or(String::new(), |context| format!("\n{context}")))]
    WaitingForHuman {
        name: Name,
        path: Path,
        prompt: String,
        context: Option<String>,
        /// The deadline for the answer.
        until: Option<Timestamp>,
    },
    #[error("step {path} was not answered in time and has no default")]
    AnswerTimeout { name: Name, path: Path },
    #[error(transparent)]
    InvalidAnswer(#[from] InvalidAnswer),
    #[error("session `{name}` reached its limit `{what}`: {used} of {of}")]
    Budget {
        name: Name,
        /// The limit, by its key in the spec.
        what: &'static str,
        used: String,
        of: String,
    },
    #[error("session `{name}` is {status}, requested by {by}")]
    Stopped {
        name: Name,
        /// The status after the stop.
        status: Status,
        by: String,
    },
    /// The disk is full: no new step is started.
    #[error("the disk is full; finished steps are saved, and no new step was started")]
    DiskFull { name: Name },
    /// The agent's context is nearly full, and `context_full` is `pause`.
    #[error("step {path} is paused: {percent} % of the agent's context is used")]
    ContextFull {
        name: Name,
        path: Path,
        percent: u64,
    },
    /// Another process has the agent's conversation open.
    #[error(transparent)]
    ConversationOpen(Box<ConversationOpen>),
    /// A provider named the end of its rate limit, and the run does not wait for it.
    #[error("step {path} is suspended until {until} (rate limit of {provider}): {why}")]
    Suspended {
        name: Name,
        path: Path,
        /// The provider whose limit was reached.
        provider: String,
        /// The end of the rate limit.
        until: Timestamp,
        why: NoWaitReason,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Checkpoint(error) => error.diagnosis(),
            Self::Worktree(error) => error.diagnosis(),
            Self::Artifact(error) => error.diagnosis(),
            Self::Template { error, .. } => error.diagnosis(),
            Self::Step { name, error, .. } => {
                let code = match error.kind {
                    agent::ErrorKind::NoProgram => "A0107",
                    _ => "R0101",
                };
                let hint = match error.hint {
                    Some(hint) => format!("{hint}; then `segno resume {name}`"),
                    None if error.kind.is_transient() => {
                        format!("`segno resume {name}` retries from this step")
                    }
                    None => format!(
                        "fix the cause, then `segno resume {name}`: finished steps do not run again"
                    ),
                };
                Diagnosis::new(Kind::RunFailed, code).hint(hint)
            }
            Self::ConcurrentStepFailed => Diagnosis::new(Kind::RunFailed, "R0101"),
            Self::UnusableAnswer { name, .. } => {
                Diagnosis::new(Kind::RunFailed, "R0105").hint(format!(
                    "change the prompt in the spec, then `segno resume {name} --on-change rerun` asks again; unchanged steps keep their results"
                ))
            }
            Self::InvalidInput { name, .. } => {
                Diagnosis::new(Kind::RunFailed, "R0113").hint(fix_the_spec(name))
            }
            Self::TooManyVisits { name, .. } => {
                Diagnosis::new(Kind::RunFailed, "R0107").hint(fix_the_spec(name))
            }
            Self::BelowScore { name, .. } => Diagnosis::new(Kind::RunFailed, "R0106").hint(format!(
                "raise `max_iters` or lower `min_score` in the spec, then `segno resume {name}`"
            )),
            Self::WaitingForHuman { name, path, .. } => {
                Diagnosis::new(Kind::NeedsUser, "R0108").hint(format!(
                    "answer with `segno answer {name} --step {path} TEXT`, then `segno resume {name}`"
                ))
            }
            Self::AnswerTimeout { name, .. } => {
                Diagnosis::new(Kind::RunFailed, "R0109").hint(format!(
                    "you can still answer with `segno answer {name} TEXT`, then `segno resume {name}`"
                ))
            }
            Self::InvalidAnswer(error) => error.diagnosis(),
            Self::Budget { name, what, .. } => {
                Diagnosis::new(Kind::LimitReached, "R0112").hint(format!(
                    "raise `{what}` in the spec, then `segno resume {name}`: finished steps do not run again"
                ))
            }
            Self::Stopped { name, status, .. } => {
                let kind = match status {
                    Status::Paused => Kind::Paused,
                    Status::Interrupted => Kind::Interrupted,
                    _ => Kind::RunFailed,
                };
                let diagnosis = Diagnosis::new(kind, "R0102");
                if status.is_resumable() {
                    diagnosis.hint(format!("`segno resume {name}` continues the session"))
                } else {
                    diagnosis
                }
            }
            Self::DiskFull { name } => Diagnosis::new(Kind::Unavailable, "F0101")
                .hint(format!("free disk space, then `segno resume {name}`")),
            Self::ContextFull { name, .. } => {
                Diagnosis::new(Kind::LimitReached, "R0116").hint(format!(
                    "`segno resume {name}` continues in a new conversation with a resume context"
                ))
            }
            Self::ConversationOpen(error) => error.diagnosis(),
            Self::Suspended { name, why, .. } => Diagnosis::new(Kind::LimitReached, "R0123")
                .hint(hint_for_rate_limit(name, *why)),
        }
    }
}

/// Another process has the conversation open with which a step would continue.
#[derive(Debug, thiserror::Error)]
#[error(
    "step {path}: the conversation {conversation} of {agent} is open in process {} (`{}`){}",
    .holder.pid, .holder.program, not_ended(.reason.as_deref())
)]
pub struct ConversationOpen {
    pub name: Name,
    pub path: Path,
    pub agent: CliAgentKind,
    /// The agent's id of the conversation.
    pub conversation: String,
    pub holder: Holder,
    /// Why the process could not be ended, if the user asked for that.
    pub reason: Option<String>,
}

impl Diagnose for ConversationOpen {
    fn diagnosis(&self) -> Diagnosis {
        let Self { name, .. } = self;
        Diagnosis::new(Kind::Locked, "R0124").hint(match self.reason {
            None => format!(
                "close it, then `segno resume {name}`; or `segno resume {name} --take-over` ends it and resumes"
            ),
            Some(_) => format!("end it, then `segno resume {name}`"),
        })
    }
}

fn not_ended(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |reason| {
        format!(", which cannot be ended: {reason}")
    })
}

/// An answer that its question does not allow.
#[derive(Debug, thiserror::Error)]
#[error("`{answer}` is not a valid answer to step {path}: {reason}")]
pub struct InvalidAnswer {
    pub path: Path,
    pub answer: String,
    pub reason: String,
}

impl Diagnose for InvalidAnswer {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Invalid, "R0110")
    }
}

/// Why the run does not wait for the end of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWaitReason {
    /// `on_limit` is `pause`.
    Pause,
    /// The wait is longer than `max_wait_s`.
    MaxWait(Duration),
    /// All waits of the session together would be longer than `max_total_wait_s`.
    MaxTotalWait(Duration),
    /// The run waited this many times, and the limit was still reached each time.
    TooManyWaits(u32),
}

impl std::fmt::Display for NoWaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pause => f.write_str("`on_limit` is `pause`"),
            Self::MaxWait(most) => write!(f, "`max_wait_s` is {}", format_duration(*most)),
            Self::MaxTotalWait(most) => {
                write!(f, "`max_total_wait_s` is {}", format_duration(*most))
            }
            Self::TooManyWaits(times) => {
                write!(f, "the limit was still in effect after {times} waits")
            }
        }
    }
}

fn fix_the_spec(name: &Name) -> String {
    format!(
        "fix the prompt or the spec, then `segno resume {name}`: finished steps do not run again"
    )
}

/// The hint for a rate limit that the run does not wait for.
fn hint_for_rate_limit(name: &Name, why: NoWaitReason) -> String {
    let resume = format!(
        "after that, `segno resume {name}` continues; `--on-limit ask` sends a request now"
    );
    match why {
        NoWaitReason::MaxWait(_) => format!("{resume}; or raise `max_wait_s` in the spec"),
        NoWaitReason::MaxTotalWait(_) => {
            format!("{resume}; or raise `max_total_wait_s` in the spec")
        }
        NoWaitReason::Pause | NoWaitReason::TooManyWaits(_) => resume,
    }
}

fn times_asked(times: u32) -> String {
    match times {
        0 | 1 => String::new(),
        times => format!(" after {times} attempts"),
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}
