//! The crash runner: kills the real binary wherever it can be killed, and checks the promises.
//!
//! A [`Kill`] is a workload (a chain of five steps, or another pattern), the state of its home, and a fault for the run
//! and for each resume of it. [`attempt`] lets it happen in a sandbox of its own: start, die, look
//! (`doctor`, `logs`, the count of calls that is kept outside of segno), go on without a fault, look
//! again, and compare with the [`Model`], which is the same workload undisturbed. Whatever
//! `run --json` printed is an acknowledgement and must stand in the journal, unchanged, from then on
//! (P1, P2, P14); a step that stands there as finished must not be asked again (P7); no call without
//! its intent (P6); `doctor` finds no damage (P9); one resume completes it (P11). Segno must be
//! built with `--features failpoints`.
//!
//! # What is covered
//!
//! **Failpoints (F1).** A run that lists its visits says how often each place is passed; it is then
//! killed at the first, second, middle and last visit. No single workload passes all places: blobs
//! need long answers, `lease.after_acquire` needs a resume, which is killed on the second level, and
//! checkpoints need [`deeds`].
//! [`left_out`] names the places that nothing was killed at.
//!
//! **System calls (F2).** `strace -e inject=NAME:signal=SIGKILL:when=N` delivers the signal on entry,
//! and the call is not made any more. So killing at every call shows every state that the calls leave
//! behind. But strace counts per system call *and per thread*: with `-f`, the kill comes from
//! whichever thread is first to make its own N-th call of that name. Iterating over N would
//! therefore miss the early writes of the writing thread, because the main thread made as many when
//! it made the database. [`Profile`] traces an undisturbed run, and aims at each call in a way that
//! reaches it:
//!
//! - calls of the main thread without `-f`, which counts that thread alone;
//! - calls of the writing thread with `-f`, where it is the first to make that many;
//! - otherwise with `-P`, which counts only the calls on one file of the database;
//! - in a home that was used before, where the main thread has little to write.
//!
//! What is left cannot be aimed at in one home but can in the other, except for the writing thread's
//! `write` to an event descriptor, which wakes the main thread and leaves nothing behind. How often
//! threads wake each other depends on the moment, so a few aimed faults do not come; they are
//! counted as missed, not as kills. `-f` also follows agents and their wardens, which make fewer
//! calls than segno has made before them, so that a kill hits segno; one that hits them is counted
//! apart, and fails an attempt, which is repeated.
//!
//! [`deeds`] does the same to the commands about checkpoints, which have no run to go on with,
//! [`agents`] to real agents at work, [`records`] while the records of agents are put in order, and
//! [`hooks`] while the settings of agents are changed.

pub mod agents;
pub mod deeds;
pub mod hooks;
mod kill;
mod model;
mod patterns;
mod plan;
pub mod records;
mod tally;
mod trace;
mod trial;

pub use kill::{Fault, Home, Kill, SYSCALLS, Tracee, Workload};
pub use model::Model;
pub use plan::{at_every_position, at_points, at_points_again, at_syscalls, sample};
pub use tally::{Counted, Tally, explain, left_out};
pub use trace::{Profile, count_visits, require_strace};
pub use trial::{Hit, Outcome, Wrong, attempt, attempt_all};
