//! Any program as an agent: the prompt on its stdin, the answer from its stdout.
//!
//! Exit code 0 makes what it wrote the answer; everything else is a failure that carries the end of
//! its stderr. It starts from an array of arguments, never through a shell, in the request's
//! workspace, with Segno's environment and `SEGNO_SESSION`, `SEGNO_RUN`, `SEGNO_STEP`,
//! `SEGNO_ATTEMPT` and `SEGNO_STEP_ID`. A program's name with a slash is looked up from the
//! workspace, one without in `PATH`. What it used is not known and counts as nothing.
//!
//! **Nothing it started outlives the attempt.** Between Segno and the agent stands a [`warden`], a
//! process that adopts every orphan below it (as a child subreaper) and ends whatever is left:
//! when the agent exits, when the driver's future is dropped, and when Segno itself is killed.
//!
//! ```text
//! segno ──control socket── warden ── agent ── whatever it starts, in any session or group
//!   └──────────────── stdout, stderr ──┘
//! ```
//!
//! The warden's stdin is one end of a socket pair, the control socket. The driver sends an order
//! and the prompt, and keeps its end open for as long as the attempt lives; when that end closes,
//! however that came about, the warden kills. The warden sends back one line that says how it went.
//! The agent holds neither end (its stdin is a pipe of its own, and a socket cannot be opened
//! through `/proc`), so it cannot write that line: without it, there is no answer.
//!
//! A program that is spoken to for longer, like a server of [`mcp`](crate::mcp), reads what is sent
//! over the control socket for as long as its owner sends; the rest is the same.
//!
//! After a drop the tree ends within milliseconds, but not before the drop returns. An `ask` that
//! returns has seen the end of the tree.
//!
//! This is a broom, not a jail. An agent that kills its warden on purpose leaves its children to
//! live; work that it hands to a service (`systemd-run`, `at`, a container engine) is not below the
//! warden; and descriptors that Segno was started with and that were never marked close-on-exec
//! pass through.

mod driver;
mod errand;
pub(crate) mod output;
pub(crate) mod protocol;
mod tree;
pub mod warden;

pub use driver::Command;
pub use errand::Launch;
pub(crate) use errand::{Errand, Inherit, told};
