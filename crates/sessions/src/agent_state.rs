//! Reads and changes what agents stored, from outside of a run.
//!
//! While a run is active, a change goes into the inbox and the run decides it; otherwise it is decided
//! between runs. Either way it is durable when [`change`] returns.

use std::collections::BTreeSet;
use std::time::Duration;

use segno_core::agent_state::{Expected, Key, Refused};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::{Name, RequestId};
use segno_core::journal::{AgentStateChanged, Event, Head, Seq};
use segno_core::lease::LeaseDecision;
use segno_core::state::{AgentStates, State, StoredValue};
use segno_core::store::{Error as StoreError, InboxMessage, Summary};
use segno_engine::agent_state::{Request, decide_inbox};
use segno_engine::between_runs::{self, BetweenRuns};
use segno_engine::{Env, history, lease};
use serde_json::Value;

use crate::notes::Author;

/// How often the inbox is read while a change waits for the run.
const INBOX_POLL: Duration = Duration::from_millis(20);

/// Why a value was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    BetweenRuns(#[from] between_runs::Error),
    #[error("session `{name}` has no agent `{agent}`")]
    UnknownAgent {
        name: Name,
        agent: String,
        known: Vec<String>,
    },
    /// Several agents may be meant.
    #[error("session `{name}` has several agents: {}", .known.join(", "))]
    SeveralAgents { name: Name, known: Vec<String> },
    #[error("agent `{agent}` of session `{name}` has no value `{key}`")]
    NoSuchKey { name: Name, agent: String, key: Key },
    /// The change does not take effect.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::BetweenRuns(error) => error.diagnosis(),
            Self::UnknownAgent { known, .. } => Diagnosis::new(Kind::Invalid, "R0160")
                .hint(format!("its agents: {}", known.join(", "))),
            Self::SeveralAgents { .. } => {
                Diagnosis::new(Kind::Invalid, "R0160").hint("name one with `--agent`")
            }
            Self::NoSuchKey { name, .. } => Diagnosis::new(Kind::NotFound, "R0161")
                .hint(format!("`segno state list {name}` lists all values")),
            Self::Refused(Refused::Differs { .. }) => Diagnosis::new(Kind::Changed, "R0162")
                .hint("read the value again, and decide with the new one"),
            Self::Refused(Refused::SecretKey) => Diagnosis::new(Kind::Invalid, "R0163")
                .hint("keys are stored and shown; choose another one"),
            Self::Refused(_) => Diagnosis::new(Kind::Invalid, "R0163")
                .hint("store long values in a file of the workspace, and its path here"),
        }
    }
}

/// A request to set or delete a value.
#[derive(Debug, Clone)]
pub struct Change {
    pub agent: String,
    pub key: Key,
    /// The new value; `None` deletes the key.
    pub value: Option<Value>,
    /// If given, the change takes effect only if this is there.
    pub expected: Option<Expected>,
}

/// Where the change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// In the journal.
    Written,
    /// In the inbox, until the run decides it.
    Posted,
}

/// The state of all agents, including the changes in the inbox.
pub async fn read(env: &Env, summary: &Summary) -> Result<AgentStates, Error> {
    let state = history::load_state(env, summary.id).await?;
    Ok(merged(env, summary, &state).await?)
}

async fn merged(env: &Env, summary: &Summary, state: &State) -> Result<AgentStates, StoreError> {
    let mut states = AgentStates::clone(&state.agent_states);
    decide_inbox(env, summary.id, &mut states, state.head.seq).await?;
    Ok(states)
}

/// Changes a value. While a run is active, waits at most `patience` until the run has decided the
/// change.
pub async fn change(
    env: &Env,
    summary: &Summary,
    author: Author,
    change: Change,
    patience: Duration,
) -> Result<Changed, Error> {
    let Change {
        agent,
        key,
        value,
        expected,
    } = change;
    let state = history::load_state(env, summary.id).await?;
    let request = Request {
        change: AgentStateChanged {
            agent,
            key,
            value,
            source: author.source,
            by: author.by,
            path: author.path,
            request: Some(request_id(env)),
        },
        expected,
    };
    let request = request.redacted(env)?;
    match acquire(env, summary).await? {
        Some(between_runs) => {
            between_runs.change_agent_state(request).await??;
            Ok(Changed::Written)
        }
        None => post(env, summary, request, state.head, patience).await,
    }
}

