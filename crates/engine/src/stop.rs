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

    /// Both wishes together. Who asked last is named, if that changed anything.
    fn and(self, other: Stop) -> Stop {
        match (self, other) {
            (fenced @ Stop::Fenced(_), _) | (_, fenced @ Stop::Fenced(_)) => fenced,
            (
                Stop::Asked { by, mode, status },
                Stop::Asked {
                    by: again,
                    mode: also,
                    status: then,
                },
            ) => {
                let sum = (
                    if also == StopMode::Now { also } else { mode },
                    if then == Status::Cancelled {
                        then
                    } else {
                        status
                    },
                );
                let by = if sum == (mode, status) { by } else { again };
                Stop::Asked {
                    by,
                    mode: sum.0,
                    status: sum.1,
                }
            }
        }
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
    /// Asks the run to stop. Wishes add up: at once is stronger than at the next boundary, giving
    /// up is stronger than pausing, and being overtaken is stronger than everything.
    pub fn pull(&self, stop: Stop) {
        self.0.send_if_modified(|current| {
            let sum = match current {
                None => stop,
                Some(current) => current.clone().and(stop),
            };
            let changed = current.as_ref() != Some(&sum);
            *current = Some(sum);
            changed
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
