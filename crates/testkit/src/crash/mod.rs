//! The crash runner: kills the real binary wherever it can be killed, and checks the guarantees.
//!
//! A [`Kill`] is a workload (a chain of five steps, or another pattern), the state of its home, and
//! a fault for the run and for each resume of it. [`attempt`] executes it in a sandbox of its own:
//! it starts the run, lets it die, checks the state (`doctor`, `logs`, the number of calls, which
//! is counted outside of segno), resumes without a fault, checks again, and compares with the
//! [`Model`], which is the same workload undisturbed. Whatever `run --json` printed is an
//! acknowledgement and must be in the journal, unchanged, from then on (P1, P2, P14); a step that
//! is finished there must not be executed again (P7); no call without its intent (P6); `doctor`
//! finds no damage (P9); one resume completes it (P11). Segno must be built with
//! `--features failpoints`.
//!
//! # What is covered
//!
//! **Failpoints (F1).** A run that logs its visits shows how often each failpoint is reached; the
//! run is then killed at the first, second, middle and last visit. No single workload reaches all
//! failpoints: blobs need long answers, `lease.after_acquire` needs a resume, which is killed on
//! the second level, and checkpoints need [`checkpoints`]. [`unhit_failpoints`] lists the failpoints at which
//! nothing was killed.
//!
//! **System calls (F2).** `strace -e inject=NAME:signal=SIGKILL:when=N` delivers the signal on
//! entry, and the call is not executed any more. So killing at every call shows every state that
//! the calls leave behind. But strace counts per system call *and per thread*: with `-f`, the kill
//! comes from the first thread that makes its own N-th call of that name. Iterating over N would
//! therefore miss the early writes of a blocking thread, because the main thread made as many when
//! it created the database. [`Profile`] traces an undisturbed run, and targets each call in one of
//! these ways:
//!
//! - calls of the main thread, which also writes to the database, without `-f`: that counts this
//!   thread alone;
//! - calls of a blocking thread with `-f`, where it is the first to make that many;
//! - otherwise with `-P`, which counts only the calls on one file of the database;
//! - in a home that was used before, where the main thread has little to write.
//!
//! How often threads wake each other depends on timing, so a few faults do not trigger; they are
//! counted as missed, not as kills. `-f` also follows agents and their process guards. These make
//! fewer calls than segno has made before them, so that a kill hits segno; one that hits them is
//! counted separately, and fails an attempt, which is repeated.
//!
//! [`checkpoints`] does the same to the checkpoint commands, which have no run to resume, [`agents`] to
//! running agents, [`transcripts`] while segno repairs, restores or writes transcripts, and [`hooks`]
//! while it changes the settings of agents. [`one_home`] kills many runs together, [`ownership`] asks
//! for sessions of living owners with wrong clocks, and [`server`] kills servers, workers and the runs
//! that they started.

pub mod agents;
pub mod checkpoints;
pub mod hooks;
mod kill;
mod model;
pub mod one_home;
pub mod ownership;
mod patterns;
mod plan;
pub mod server;
mod tally;
mod trace;
pub mod transcripts;
mod trial;

pub use kill::{Fault, Home, Kill, SYSCALLS, Tracee, Workload};
pub use model::Model;
pub use plan::{at_every_position, at_points, at_points_again, at_syscalls, sample};
pub use tally::{Counted, Tally, explain, unhit_failpoints};
pub use trace::{Profile, count_visits, require_strace};
pub use trial::{Hit, Outcome, Violation, attempt, attempt_all};
