//! Appends events to a session between two runs.
//!
//! The writer holds the lease for that time, under a run number that no run uses, and executes no
//! steps.

use std::sync::Arc;

use segno_core::agent_state::Refused;
use segno_core::error::{Diagnose, Diagnosis};
use segno_core::journal::{Event, Run};
use segno_core::state::{AgentStates, State};
use segno_core::store::{Error as StoreError, Summary};

use crate::agent_state::{self, DecidedInbox, Request};
use crate::env::Env;
use crate::journal::Writer;
use crate::observe::NoObserver;
use crate::{history, lease, note_events};

/// Why nothing could be appended between two runs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lease(#[from] lease::Error),
    #[error(transparent)]
    History(#[from] history::Error),
}

impl Error {
    /// Whether a run holds the session.
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Lease(error) if error.is_held())
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Lease(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
        }
    }
}

/// A session without an active run, whose lease this process holds.
pub struct BetweenRuns<'a> {
    env: &'a Env,
    summary: &'a Summary,
    run: Run,
    /// The session's current state; it cannot change while the lease is held.
    pub state: State,
}

impl<'a> BetweenRuns<'a> {
    /// Acquires the lease. Refused while a run is active.
    pub async fn acquire(env: &'a Env, summary: &'a Summary) -> Result<Self, Error> {
        let run = lease::acquire(env, summary).await?.run;
        match history::load_state(env, summary.id).await {
            Ok(state) => Ok(Self {
                env,
                summary,
                run,
                state,
            }),
            Err(error) => {
                let _ = env.store.release(summary.id, run).await;
                Err(error.into())
            }
        }
    }

    /// Appends an event after the notes that are in the inbox, and releases the lease.
    pub async fn append_after_notes(self, event: Event) -> Result<State, Error> {
        match note_events::inbox_notes(self.env, self.summary.id).await {
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

    /// Appends a change of an agent's state after those in the inbox, if it takes effect, and releases
    /// the lease.
    pub async fn change_agent_state(self, request: Request) -> Result<Result<(), Refused>, Error> {
        let (mut decided, states) = match self.decide_inbox().await {
            Ok(decided) => decided,
            Err(error) => {
                self.release().await;
                return Err(error.into());
            }
        };
        let outcome = request.decide(self.env, &states);
        let outcome = outcome.map(|change| decided.events.push(change.into()));
        self.append_decided(decided).await?;
        Ok(outcome)
    }

    /// Appends the changes of agents' state that are in the inbox, and releases the lease.
    pub async fn decide_agent_states(self) -> Result<(), Error> {
        match self.decide_inbox().await {
            Ok((decided, _)) => self.append_decided(decided).await,
            Err(error) => {
                self.release().await;
                Err(error.into())
            }
        }
    }

    async fn decide_inbox(&self) -> Result<(DecidedInbox, AgentStates), StoreError> {
        let mut states = AgentStates::clone(&self.state.agent_states);
        let (session, head) = (self.summary.id, self.state.head.seq);
        let decided = agent_state::decide_inbox(self.env, session, &mut states, head).await?;
        Ok((decided, states))
    }

    async fn append_decided(self, decided: DecidedInbox) -> Result<(), Error> {
        let DecidedInbox { events, taken } = decided;
        if events.is_empty() && taken.is_empty() {
            self.release().await;
            return Ok(());
        }
        self.close(events, taken).await?;
        Ok(())
    }

    /// Appends events and releases the lease, in one commit. Returns the state after that.
    pub async fn append(self, events: Vec<Event>) -> Result<State, Error> {
        self.close(events, Vec::new()).await
    }

    async fn close(self, events: Vec<Event>, taken: Vec<u64>) -> Result<State, Error> {
        let (env, session) = (self.env, self.summary.id);
        let (journal, writer) =
            Writer::new(env, session, self.run, self.state, Arc::new(NoObserver));
        let closed = journal.close(events, taken).await;
        let state = journal.state();
        drop(journal);
        writer.await.expect("the writer runs until it is dropped");
        if closed.is_err() {
            let _ = env.store.release(session, self.run).await;
        }
        closed?;
        Ok(state)
    }

    /// Releases the lease without writing.
    pub async fn release(self) {
        let _ = self.env.store.release(self.summary.id, self.run).await;
    }
}
