//! Agents whose programs keep their conversations, under the same faults: the real Claude Code and
//! the real Codex do the standard script for one step of a workflow, and either segno or the program
//! is ended by a signal (P6, P7, P11).
//!
//! A [`Strike`] is an agent, whom it hits, the signal, and the moment: in the middle of a stream, of a
//! command, between turns, shortly after the conversation was begun, or whenever chance says.
//! [`attempt`] lets it happen on a [`Scene`] of its own and goes on with `segno resume`, at most
//! [`RESUMES`] times. Then the workspace is what an undisturbed run leaves; the journal verifies and has
//! the step finished once; nothing that was started is left running; and what was done is not done
//! again, counted by the model server and by the commands themselves, outside of segno:
//!
//! - A turn that stands in the journal when the work goes on is not paid for again. A turn that was
//!   *in flight* may be: the newest one that was asked for, if neither the journal nor the program's
//!   record has it. So may the *last* one: the agent had said its last words, but its program had not
//!   ended, so that nobody could know them to be the last.
//! - A command that was done when the signal came does not begin again. One that was cut off may: the
//!   model is told that its outcome is unknown, and looks first.
//! - Claude Code writes a file beside its place and moves it there. Killed in between it leaves the
//!   *draft*, which nobody may remove who does not know that it is one.
//!
//! Each of these is counted and none is hidden.
//!
//! A strike may name a second one, which hits the resume. Then the same holds of each: what stands in
//! the journal when the work goes on is not paid for again, however often it was struck. A program that
//! is struck while it goes on and has not yet said anything is taken to have fallen over its own record,
//! and a fresh conversation goes on.

mod ledger;
mod plan;
mod scene;
mod strike;
mod trial;

pub use plan::{strikes, strikes_again};
pub use scene::{Run, Scene};
pub use strike::{Again, Blow, Moment, Strike, Victim};
pub use trial::{Outcome, RESUMES, attempt, attempt_all};

pub use super::tally::{Tally, explain};
