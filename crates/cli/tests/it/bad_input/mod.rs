//! Invalid input and unusable paths: Segno reports each by name, with the reason and a remedy, and
//! leaves nothing half-done behind.

#![expect(
    clippy::disallowed_methods,
    reason = "the machine is the subject: tests put files where they hurt"
)]

mod arguments;
mod bounds;
mod config;
mod home;
mod pipes;
mod specs;
mod terminal;

use segno_testkit::sandbox::Sandbox;

use crate::commands::session_statuses;

/// Asserts that no session was left behind and that the home is sound.
#[track_caller]
fn assert_nothing_stored(sandbox: &Sandbox) {
    assert!(session_statuses(sandbox).is_empty());
    sandbox.segno(&["doctor"]).expect_success();
}
