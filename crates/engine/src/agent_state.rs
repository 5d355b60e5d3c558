//! Changes of agents' state: redacted, checked against the state as it is, and appended.
//!
//! While a run is active, only it decides changes: those of its own tools, and those in the inbox.
//! Otherwise they are decided by who holds the lease between runs. So every change is decided once,
//! in the order of the journal.

use segno_core::agent_state::{Expected, Refused};
use segno_core::id::SessionId;
use segno_core::journal::{AgentStateChanged, Event, Seq};
use segno_core::state::AgentStates;
use segno_core::store::{Error as StoreError, InboxMessage};

use crate::env::Env;
use crate::journal::Writer;

/// A request to set or delete a value.
#[derive(Debug, Clone)]
pub struct Request {
    pub change: AgentStateChanged,
    /// If given, the change takes effect only if this is there.
    pub expected: Option<Expected>,
}

impl Request {
    /// The request without secrets (P12).
    pub fn redacted(self, env: &Env) -> Result<Self, Refused> {
        let Self {
            mut change,
            mut expected,
        } = self;
        let key = change.key.as_str();
        if env.redactor.redact(key) != key {
            return Err(Refused::SecretKey);
        }
        change.by = env.redactor.redact(&change.by).into_owned();
        if let Some(value) = &mut change.value {
            env.redactor.redact_json(value);
        }
        if let Some(Expected::Value(value)) = &mut expected {
            // It is compared with a value that was redacted.
            env.redactor.redact_json(value);
        }
        Ok(Self { change, expected })
    }

    /// The change as an event, if it may take effect now. The sender may not know all secrets that
    /// this process knows, so it is redacted here.
    pub fn decide(self, env: &Env, states: &AgentStates) -> Result<AgentStateChanged, Refused> {
        let Self { change, expected } = self.redacted(env)?;
        states.check(&change, expected.as_ref())?;
        Ok(change)
    }
}

impl From<Request> for InboxMessage {
    fn from(request: Request) -> Self {
        let Request { change, expected } = request;
        Self::AgentState { change, expected }
    }
}

/// What became of the changes in an inbox.
#[derive(Debug, Default)]
pub struct DecidedInbox {
    /// The changes that take effect.
    pub events: Vec<Event>,
    /// The inbox numbers of all changes.
    pub taken: Vec<u64>,
}

/// Decides the changes in the inbox, and applies those that take effect to `states`, which is that
/// of the journal up to `head`.
pub async fn decide_inbox(
    env: &Env,
    session: SessionId,
    states: &mut AgentStates,
    head: Seq,
) -> Result<DecidedInbox, StoreError> {
    let mut decided = DecidedInbox::default();
    let (mut seq, now) = (head, env.clock.now());
    for (number, message) in env.store.pending(session).await? {
        let InboxMessage::AgentState { change, expected } = message else {
            continue;
        };
        decided.taken.push(number);
        let request = Request { change, expected };
        // The sender of a refused change learns of it because no event names its request.
        if let Ok(change) = request.decide(env, states) {
            seq.0 += 1;
            states.apply(&change, seq, now);
            decided.events.push(change.into());
        }
    }
    Ok(decided)
}

/// Appends the changes in the inbox of an active run.
pub(crate) async fn consume_inbox(
    env: &Env,
    session: SessionId,
    journal: &Writer,
) -> Result<(), StoreError> {
    let _turn = journal.agent_state_turn().await;
    let (mut states, head) = journal.with_state(|state| {
        let states = AgentStates::clone(&state.agent_states);
        (states, state.head.seq)
    });
    let decided = decide_inbox(env, session, &mut states, head).await?;
    if !decided.taken.is_empty() {
        journal
            .write_and_consume(decided.events, decided.taken)
            .await?;
    }
    Ok(())
}
