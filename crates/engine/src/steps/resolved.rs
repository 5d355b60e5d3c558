//! Ends attempts whose outcome was unknown as a user said.
//!
//! The journal has what the user said before the step is reached. It stands for the answer of the
//! attempt: a result finishes the step, a failure counts for the retries.

use segno_core::agent::{self, Answer, ErrorKind};
use segno_core::journal::{StepOutcome, StepResolved};
use segno_core::step::Path;
use segno_core::usage::Usage;

use super::Runner;
use super::step::Step;
use crate::answers::Source;
use crate::error::Error;
use crate::journal;

impl Runner {
    /// What a user said about the newest attempt of a step, unless its revision was discarded since.
    pub(super) fn resolved(&self, path: &Path, revision: u32) -> Option<&StepResolved> {
        let open = self.earlier.unfinished.get(path)?;
        let resolved = self.earlier.overrides.resolved.get(path)?;
        let is_newest = (open.revision, open.attempt) == (resolved.revision, resolved.attempt);
        (is_newest && open.revision >= revision).then_some(resolved)
    }

    /// Finishes a step with the result that a user gave; `None` if no user gave one.
    pub(super) async fn finish_resolved(
        &self,
        step: &Step<'_>,
        revision: u32,
    ) -> Result<Option<Source>, Error> {
        let resolved = self.resolved(&step.path, revision);
        let Some(resolved) = resolved.filter(|it| it.outcome == StepOutcome::Done) else {
            return Ok(None);
        };
        let answer = Answer {
            text: journal::load_text(&self.env, &resolved.text).await?,
            usage: Usage::default(),
        };
        let (revision, attempt) = (resolved.revision, resolved.attempt);
        let now = self.env.clock.now();
        let usage = answer.usage;
        let finishing = self.finish(step, revision, attempt, now, answer, usage);
        Ok(Some(finishing.await?))
    }

    /// The failure that a user reported for the newest attempt of a step.
    pub(super) async fn reported_failure(
        &self,
        path: &Path,
        revision: u32,
    ) -> Result<Option<agent::Error>, Error> {
        let resolved = self.resolved(path, revision);
        let Some(resolved) = resolved.filter(|it| it.outcome == StepOutcome::Failed) else {
            return Ok(None);
        };
        let reason = journal::load_text(&self.env, &resolved.text).await?;
        let by = &resolved.by;
        let message = match reason.trim() {
            "" => format!("it did not take effect, as {by} reports"),
            reason => format!("{reason} (reported by {by})"),
        };
        Ok(Some(agent::Error::new(ErrorKind::Unknown, message)))
    }
}
