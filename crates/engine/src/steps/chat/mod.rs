//! One message of a chat and its answer, inside a run.

mod exchange;
mod log;
mod turn;

use segno_core::session::Status;

pub use crate::resume::conversation::Past;
pub use exchange::Exchange;
pub use log::{Log, Tally};

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A user who will say more.
    Present,
    /// No one who will say more soon.
    Absent,
}

impl Audience {
    /// The status of a chat that has nothing to answer.
    pub fn idle_status(self) -> Status {
        match self {
            Self::Present => Status::Waiting,
            Self::Absent => Status::Paused,
        }
    }
}
