//! Resumes a session where it stopped.
//!
//! [`resume`] acquires the lease, has [`next_run`] prepare the run from the verified journal, and
//! hands it to [`run::execute`]. Which resume strategy a CLI agent uses is decided when its step
//! runs ([`segno_engine::resume`]). `plan` says beforehand what a resume would do.

pub mod plan;

use std::path::Path;
use std::sync::Arc;

use segno_core::checkpoint::Trigger;
use segno_core::digest::Digest;
use segno_core::session::{Kind, Status};
use segno_core::state::Created;
use segno_core::store::Summary;
use segno_engine::steps::chat::Audience;
use segno_engine::{Env, Error, Observer, Outcome, StopToken, checkpointer, history, lease, run};

use crate::listing::resumable_sessions;
use crate::start::{self, Request, read_spec};
use crate::{chat, next_run};

pub use crate::next_run::{OnLimit, Options};

/// Resumes a session.
pub async fn resume(
    env: &Env,
    summary: Summary,
    options: Options,
    observer: Arc<dyn Observer>,
    stop_token: StopToken,
) -> Result<Outcome, Error> {
    if summary.kind == Kind::Chat {
        let audience = Audience::Absent;
        return Box::pin(chat::resume(
            env, &summary, options, audience, observer, stop_token,
        ))
        .await;
    }
    next_run::check_resumable(&summary)?;
    let lease = lease::acquire(env, &summary).await?;
    let (env, run_start) =
        match next_run::prepare(env, &summary, lease.run, options, &*observer).await {
            Ok(begun) => begun,
            Err(error) => {
                // Nothing was written, so nothing is left behind but a run number.
                let _ = env.store.release(summary.id, lease.run).await;
                return Err(error);
            }
        };
    let lost = run_start.state.status == Status::Running;
    if lost && run_start.workflow.checkpoints.on.contains(&Trigger::Crash) {
        // A checkpoint of what the lost run left behind, before this run changes anything.
        Box::pin(checkpointer::take_checkpoint(
            &env,
            run_start.session,
            Trigger::Crash,
            &*observer,
        ))
        .await;
    }
    Box::pin(run::execute(&env, run_start, observer, stop_token)).await
}

/// The newest resumable session of a workspace that has no active run.
pub async fn newest(env: &Env, workspace: &Path) -> Result<Summary, Error> {
    let mut found = resumable_sessions(env, workspace).await?;
    found.pop().ok_or_else(|| Error::NothingToResume {
        workspace: workspace.to_owned(),
    })
}

/// The newest resumable session without an active run that `request` would start again: the same
/// spec, workspace, variables and artifact folder, and the same name if one is given.
pub async fn unfinished(env: &Env, request: &Request) -> Result<Option<Summary>, Error> {
    let (text, workflow) = read_spec(env, &request.spec)?;
    let (spec_env, _) = env.for_workflow(&workflow, &request.spec, &|_| {});
    let variables = start::bind(&spec_env, &workflow, request, &|_| {})?;
    let digest = Some(Digest::of(text.as_bytes()));
    for summary in resumable_sessions(env, &request.workspace)
        .await?
        .into_iter()
        .rev()
    {
        let named = request
            .name
            .as_ref()
            .is_none_or(|name| *name == summary.name);
        if !named || summary.spec_digest != digest {
            continue;
        }
        let created = history::load_state(env, summary.id).await?.created;
        let alike = |created: &Created| {
            created.variables == variables && Path::new(&created.out) == request.out
        };
        if created.as_ref().is_some_and(alike) {
            return Ok(Some(summary));
        }
    }
    Ok(None)
}
