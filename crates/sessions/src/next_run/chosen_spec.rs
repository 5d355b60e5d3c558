//! The spec that the next run of a session follows: the file as it is now, or the recorded copy.
//!
//! The recorded digest tells whether the file was edited. The policy for changed specs decides what
//! follows, and the journal records an edit that is followed.

use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, OnChange, Seq, SpecChanged};
use segno_core::state::State;
use segno_core::store::Summary;
use segno_engine::history::{self, recorded_spec};
use segno_engine::{Env, Observer, journal};
use segno_spec as spec;
use segno_spec::{Change, StepChange, Workflow};
use tokio::task::JoinHandle;

use super::Error;
use crate::start::{SpecError, read_spec};

/// The spec to resume with, and the event that records a change.
pub(super) struct ChosenSpec {
    pub(super) workflow: Workflow,
    pub(super) event: Option<Event>,
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

/// Chooses the spec to resume with: the file as it is now, or the recorded copy. The recorded
/// digest tells whether the file was edited; the notice names the steps that the edit changes.
pub(super) async fn choose_spec(
    env: &Env,
    summary: &Summary,
    state: &State,
    spec_file: Result<(String, Workflow), SpecError>,
    on_change: OnChange,
    observer: &dyn Observer,
) -> Result<ChosenSpec, Error> {
    let unchanged = |workflow| ChosenSpec {
        workflow,
        event: None,
    };
    let digest = |text: &str| Digest::of(text.as_bytes());
    let spec_file = match spec_file {
        // Compares the file itself, not the recorded copy: in the copy, secrets are redacted.
        Ok((text, workflow)) if Some(digest(&text)) == state.spec_digest => {
            return Ok(unchanged(workflow));
        }
        spec_file => spec_file,
    };
    let kept = recorded_spec(env, summary.id, state).await?;
    if on_change == OnChange::Pinned {
        return Ok(unchanged(kept));
    }
    let (text, workflow) = match spec_file {
        Err(SpecError::Unreadable { path, reason }) => {
            observer.notice(&format!(
                "{} can no longer be read ({reason}); continuing with the stored copy",
                path.display()
            ));
            return Ok(unchanged(kept));
        }
        spec_file => spec_file?,
    };
    // The recorded copy is redacted, so it is compared with the redacted text of the file.
    let spec_path = state
        .created
        .as_ref()
        .map_or("", |created| &created.spec_path);
    let (spec_env, _) = env.for_workflow(&workflow, Path::new(spec_path), &|_| {});
    let alike = spec::parse(&spec_env.redactor.redact(&text));
    let changes = spec::changed_steps(&kept, alike.as_ref().unwrap_or(&workflow));
    let named: Vec<String> = changes.iter().map(describe).collect();
    if on_change == OnChange::Fail {
        return Err(Error::SpecChanged {
            name: summary.name.clone(),
            steps: named,
        });
    }
    let what = if named.is_empty() {
        "no step".to_owned()
    } else {
        named.join(", ")
    };
    let then = match on_change {
        OnChange::Rerun => "finished steps among them run again",
        _ => "finished steps among them keep their results",
    };
    let path = state
        .created
        .as_ref()
        .map_or("the spec", |created| created.spec_path.as_str());
    observer.notice(&format!(
        "{path} was edited since this session last ran; it changes {what}; {then}",
    ));
    let (spec, _) = journal::redact_and_store(env, &text).await?;
    let steps = changes.into_iter().map(|change| change.path).collect();
    let event = SpecChanged {
        spec,
        spec_digest: digest(&text),
        steps,
        policy: on_change,
    };
    Ok(ChosenSpec {
        workflow,
        event: Some(event.into()),
    })
}

fn describe(change: &StepChange) -> String {
    match change.change {
        Change::Changed => change.path.to_string(),
        Change::Added => format!("{} (added)", change.path),
        Change::Removed => format!("{} (removed)", change.path),
    }
}
