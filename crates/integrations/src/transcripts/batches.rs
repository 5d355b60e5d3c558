//! Appends the events of an adoption, each with the time that it has in the conversation.

use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Run, RunPurpose, SessionCreated};
use segno_core::state::State;
use segno_core::store::{Batch, LeaseUpdate};
use segno_core::time::Timestamp;
use segno_engine::{Env, history, journal};
use segno_sessions::start;

/// Collects events and appends them in few transactions: a session is created with everything that
/// is known by then.
pub(super) struct Batches<'a> {
    env: &'a Env,
    session: SessionId,
    run: Run,
    /// The session, if it is not created yet.
    created: Option<SessionCreated>,
    name: Option<Name>,
    /// The state at the end of the journal.
    state: State,
    pending: Vec<(Timestamp, Event)>,
    /// The time of the newest event.
    at: Timestamp,
}

/// Whether a batch ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Continues,
    EndsRun,
}

impl<'a> Batches<'a> {
    /// Begins a session whose first event is of `at`.
    pub(super) fn create(
        env: &'a Env,
        session: SessionId,
        created: SessionCreated,
        at: Timestamp,
    ) -> Self {
        Self {
            env,
            session,
            run: Run(1),
            created: Some(created),
            name: None,
            state: State::empty(session),
            pending: Vec::new(),
            at: at.min(env.clock.now()),
        }
    }

    /// Begins a run of a session whose journal folds to `state`.
    pub(super) fn append(env: &'a Env, session: SessionId, run: Run, state: State) -> Self {
        let at = state.updated_at;
        let mut batches = Self {
            env,
            session,
            run,
            created: None,
            name: None,
            state,
            pending: Vec::new(),
            at,
        };
        batches.push(None, env.run_started(RunPurpose::Bookkeeping));
        batches
    }

    /// The name of a session that this created.
    pub(super) fn name(&self) -> Option<Name> {
        self.name.clone()
    }

    /// Adds an event of this time. Times of a journal do not decrease, and are not in the future,
    /// whatever a transcript says.
    pub(super) fn push(&mut self, at: Option<Timestamp>, event: Event) {
        let now = self.env.clock.now();
        self.at = at.map_or(self.at, |at| at.min(now).max(self.at));
        self.pending.push((self.at, event));
    }

    /// Appends what was added, in one transaction; durable when it returns.
    pub(super) async fn commit(&mut self, end: End) -> Result<(), history::Error> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let (env, session, run) = (self.env, self.session, self.run);
        let close = |batch: Batch, state: &State| match end {
            End::EndsRun => Batch {
                lease: LeaseUpdate::Release,
                cached_state: Some(journal::to_folded(state)),
                ..batch
            },
            End::Continues => Batch {
                lease: LeaseUpdate::Renew(env.ttl),
                ..batch
            },
        };
        let Some(created) = self.created.take() else {
            let (batch, _) = start::seal(&mut self.state, session, run, pending)?;
            env.store.append(close(batch, &self.state)).await?;
            return Ok(());
        };
        let first = pending.first().map_or(self.at, |(at, _)| *at);
        let seal = |created: SessionCreated| {
            let begun = [created.into(), env.run_started(RunPurpose::Work)];
            let begun = begun.into_iter().map(|event| (first, event));
            let events = begun.chain(pending.iter().cloned()).collect();
            let mut state = State::empty(session);
            let (batch, _) = start::seal(&mut state, session, run, events)?;
            Ok((close(batch, &state), state))
        };
        let naming = start::Naming::Numbered;
        let (name, state) = start::create_sealed(env, session, &created, naming, seal).await?;
        (self.name, self.state) = (Some(name), state);
        Ok(())
    }
}
