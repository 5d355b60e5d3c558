//! A step that was begun and is not finished: how it stands, and who has it.

use serde::{Deserialize, Serialize};

use crate::companion::{Gauge, Program};
use crate::journal::{Failure, Seq, Suspension};
use crate::ladder::Rung;
use crate::time::Timestamp;

/// A step that was begun and is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Its revision.
    pub revision: u32,
    /// How often it was begun.
    pub attempt: u32,
    /// Who was asked.
    pub agent: String,
    /// How the newest attempt stands.
    pub standing: Standing,
    /// Since when.
    pub since: Timestamp,
    /// Not to be asked again before this: the other side said so.
    pub not_before: Option<Timestamp>,
    /// Whose limit that is, if it was told when it is lifted.
    pub limited_by: Option<String>,
    /// How often it waited for a limit to be lifted since it last came on.
    pub waits: u32,
    /// The conversation that its agent's program keeps, if it does.
    pub native: Option<Native>,
    /// The entry since which it is with another agent than the one that began it.
    pub handed: Option<Seq>,
    /// How many tokens the newest call of a model behind an API took, if it is with one.
    pub weight: Option<u64>,
}

impl Open {
    /// The program that had it last; `None` if whoever has it is no program that keeps conversations.
    pub fn with(&self) -> Option<Program> {
        let native = self.native.as_ref()?;
        let last = self.handed.is_none_or(|handed| native.opened > handed);
        last.then_some(native.program)
    }

    /// How full the context is of whoever has it, as far as that was told.
    pub fn gauge(&self) -> Option<Gauge> {
        let model = self.weight.map(|used| Gauge { used, window: None });
        match self.with() {
            Some(_) => self.native.as_ref()?.context,
            None => model,
        }
    }

    /// The limit that is in its way at `now`.
    pub fn suspended(&self, now: Timestamp) -> Option<Suspension> {
        let waits = matches!(self.standing, Standing::Failed(_));
        let until = self.not_before.filter(|until| waits && *until > now)?;
        let provider = self.limited_by.clone()?;
        Some(Suspension { provider, until })
    }
}

/// A conversation that an agent's program keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// The program.
    pub program: Program,
    /// Its name for it.
    pub id: String,
    /// The folder that it worked in.
    pub folder: String,
    /// How full the model's context is.
    pub context: Option<Gauge>,
    /// The ways in which it was gone on with.
    pub rungs: Vec<Rung>,
    /// The entry that last says so.
    pub opened: Seq,
}

/// How an attempt stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Asked, not answered.
    InFlight,
    /// Asked by a run that was lost.
    Unknown,
    /// Failed.
    Failed(Failure),
    /// Stopped between two turns.
    Paused,
    /// Its result was thrown away; not asked again yet.
    Discarded,
}
