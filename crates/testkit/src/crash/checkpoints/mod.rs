//! Checkpoints under the same faults: the commands that create, restore, prune and sweep them (P4,
//! P5, P8).
//!
//! A [`Trial`] is a command and what disturbs it. [`Fixture`] is a home with a session and
//! checkpoints of a workspace that contains every kind of file. [`attempt`] runs the command,
//! disturbs it, and checks: `doctor` and `checkpoint verify` find nothing; every checkpoint that
//! existed still exists, unless it was to be deleted; every listed checkpoint can be restored into
//! an empty folder, byte for byte, mode for mode, link for link; a folder that was restored into
//! has old and new files, each complete, and if anything in it was replaced there is a checkpoint
//! of the previous state; nothing beside it has changed. Then the command is repeated without a
//! fault, must succeed, and must reach the same result as without a disturbance.
//!
//! Everything is in memory, if the machine has `/dev/shm`: a process is killed, not a machine, so
//! that a disk would only add time.

mod changing;
mod checker;
mod concurrent;
mod fixture;
mod full;
mod operation;
mod plan;
mod tree;
mod trial;

pub use super::tally::{Tally, explain};
pub use fixture::Fixture;
pub use operation::{Operation, Trial};
pub use plan::{at_points, at_syscalls, count_visits, on_full_disks};
pub use trial::{Outcome, attempt, attempt_all};
