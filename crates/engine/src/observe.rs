//! Watching a run from outside.

use segno_core::id::SessionId;
use segno_core::journal::{Entry, Suspension};
use segno_core::step::Path;

/// Sees what happens in a run. Entries are shown once they are durable, never before (P14).
pub trait Observer: Send + Sync {
    /// An entry was written down.
    fn entry(&self, session: SessionId, entry: &Entry);

    /// How many steps the workflow has, where that is known beforehand.
    fn planned(&self, steps: usize) {
        let _ = steps;
    }

    /// A step had been finished by an earlier run and was not run again.
    fn skipped(&self, session: SessionId, path: &Path) {
        let _ = (session, path);
    }

    /// A step goes on waiting for a limit that an earlier run was told of.
    fn suspended(&self, session: SessionId, path: &Path, suspension: &Suspension) {
        let _ = (session, path, suspension);
    }

    /// An agent says something, piece by piece, before it is written down. What is said again after a
    /// failure comes again.
    fn words(&self, piece: &str) {
        let _ = piece;
    }

    /// Something that a person should know.
    fn notice(&self, message: &str);
}

/// Nobody watches.
pub struct Quiet;

impl Observer for Quiet {
    fn entry(&self, _: SessionId, _: &Entry) {}

    fn notice(&self, _: &str) {}
}
