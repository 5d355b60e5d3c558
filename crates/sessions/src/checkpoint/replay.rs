//! Replays the journal of a checkpoint's session up to the position of the checkpoint.

use segno_core::checkpoint::{Manifest, Position};
use segno_core::id::SessionId;
use segno_core::journal::{JournalEvent, Seq};
use segno_core::state::{FinishedSteps, State};
use segno_core::store::Error as StoreError;
use segno_engine::{Env, history};

/// How many events are read at a time.
const PAGE: u64 = 2000;

/// The state of a session at a position of its journal. It only moves forward.
pub(super) struct Replay {
    session: SessionId,
    pub(super) state: State,
    pub(super) finished: FinishedSteps,
}

impl Replay {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            state: State::empty(session),
            finished: FinishedSteps::default(),
        }
    }

    /// A replay up to a checkpoint, with each event passed to `each`; `None` if the journal is
    /// absent, or another one.
    pub(super) async fn up_to(
        env: &Env,
        manifest: &Manifest,
        each: impl FnMut(&JournalEvent),
    ) -> Result<Option<Self>, history::Error> {
        let mut replay = Self::new(manifest.session);
        let reached = replay.advance(env, &manifest.journal, each).await?;
        Ok(reached.then_some(replay))
    }

    /// Moves to a position that is not before the current one. Returns whether the journal has it.
    pub(super) async fn advance(
        &mut self,
        env: &Env,
        position: &Position,
        mut each: impl FnMut(&JournalEvent),
    ) -> Result<bool, history::Error> {
        while self.state.head.seq < position.seq {
            let missing = position.seq.0 - self.state.head.seq.0;
            let count = usize::try_from(missing.min(PAGE)).expect("a page fits into memory");
            let reading = env.store.read(self.session, self.state.head, count);
            let page = match reading.await {
                Err(StoreError::NoSession(_)) => return Ok(false),
                page => page?,
            };
            if page.is_empty() {
                return Ok(false);
            }
            for entry in page {
                each(&entry);
                self.finished.apply(&entry);
                history::apply(&mut self.state, self.session, &entry)?;
            }
        }
        Ok(position.seq > Seq(0) && self.state.head.hash == position.hash)
    }
}
