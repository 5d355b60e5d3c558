//! Entries that others write between two runs of a session.
//!
//! Whoever writes one holds the lease for that moment, under a run number that no run has, and starts
//! nothing.

use std::sync::Arc;

use segno_core::journal::{Event, Run};
use segno_core::session::Summary;
use segno_core::state::State;

use crate::error::Error;
use crate::observe::Quiet;
use crate::pen::Pen;
use crate::world::World;
use crate::{claim, history, memos};

/// A session that nobody runs, held for a moment.
pub(crate) struct Interlude<'a> {
    world: &'a World,
    summary: &'a Summary,
    run: Run,
    /// The session as it is now: nobody changes it meanwhile.
    pub(crate) state: State,
}

impl<'a> Interlude<'a> {
    /// Takes hold of a session. Refused while somebody runs it.
    pub(crate) async fn begin(world: &'a World, summary: &'a Summary) -> Result<Self, Error> {
        let run = claim::claim(world, summary).await?.run;
        match history::look(world, summary.id).await {
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

    /// Writes an entry behind the memos that wait in the inbox, and lets go.
    pub(crate) async fn note(self, event: Event) -> Result<State, Error> {
        match memos::waiting(self.world, self.summary.id).await {
            Ok((mut events, taken)) => {
                events.push(event);
                self.close(events, taken).await
            }
            Err(error) => {
                self.leave().await;
                Err(error.into())
            }
        }
    }

    /// Writes entries and lets go, in one commit. Returns what the session adds up to then.
    pub(crate) async fn write(self, events: Vec<Event>) -> Result<State, Error> {
        self.close(events, Vec::new()).await
    }

    async fn close(self, events: Vec<Event>, taken: Vec<u64>) -> Result<State, Error> {
        let (world, session) = (self.world, self.summary.id);
        let (pen, scribe) = Pen::new(world, session, self.run, self.state, Arc::new(Quiet));
        let closed = pen.close(events, taken).await;
        let state = pen.state();
        drop(pen);
        scribe.await.expect("a pen writes until it is dropped");
        if closed.is_err() {
            let _ = world.store.release(session, self.run).await;
        }
        closed?;
        Ok(state)
    }

    /// Lets go without a word.
    pub(crate) async fn leave(self) {
        let _ = self.world.store.release(self.summary.id, self.run).await;
    }
}
