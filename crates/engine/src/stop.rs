//! Asking a run to stop, and hearing of it.

use segno_core::journal::StopMode;
use segno_core::session::Status;
use tokio::sync::watch;

/// Why a run should stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Someone asked.
    Asked {
        /// Who or what.
        by: String,
        /// When it takes effect.
        mode: StopMode,
        /// Where the session will then stand.
        status: Status,
    },
    /// Another run was granted: nothing may be written any more.
    Fenced(segno_core::store::Error),
}

impl Stop {
    fn is_immediate(&self) -> bool {
        !matches!(
            self,
            Stop::Asked {
                mode: StopMode::Boundary,
                ..
            }
        )
    }
}

/// Asks. Clones ask the same run.
#[derive(Debug, Clone)]
pub struct Brake(watch::Sender<Option<Stop>>);

impl Default for Brake {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Brake {
    /// Asks the run to stop. A stop at once overrides one at the next boundary, never the other
    /// way round, and being overtaken overrides everything.
    pub fn pull(&self, stop: Stop) {
        self.0.send_if_modified(|current| {
            let weaker = match current {
                None => true,
                Some(Stop::Fenced(_)) => false,
                Some(asked) => {
                    matches!(stop, Stop::Fenced(_))
                        || (stop.is_immediate() && !asked.is_immediate())
                }
            };
            if weaker {
                *current = Some(stop);
            }
            weaker
        });
    }

    /// What was asked so far.
    pub fn pulled(&self) -> Option<Stop> {
        self.0.borrow().clone()
    }

    /// Returns when a stop at once was asked.
    pub async fn at_once(&self) -> Stop {
        let mut receiver = self.0.subscribe();
        let stop = receiver
            .wait_for(|stop| stop.as_ref().is_some_and(Stop::is_immediate))
            .await;
        stop.expect("the sender lives in self")
            .clone()
            .expect("it was just seen")
    }

    /// Returns when any stop was asked.
    pub async fn any(&self) -> Stop {
        let mut receiver = self.0.subscribe();
        let stop = receiver.wait_for(Option::is_some).await;
        stop.expect("the sender lives in self")
            .clone()
            .expect("it was just seen")
    }
}
