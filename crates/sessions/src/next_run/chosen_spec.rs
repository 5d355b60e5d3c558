//! The spec that the next run of a session follows: the file as it is now, or the recorded copy.
//!
//! The recorded digest tells whether the file was edited. The policy for changed specs decides what
//! follows, and the journal records an edit that is followed.

use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, OnChange, Seq, SpecChanged};
use segno_core::session::{Kind, PatternKind};
use segno_core::state::{FinishedSteps, State};
use segno_core::store::{Error as StoreError, Summary};
use segno_engine::history::{self, recorded_spec};
use segno_engine::{Env, journal};
use segno_spec as spec;
use segno_spec::Workflow;
use tokio::task::JoinHandle;

use super::{Error, Options};
use crate::spec_edit::{self, SpecEdit};
use crate::start::{SpecError, read_spec};

/// The spec to resume with.
pub(crate) struct ChosenSpec {
    pub(crate) workflow: Workflow,
    /// What is done about finished steps whose question changed.
    pub(crate) policy: OnChange,
    /// What the user is told about the choice.
    pub(crate) notice: Option<String>,
    /// The edit, if the edited spec is used.
    pub(crate) edited: Option<EditedSpec>,
}

pub(crate) struct EditedSpec {
    text: String,
    /// The pattern, if the journal does not name it yet.
    pattern: Option<PatternKind>,
    pub(crate) edit: SpecEdit,
}

impl ChosenSpec {
    pub(super) fn recorded(workflow: Workflow, policy: OnChange) -> Self {
        Self {
            workflow,
            policy,
            notice: None,
            edited: None,
        }
    }
}

impl EditedSpec {
    /// The events that record the edit and what it discards.
    pub(super) async fn events(self, env: &Env, policy: OnChange) -> Result<Vec<Event>, Error> {
        let (spec, _) = journal::redact_and_store(env, &self.text).await?;
        let discarded = self.edit.discarded(policy);
        let changed = SpecChanged {
            spec,
            spec_digest: Digest::of(self.text.as_bytes()),
            steps: self.edit.into_paths(),
            policy,
            pattern: self.pattern,
        };
        Ok([changed.into()].into_iter().chain(discarded).collect())
    }
}

/// A spec file that is being read in the background.
pub(super) struct SpecReading {
    path: PathBuf,
    reading: JoinHandle<Result<(String, Workflow), SpecError>>,
}

impl SpecReading {
    /// The content of the spec file; read again if the session was moved since it started.
    pub(super) async fn finish(
        self,
        env: &Env,
        state: &State,
    ) -> Result<(String, Workflow), SpecError> {
        let read = self
            .reading
            .await
            .expect("the task that reads the spec does not panic");
        match state.created.as_ref().map(|it| Path::new(&it.spec_path)) {
            Some(now) if now != self.path => read_spec(env, now),
            _ => read,
        }
    }
}

/// Starts to read the spec file. For a long chain that takes as long as reading the journal, so
/// both happen at once. The path is the one recorded at the start, which is almost always still
/// right. `None` if the session was started without a file.
pub(super) async fn start_reading_spec(
    env: &Env,
    session: SessionId,
) -> Result<Option<SpecReading>, history::Error> {
    let path = match env.store.event(session, Seq(1)).await?.event {
        Event::SessionCreated(created) => PathBuf::from(created.spec_path),
        other => {
            return Err(history::Error::InvalidJournal {
                session,
                reason: format!("its journal begins with {}", other.kind()),
            });
        }
    };
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let (env, from) = (env.clone(), path.clone());
    let reading = tokio::task::spawn_blocking(move || read_spec(&env, &from));
    Ok(Some(SpecReading { path, reading }))
}

