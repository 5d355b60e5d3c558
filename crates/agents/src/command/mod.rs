//! Any program as an agent: the prompt on its stdin, the answer from its stdout.
//!
//! With exit code 0, its stdout is the answer; everything else is a failure that contains the end
//! of its stderr. It starts from an array of arguments, never through a shell, in the request's
//! workspace, with Segno's environment and `SEGNO_SESSION`, `SEGNO_RUN`, `SEGNO_STEP`,
//! `SEGNO_ATTEMPT` and `SEGNO_STEP_ID`. A program's name with a slash is resolved from the
//! workspace, one without in `PATH`. Its usage is not known and counts as zero.
//!
//! **Nothing it started outlives the attempt.** Between Segno and the agent runs a process guard
//! ([`process_guard`]): a process that adopts every orphan below it (as a child subreaper) and kills
//! whatever is left: when the agent exits, when the driver's future is dropped, and when Segno
//! itself is killed.
//!
//! ```text
//! segno ──control socket── guard ── agent ── whatever it starts, in any session or group
//!   └──────────────── stdout, stderr ──┘
//! ```
//!
//! The guard's stdin is one end of a socket pair, the control socket. The driver sends a `SpawnRequest`
//! and the prompt, and keeps its end open for as long as the attempt lives; when that end closes,
//! for whatever reason, the guard kills the tree. The guard sends back one line, a `Status`. The
//! agent holds neither end (its stdin is a pipe of its own, and a socket cannot be opened through
//! `/proc`), so it cannot write that line; without that line, there is no answer.
//!
//! A program with a longer conversation, like a server of [`mcp`](crate::mcp), reads what its owner
//! sends over the control socket for as long as the owner sends; the rest is the same.
//!
//! After a drop the tree ends within milliseconds, but not before the drop returns. An `ask` that
//! returns has seen the end of the tree.
//!
//! **Nor does it outlive a guard that is killed.** The kernel kills the agent with its guard; whatever
//! the agent had started is found by a mark in its environment and ended (`orphans`), at once if Segno
//! lives, otherwise before the next run of the session starts anything.
//!
//! The guard cleans up; it is not a sandbox. Work that an agent hands to a service (`systemd-run`, `at`,
//! a container engine) is not below the guard; and file descriptors that Segno was started with and that
//! were never marked close-on-exec are inherited.

mod child_process;
mod confinement;
mod driver;
mod environment;
mod orphans;
pub(crate) mod output;
mod plain_program;
pub mod process_guard;
mod process_tree;
pub(crate) mod protocol;

pub use child_process::Launch;
pub(crate) use child_process::{ChildProcess, describe_status};
pub(crate) use confinement::Writes;
pub use driver::Command;
pub use environment::AgentEnvironment;
pub(crate) use environment::{Inherit, VENDORS};
pub use orphans::end_orphans;
pub(crate) use orphans::{SESSION, end_guard};
pub use plain_program::run_program;