/// The session between two runs; `None` while somebody holds it. A change never ends the owner: it may
/// be by the owner's own agent.
async fn acquire<'a>(env: &'a Env, summary: &'a Summary) -> Result<Option<BetweenRuns<'a>>, Error> {
    let lease = env.store.lease(summary.id).await?;
    if lease::verdict(env, &lease) != LeaseDecision::Acquire {
        return Ok(None);
    }
    match BetweenRuns::acquire(env, summary).await {
        Ok(between_runs) => Ok(Some(between_runs)),
        Err(error) if error.is_held() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Posts a change, and waits until the run has decided it. If the session was held for a moment only,
/// by another change, it is decided here.
async fn post(
    env: &Env,
    summary: &Summary,
    request: Request,
    before: Head,
    patience: Duration,
) -> Result<Changed, Error> {
    let change = request.change.clone();
    let posted = env
        .store
        .post(summary.id, env.clock.now(), request.clone().into());
    posted.await?;
    let is_own = |message: &InboxMessage| matches!(message, InboxMessage::AgentState { change: posted, .. } if posted.request == change.request);
    let until = env.clock.elapsed() + patience;
    loop {
        let pending = env.store.pending(summary.id).await?;
        if !pending.iter().any(|(_, message)| is_own(message)) {
            break;
        }
        if let Some(between_runs) = acquire(env, summary).await? {
            between_runs.decide_agent_states().await?;
            continue;
        }
        if env.clock.elapsed() >= until {
            return Ok(Changed::Posted);
        }
        env.clock.sleep(INBOX_POLL).await;
    }
    let mut written: Option<Seq> = None;
    history::read_events(env, summary.id, before, |entry| {
        if let Event::AgentStateChanged(event) = &entry.event
            && event.request == change.request
        {
            written = Some(entry.seq);
        }
        Ok(())
    })
    .await?;
    if written.is_some() {
        return Ok(Changed::Written);
    }
    // The run refused it. Why is in the state, unless that changed again.
    let state = history::load_state(env, summary.id).await?;
    let states = &state.agent_states;
    states.check(&change, request.expected.as_ref())?;
    let found = states.get(&change.agent, &change.key);
    Err(Error::Refused(Refused::Differs {
        found: found.map(|stored| stored.value.clone()),
        agent: change.agent,
        key: change.key,
    }))
}

fn request_id(env: &Env) -> RequestId {
    let mut entropy = [0; 10];
    env.random.fill(&mut entropy);
    RequestId::new(env.clock.now(), entropy)
}

/// The agent that is meant: the named one, or the only one.
pub async fn find_agent(
    env: &Env,
    summary: &Summary,
    named: Option<&str>,
) -> Result<String, Error> {
    let state = history::load_state(env, summary.id).await?;
    let known = agents(env, summary, &state).await;
    let name = summary.name.clone();
    match (named, known.as_slice()) {
        (Some(agent), known) if known.iter().any(|known| known == agent) => Ok(agent.to_owned()),
        (Some(agent), _) => Err(Error::UnknownAgent {
            name,
            agent: agent.to_owned(),
            known,
        }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Error::SeveralAgents { name, known }),
    }
}

/// The agents of the spec in force, and those that took part or stored something.
async fn agents(env: &Env, summary: &Summary, state: &State) -> Vec<String> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    if let Ok(spec) = history::recorded_spec(env, summary.id, state).await {
        known.extend(spec.agents.into_keys());
    }
    known.extend(state.usage_by_agent.keys().cloned());
    known.extend(state.open_steps.values().map(|open| open.agent.clone()));
    known.extend(
        state
            .agent_states
            .agents()
            .map(|(agent, _)| agent.to_owned()),
    );
    known.remove("");
    known.into_iter().collect()
}

/// The value of a key, and the change that set it.
pub fn get<'a>(
    states: &'a AgentStates,
    summary: &Summary,
    agent: &str,
    key: &Key,
) -> Result<&'a StoredValue, Error> {
    states.get(agent, key).ok_or_else(|| Error::NoSuchKey {
        name: summary.name.clone(),
        agent: agent.to_owned(),
        key: key.clone(),
    })
}
