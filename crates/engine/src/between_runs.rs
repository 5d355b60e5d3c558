//! Appends events to a session between two runs.
//!
//! The writer holds the lease for that time, under a run number that no run uses, and executes no
//! steps.

use std::sync::Arc;

use segno_core::journal::{Event, Run};
use segno_core::session::Summary;
use segno_core::state::State;

use crate::env::Env;
use crate::error::Error;
use crate::journal::Writer;
use crate::observe::NoObserver;
use crate::{history, lease, notes};

/// A session without an active run, whose lease this process holds.
pub(crate) struct BetweenRuns<'a> {
    world: &'a Env,
    summary: &'a Summary,
    run: Run,
    /// The session's current state; it cannot change while the lease is held.
    pub(crate) state: State,
}

impl<'a> BetweenRuns<'a> {
    /// Acquires the lease. Refused while a run is active.
    pub(crate) async fn acquire(world: &'a Env, summary: &'a Summary) -> Result<Self, Error> {
        let run = lease::acquire(world, summary).await?.run;
        match history::load_state(world, summary.id).await {
            Ok(state) => Ok(Self {
                world,
                summary,
                run,
                state,
            }),
            Err(error) => {
                let _ = world.store.release(summary.id, run).await;
                Err(error)
            }
        }
    }

    /// Appends an event after the notes that are in the inbox, and releases the lease.
    pub(crate) async fn append_after_notes(self, event: Event) -> Result<State, Error> {
        match notes::inbox_notes(self.world, self.summary.id).await {
            Ok((mut events, taken)) => {
                events.push(event);
                self.close(events, taken).await
            }
            Err(error) => {
                self.release().await;
                Err(error.into())
            }
        }
    }

    /// Appends events and releases the lease, in one commit. Returns the state after that.
    pub(crate) async fn append(self, events: Vec<Event>) -> Result<State, Error> {
        self.close(events, Vec::new()).await
    }

    async fn close(self, events: Vec<Event>, taken: Vec<u64>) -> Result<State, Error> {
        let (world, session) = (self.world, self.summary.id);
        let (pen, writer) = Writer::new(world, session, self.run, self.state, Arc::new(NoObserver));
        let closed = pen.close(events, taken).await;
        let state = pen.state();
        drop(pen);
        writer.await.expect("a pen writes until it is dropped");
        if closed.is_err() {
            let _ = world.store.release(session, self.run).await;
        }
        closed?;
        Ok(state)
    }

    /// Releases the lease without writing.
    pub(crate) async fn release(self) {
        let _ = self.world.store.release(self.summary.id, self.run).await;
    }
}