/// Chooses the spec that a resume would use, without preparing a run.
pub(crate) async fn preview_spec(
    env: &Env,
    summary: &Summary,
    options: &Options,
) -> Result<ChosenSpec, Error> {
    let spec_file = start_reading_spec(env, summary.id).await?;
    let state = history::load_state(env, summary.id).await?;
    let Some(spec_file) = spec_file else {
        let recorded = recorded_spec(env, summary.id, &state).await?;
        let policy = options.on_change.unwrap_or_default();
        return Ok(ChosenSpec::recorded(recorded, policy));
    };
    let spec_file = spec_file.finish(env, &state).await;
    let finished = match &spec_file {
        Ok((text, _)) if is_unchanged(text, &state) => FinishedSteps::default(),
        _ => history::load_verified(env, summary.id).await?.1,
    };
    choose_spec(env, summary, &state, &finished, spec_file, options).await
}

/// Chooses the spec to resume with: the file as it is now, or the recorded copy. The recorded
/// digest tells whether the file was edited; the notice names the steps that the edit changes.
pub(super) async fn choose_spec(
    env: &Env,
    summary: &Summary,
    state: &State,
    finished: &FinishedSteps,
    spec_file: Result<(String, Workflow), SpecError>,
    options: &Options,
) -> Result<ChosenSpec, Error> {
    let policy = match options.on_change {
        Some(policy) => policy,
        None => recorded_policy(env, summary.id, state).await?,
    };
    let spec_file = match spec_file {
        // Compares the file itself, not the recorded copy: in the copy, secrets are redacted.
        Ok((text, workflow)) if is_unchanged(&text, state) => {
            return Ok(ChosenSpec::recorded(workflow, policy));
        }
        spec_file => spec_file,
    };
    let kept = recorded_spec(env, summary.id, state).await?;
    if policy == OnChange::Pinned {
        return Ok(ChosenSpec::recorded(kept, policy));
    }
    let (text, workflow) = match spec_file {
        Err(SpecError::Unreadable { path, reason }) => {
            let notice = format!(
                "{} can no longer be read ({reason}); continuing with the stored copy",
                path.display()
            );
            return Ok(ChosenSpec {
                notice: Some(notice),
                ..ChosenSpec::recorded(kept, policy)
            });
        }
        Err(SpecError::Invalid { path, problems }) => {
            let name = summary.name.clone();
            return Err(spec_edit::Error::Invalid {
                name,
                path,
                problems,
            }
            .into());
        }
        spec_file => spec_file?,
    };
    let spec_path = state
        .created
        .as_ref()
        .map_or("the spec", |created| created.spec_path.as_str());
    // The recorded copy is redacted, so it is compared with the redacted text of the file.
    let (spec_env, _) = env.for_workflow(&workflow, Path::new(spec_path), &|_| {});
    let alike = spec::parse(&spec_env.redactor.redact(&text));
    let alike = alike.as_ref().unwrap_or(&workflow);
    let edit = SpecEdit::new(&kept, alike, state, finished);
    edit.check(&summary.name, options.on_change, &options.consent)?;
    let recorded = state.created.as_ref().and_then(|created| created.pattern);
    let pattern = Some(workflow.pattern.kind());
    let pattern = pattern.filter(|_| summary.kind == Kind::Workflow && recorded != pattern);
    Ok(ChosenSpec {
        policy,
        notice: Some(edit.describe(spec_path, policy)),
        edited: Some(EditedSpec {
            text,
            pattern,
            edit,
        }),
        workflow,
    })
}

fn is_unchanged(text: &str, state: &State) -> bool {
    Some(Digest::of(text.as_bytes())) == state.spec_digest
}

/// The policy that holds until the user chooses another one. A run that was to run changed steps
/// again may have been lost before it reached all of them, so the next run has the same duty.
async fn recorded_policy(
    env: &Env,
    session: SessionId,
    state: &State,
) -> Result<OnChange, StoreError> {
    match env.store.event(session, state.spec_seq).await?.event {
        Event::SpecChanged(SpecChanged {
            policy: OnChange::Rerun,
            ..
        }) => Ok(OnChange::Rerun),
        _ => Ok(OnChange::Warn),
    }
}
