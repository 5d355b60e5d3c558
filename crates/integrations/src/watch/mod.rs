//! Mirrors the transcripts of CLI agents while they grow.
//!
//! Scanning decides: the current fingerprint of a transcript is compared with the one when it was
//! mirrored. [`file_events`] reports file events that only make a scan happen earlier, and may miss any
//! of them. [`queue`] holds the transcripts to mirror, newest first, and limits how often each one
//! is mirrored. [`lock`] prevents a second watcher.

mod file_events;
mod lock;
mod queue;
mod scan;

pub use file_events::{Changes, FileEvents};
pub use lock::{LockError, WatchLock};
pub use queue::{Job, Queue};
pub use scan::{Fingerprint, Tree, transcripts_in, tree};
