//! Opens a session: reads, verifies and folds its journal.

use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::SessionId;
use segno_core::journal::{Head, JournalEvent};
use segno_core::state::{FinishedSteps, State};
use segno_core::store::Error as StoreError;
use segno_spec as spec;
use segno_spec::Workflow;

use crate::env::Env;
use crate::journal;

/// How many events are read at a time.
pub(crate) const PAGE: usize = 2000;

/// Why a session's journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal's events contradict each other, so the state cannot be rebuilt.
    #[error("the journal of session {session} is damaged: {reason}")]
    InvalidJournal { session: SessionId, reason: String },
    /// The stored spec does not match the digest in the journal.
    #[error("the stored spec of session {session} cannot be used: {reason} (digest {digest})")]
    InvalidStoredSpec {
        session: SessionId,
        digest: Digest,
        reason: String,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::InvalidJournal { .. } | Self::InvalidStoredSpec { .. } => {
                Diagnosis::new(Kind::Damaged, "J0104").hint("`segno doctor` lists all damage")
            }
        }
    }
}

/// A session's state, from the newest stored fold and the events after it. Cheap for journals of
/// any length. Good for display, not as the base of a run.
pub async fn load_state(env: &Env, session: SessionId) -> Result<State, Error> {
    let end = env.store.summary(session).await?.head;
    let kept = stored_state(env, session).await?;
    let kept = kept.filter(|state| state.head.seq <= end.seq);
    // A stored fold that the journal does not continue is discarded, not trusted.
    if let Some(mut state) = kept
        && read_events(env, session, state.head, |entry| {
            apply(&mut state, session, &entry)
        })
        .await
        .is_ok()
    {
        return Ok(state);
    }
    let mut state = State::empty(session);
    read_events(env, session, state.head, |entry| {
        apply(&mut state, session, &entry)
    })
    .await?;
    Ok(state)
}

/// The newest stored fold of a session; `None` if there is none that this version can read. Events may
/// have followed.
async fn stored_state(env: &Env, session: SessionId) -> Result<Option<State>, StoreError> {
    let folded = env.store.cached_state(session).await?;
    let folded = folded.filter(|folded| folded.version == State::VERSION);
    Ok(folded.and_then(|folded| {
        let state: State = serde_json::from_str(&folded.body).ok()?;
        (state.head == folded.head).then_some(state)
    }))
}

/// A session's state and finished steps, with every event verified from the first on. A run never
/// starts from a cache (P7, P9).
pub async fn load_verified(env: &Env, session: SessionId) -> Result<(State, FinishedSteps), Error> {
    let (mut state, mut finished) = (State::empty(session), FinishedSteps::default());
    read_events(env, session, state.head, |entry| {
        finished.apply(&entry);
        apply(&mut state, session, &entry)
    })
    .await?;
    Ok((state, finished))
}

/// Reads all events after `head` in pages and passes each to `each`.
pub async fn read_events(
    env: &Env,
    session: SessionId,
    mut head: Head,
    mut each: impl FnMut(JournalEvent) -> Result<(), Error>,
) -> Result<Head, Error> {
    loop {
        let page = env.store.read(session, head, PAGE).await?;
        let full = page.len() == PAGE;
        for entry in page {
            head = entry.head();
            each(entry)?;
        }
        if !full {
            return Ok(head);
        }
    }
}

/// Applies an event to a state that is folded from the journal of `session`.
pub fn apply(state: &mut State, session: SessionId, entry: &JournalEvent) -> Result<(), Error> {
    state.apply(entry).map_err(|illegal| Error::InvalidJournal {
        session,
        reason: illegal.to_string(),
    })
}

/// The spec as the journal recorded it, with secrets redacted.
pub async fn recorded_spec(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<Workflow, Error> {
    let entry = env.store.event(session, state.spec_seq).await?;
    let digest = state.spec_digest.unwrap_or_else(|| Digest::of(&[]));
    let unusable = |reason: String| Error::InvalidStoredSpec {
        session,
        digest,
        reason,
    };
    let text = entry
        .event
        .text()
        .ok_or_else(|| unusable(format!("event {} has no text", state.spec_seq)))?;
    let text = journal::load_text(env, text).await?;
    spec::parse(&text).map_err(|problems| unusable(problems.to_string()))
}
