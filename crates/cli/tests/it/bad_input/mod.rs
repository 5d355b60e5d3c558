//! Input that is wrong, and places that cannot be used: each is named, with the reason and the way
//! out, and leaves nothing half-done behind.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests put files where they hurt"
)]

mod arguments;
mod config;
mod home;
mod pipes;
mod specs;
mod terminal;

use segno_testkit::sandbox::Sandbox;

use crate::commands::standings;

/// No session was left behind, and what is kept is sound.
#[track_caller]
fn assert_nothing_kept(sandbox: &Sandbox) {
    assert!(standings(sandbox).is_empty());
    sandbox.segno(&["doctor"]).good();
}
