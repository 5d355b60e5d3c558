//! What a session knew at a checkpoint: its plan, notes and usage, folded from its journal up to the
//! position of the checkpoint.

use std::collections::{BTreeMap, HashMap};

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::handoff::Handoff;
use segno_core::id::{CheckpointId, SessionId};
use segno_core::state::State;
use segno_engine::{Env, history};

use super::calls::{Calls, Counter};
use super::replay::Replay;
use crate::last_run::LastRun;
use crate::progress::Progress;
use crate::resume_context::add_reviews;

/// What a session knew at a checkpoint.
#[derive(Debug, Clone)]
pub struct Content {
    pub overview: Overview,
    pub state: State,
    /// The notes, and the reviews of the plan's tasks.
    pub handoff: Handoff,
    pub calls: Calls,
}

/// How far a session was at a checkpoint.
#[derive(Debug, Clone)]
pub struct Overview {
    /// How many times the session had been started or resumed.
    pub session_number: u64,
    pub progress: Progress,
    /// Why the run had ended; absent if the run continued, or nothing is known.
    pub reason: Option<String>,
}

impl Content {
    /// Replays the session up to the checkpoint; `None` if its journal is not here.
    pub async fn of(env: &Env, manifest: &Manifest) -> Result<Option<Self>, history::Error> {
        let mut counter = Counter::default();
        let replay = Replay::up_to(env, manifest, |entry| counter.add(&entry.event)).await?;
        let Some(replay) = replay else {
            return Ok(None);
        };
        let overview = overview(env, manifest, &replay).await?;
        let state = replay.state;
        let mut handoff = (*state.handoff).clone();
        if let Some(plan) = &overview.progress.plan {
            add_reviews(&mut handoff, plan, &state);
        }
        Ok(Some(Self {
            calls: counter.finish(env).await?,
            overview,
            state,
            handoff,
        }))
    }
}

async fn overview(
    env: &Env,
    manifest: &Manifest,
    replay: &Replay,
) -> Result<Overview, history::Error> {
    let (session, state) = (manifest.session, &replay.state);
    // An unreadable spec does not prevent the rest.
    let progress = match history::recorded_spec(env, session, state).await {
        Ok(workflow) => Progress::at(env, session, &workflow, state, &replay.finished).await?,
        Err(_) => Progress {
            done: state.finished,
            ..Progress::default()
        },
    };
    let ended = state.ended_at.is_some() || manifest.trigger == Trigger::Crash;
    let last = LastRun::of(state).filter(|_| ended);
    Ok(Overview {
        session_number: state.session_number,
        progress,
        reason: last.and_then(|last| last.reason.or(last.by)),
    })
}

/// How far their sessions were at these checkpoints. Those whose journal is not here, or unreadable,
/// are absent.
pub async fn overviews(env: &Env, manifests: &[Manifest]) -> HashMap<CheckpointId, Overview> {
    let mut by_session: BTreeMap<SessionId, Vec<&Manifest>> = BTreeMap::new();
    for manifest in manifests {
        by_session
            .entry(manifest.session)
            .or_default()
            .push(manifest);
    }
    let mut overviews = HashMap::new();
    for (session, mut manifests) in by_session {
        manifests.sort_by_key(|manifest| manifest.journal.seq);
        let mut replay = Replay::new(session);
        for manifest in manifests {
            match replay.advance(env, &manifest.journal, |_| {}).await {
                Ok(true) => {}
                Ok(false) => continue,
                // `doctor` reports the damage.
                Err(_) => break,
            }
            if let Ok(overview) = overview(env, manifest, &replay).await {
                overviews.insert(manifest.id, overview);
            }
        }
    }
    overviews
}
