//! CLI agents, which have their own transcripts, under the same faults: the real Claude Code and
//! the real Codex run the standard script as one step of a workflow, and a signal ends either segno
//! or the agent (P6, P7, P11).
//!
//! A [`Strike`] is an agent, a victim, a signal, and an instant: in the middle of a stream, of a
//! command, between turns, shortly after the conversation was opened, or at a random time.
//! [`attempt`] executes it in a [`StepFixture`] of its own and continues with `segno resume`, at most
//! [`RESUMES`] times. Then it checks that the workspace is what an undisturbed run leaves; that the
//! journal verifies and has the step finished once; that no started process is left running; and
//! that nothing finished is done again. The model server and the commands themselves count this,
//! outside of segno:
//!
//! - A turn that is in the journal when the work resumes is not paid for again. A turn that was
//!   *in flight* may be: the latest one that was asked for, if neither the journal nor the agent's
//!   transcript has it. So may the *last* one: the agent had said its last words, but its process
//!   had not ended, so that segno could not know them to be the last.
//! - A command that was done when the signal came does not start again. One that was cut off may:
//!   the model is told that its outcome is unknown, and checks first.
//! - Claude Code writes a file to a temporary path and renames it. Killed in between it leaves
//!   the *draft*. Segno must not delete it, because it cannot know that the file is a draft.
//!
//! Each of these is counted and none is hidden.
//!
//! A strike may name a second one, which hits the resume. Then the same holds for each: what is in
//! the journal when the work resumes is not paid for again, however often it was struck.
//!
//! A strike may also hit the process guard, alone or together with segno; and it may name an
//! [`Obstacle`], which stands in the way of the first resume: the program or its key is missing, the
//! transcript is held open, the agent's home was renamed, or its variable names another folder. An
//! intact conversation is never given up for such a reason; each resume takes the strategy that
//! `--dry-run` announced before, unless it added that only the agent can tell; and no two agents work
//! at once. These strikes also hit both agents behind their adapters of the Agent Client Protocol.

mod obstacle;
mod plan;
mod repeats;
mod scene;
mod strike;
mod trial;

pub use super::tally::{Tally, explain};
pub use obstacle::Obstacle;
pub use plan::{strikes, strikes_again, strikes_with_obstacles};
pub use scene::{Run, StepFixture};
pub use strike::{Again, Driver, Strike, StrikeSignal, StrikeTime, Victim};
pub use trial::{Outcome, RESUMES, attempt, attempt_all};
