//! The journal of a fork.

use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, JournalEvent, Record, Run, RunEnded, SessionCreated};
use segno_core::session::Status;
use segno_core::state::State;
use segno_core::store::{Batch, LeaseUpdate, NewSession};
use segno_core::time::Timestamp;
use segno_engine::{Env, history, journal, steps};

/// A journal that is written at once, in one run.
pub(super) struct ForkJournal {
    pub(super) session: SessionId,
    pub(super) state: State,
    at: Timestamp,
    records: Vec<Record>,
}

impl ForkJournal {
    pub(super) fn new(env: &Env) -> Self {
        let mut entropy = [0; 10];
        env.random.fill(&mut entropy);
        let at = env.clock.now();
        let session = SessionId::new(at, entropy);
        Self {
            session,
            at,
            state: State::empty(session),
            records: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, event: Event) -> Result<(), history::Error> {
        let (run, at) = (Run(1), self.at);
        let record = self.state.head.seal(run, at, &event);
        let entry = JournalEvent {
            seq: record.seq,
            run,
            at,
            event,
            hash: record.hash,
        };
        self.records.push(record);
        history::apply(&mut self.state, self.session, &entry)
    }

    /// Ends the journal: steps in flight get an unknown outcome (P6), and the session is paused.
    pub(super) fn end(&mut self) -> Result<(), history::Error> {
        for event in steps::unknown_step_events(&self.state) {
            self.write(event)?;
        }
        let ended = RunEnded {
            status: Status::Paused,
            error: None,
            output: None,
        };
        self.write(ended.into())
    }

    /// The session, ready for creation. No process holds its lease afterwards.
    pub(super) fn ready(self, env: &Env, created: &SessionCreated) -> NewSession {
        let batch = Batch {
            session: self.session,
            run: Run(1),
            expected: Head::genesis(self.session),
            records: self.records,
            status: self.state.status,
            spec_digest: self.state.spec_digest,
            workspace: None,
            lease: LeaseUpdate::Release,
            cached_state: Some(journal::to_folded(&self.state)),
            handled_messages: Vec::new(),
        };
        NewSession {
            id: self.session,
            name: created.name.clone(),
            kind: created.session_kind,
            workspace: created.workspace.clone(),
            owner: env.processes.current(),
            ttl: env.ttl,
            batch,
        }
    }
}
