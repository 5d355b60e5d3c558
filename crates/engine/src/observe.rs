//! Lets others observe a run.

use segno_core::id::SessionId;
use segno_core::journal::{JournalEvent, Suspension};
use segno_core::step::Path;

/// Observes a run. Events are shown once they are durable, never before (P14).
pub trait Observer: Send + Sync {
    /// An event is durable.
    fn event(&self, session: SessionId, entry: &JournalEvent);

    /// The number of steps, where it is known in advance.
    fn planned(&self, steps: usize) {
        let _ = steps;
    }

    /// An earlier run finished the step, so it does not run again.
    fn skipped(&self, session: SessionId, path: &Path) {
        let _ = (session, path);
    }

    /// A step continues to wait for a rate limit that an earlier run met.
    fn suspended(&self, session: SessionId, path: &Path, suspension: &Suspension) {
        let _ = (session, path, suspension);
    }

    /// A piece of the text that an agent writes in an attempt at a step, before it is in the journal.
    fn text(&self, path: &Path, attempt: u32, piece: &str) {
        let _ = (path, attempt, piece);
    }

    /// A message for the user.
    fn notice(&self, message: &str);
}

/// Observes nothing.
pub struct NoObserver;

impl Observer for NoObserver {
    fn event(&self, _: SessionId, _: &JournalEvent) {}

    fn notice(&self, _: &str) {}
}
