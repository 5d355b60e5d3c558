//! Mirroring the transcripts of agents while they grow.
//!
//! Looking is what counts: what a transcript looks like from outside is compared with what it looked
//! like when it was mirrored. [`alarm`] only says where to look sooner, and may miss anything.
//! [`queue`] holds what is to be mirrored, newest first, and lets nobody be mirrored all the time.
//! [`guard`] keeps a second watcher away.

mod alarm;
mod guard;
mod look;
mod queue;

pub(crate) use alarm::{Alarm, Where};
pub(crate) use guard::{Guard, Held};
pub(crate) use look::{Mark, Tree, in_folder, tree};
pub(crate) use queue::{Job, Queue};
