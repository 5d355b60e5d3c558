//! Runs a git operation as a step. The journal has the intent before the operation and the result
//! after it. A finished step does not run again, even if the spec was edited since (P6, P7).

use segno_core::digest::Digest;
use segno_core::error::Diagnose;
use segno_core::fault::{Point, point};
use segno_core::journal::{Failure, StepFailed, StepFinished, StepStarted};
use segno_core::step::Path;
use segno_core::store::DiskSpace;
use segno_core::usage::Usage;

use super::Runner;
use crate::answers::{Answer, Source};
use crate::error::Error;
use crate::journal;

/// The agent name of git steps in the journal.
pub const GIT: &str = "git";

impl Runner {
    /// Runs a git operation once. `description` is the step's recorded input; `operation` must
    /// tolerate a second run after a kill.
    pub(crate) async fn run_git_step(
        &self,
        path: &Path,
        description: &str,
        operation: impl Future<Output = Result<String, Error>>,
    ) -> Result<Answer, Error> {
        if let Some(done) = self.earlier.finished.get(path) {
            return Ok(self.rendering.answers.add(self.skip(path, done)));
        }
        self.check_may_start().await?;
        let open = self.earlier.unfinished.get(path);
        let (revision, before) = open.map_or((0, 0), |open| (open.revision, open.attempt));
        let attempt = before + 1;
        let (input, _) = journal::redact_and_store(&self.env, description).await?;
        let started = StepStarted {
            path: path.clone(),
            revision,
            attempt,
            agent: GIT.to_owned(),
            input,
            input_digest: Digest::of(description.as_bytes()),
            resume_context: None,
        };
        let failed = |error: Failure| StepFailed {
            path: path.clone(),
            revision,
            attempt,
            error,
            usage: Usage::default(),
            retry_in_ms: None,
            suspended: None,
        };
        if self.journal.write(vec![started.into()]).await? == DiskSpace::ReserveOnly {
            self.journal
                .enqueue(failed(Failure {
                    kind: "no_room".into(),
                    message: "not started: the disk is full".into(),
                }))
                .await;
            return Err(Error::DiskFull {
                name: self.id.name.clone(),
            });
        }
        let started_at = self.env.clock.now();
        point(Point::StepBeforeEffect);
        let text = match operation.await {
            Ok(text) => text,
            Err(error) => {
                self.journal
                    .enqueue(failed(Failure {
                        kind: error.code().to_owned(),
                        message: self.env.redactor.redact(&error.to_string()).into_owned(),
                    }))
                    .await;
                return Err(error);
            }
        };
        point(Point::StepAfterEffect);
        let (output, clean) = journal::redact_and_store(&self.env, &text).await?;
        let elapsed = self.env.clock.now().since(started_at);
        self.limits.budget.count_step();
        self.journal
            .enqueue(StepFinished {
                path: path.clone(),
                revision,
                attempt,
                output,
                usage: Usage::default(),
                elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
                context: None,
            })
            .await;
        self.record_workspace_status().await;
        Ok(self.rendering.answers.add(Source::Fresh {
            text: clean.into(),
            path: path.clone(),
            revision,
        }))
    }
}
