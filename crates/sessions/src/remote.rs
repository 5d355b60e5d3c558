//! Pulls checkpoints from the remote, and deletes what nothing there references.

mod error;
mod pull;
mod sweep;

pub use error::Error;
pub use pull::{Pulled, PulledSession, pull};
pub(crate) use pull::{fetch, ordered};
pub use segno_engine::remote::{Pushed, list, push, push_all, push_pending};
pub use sweep::{Swept, sweep};
