//! Checkpoints under the same faults: the commands that take, bring back, let go of and sweep them
//! (P4, P5, P8).
//!
//! A [`Trial`] is a deed and what disturbs it. [`Ground`] is a home with a session and checkpoints of
//! a workspace that has something of everything. [`attempt`] does the deed, disturbs it, and looks:
//! `doctor` and `checkpoint verify` find nothing; every checkpoint that was there is still there,
//! unless it was to go; whatever is listed comes back into an empty folder as its files were, byte
//! for byte, mode for mode, link for link; a folder that was restored into has old and new files, each
//! whole, and if anything in it was replaced there is a checkpoint of how it was; nothing beside it has
//! changed. Then the deed is repeated without a fault, must succeed, and must come to what it comes to
//! when nobody disturbs it.
//!
//! Everything lies in memory where the machine has such a place: what is killed is a process, not a
//! machine, so that a disk would add nothing but time.

mod changing;
mod deed;
mod full;
mod ground;
mod plan;
mod together;
mod tree;
mod trial;
mod watch;

pub use deed::{Deed, Trial};
pub use ground::Ground;
pub use plan::{at_points, at_syscalls, count_visits, on_full_disks};
pub use trial::{Outcome, attempt, attempt_all};

pub use super::tally::{Tally, explain};
