//! Open steps: started and not finished.

use serde::{Deserialize, Serialize};

use crate::companion::{Gauge, Program};
use crate::journal::{Failure, Seq, Suspension};
use crate::ladder::Rung;
use crate::time::Timestamp;

/// A step that was started and is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    pub revision: u32,
    /// How many times the step was started.
    pub attempt: u32,
    pub agent: String,
    /// The status of the newest attempt.
    pub standing: Standing,
    /// When the attempt got this status.
    pub since: Timestamp,
    /// Do not call the agent before this time: the provider demanded it.
    pub not_before: Option<Timestamp>,
    /// The provider that set the limit, if it said when the limit is lifted.
    pub limited_by: Option<String>,
    /// How many times the step has waited for a limit since it last made progress.
    pub waits: u32,
    /// The conversation that a CLI agent has for this step, if any.
    pub native: Option<Native>,
    /// The event since which another agent has the step than the one that started it.
    pub handed: Option<Seq>,
    /// How many tokens the newest API model call took, if an API model has the step.
    pub weight: Option<u64>,
}

impl Open {
    /// The CLI agent that has the step now; `None` if the current agent is not a CLI agent.
    pub fn with(&self) -> Option<Program> {
        let native = self.native.as_ref()?;
        let last = self.handed.is_none_or(|handed| native.opened > handed);
        last.then_some(native.program)
    }

    /// The context usage of the agent that has the step, as far as it was reported.
    pub fn gauge(&self) -> Option<Gauge> {
        let model = self.weight.map(|used| Gauge { used, window: None });
        match self.with() {
            Some(_) => self.native.as_ref()?.context,
            None => model,
        }
    }

    /// The limit that blocks the step at `now`.
    pub fn suspended(&self, now: Timestamp) -> Option<Suspension> {
        let waits = matches!(self.standing, Standing::Failed(_));
        let until = self.not_before.filter(|until| waits && *until > now)?;
        let provider = self.limited_by.clone()?;
        Some(Suspension { provider, until })
    }
}

/// A conversation that a CLI agent stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    pub program: Program,
    /// The CLI agent's own id of the conversation.
    pub id: String,
    /// The CLI agent's working directory.
    pub folder: String,
    /// The usage of the model's context window.
    pub context: Option<Gauge>,
    /// The resume strategies that were used on it.
    pub rungs: Vec<Rung>,
    /// The event that last started or resumed it.
    pub opened: Seq,
}

/// The status of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Sent to the agent, no answer yet.
    InFlight,
    /// Sent by a run that was lost.
    Unknown,
    Failed(Failure),
    /// Stopped between two turns.
    Paused,
    /// The step's result was discarded; the step has not been started again.
    Discarded,
}
