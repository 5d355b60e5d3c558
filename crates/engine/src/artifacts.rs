//! Writes artifacts: files for the user, complete and idempotent.
//!
//! A run that was killed between writing a file and journaling it recognizes its own file: the same
//! content counts as written, and a file that this session wrote may be replaced.

use std::path::Path;

use segno_core::digest::Digest;
use segno_core::journal::{ArtifactWritten, Head};
use segno_spec::{Artifact, Workflow};

use crate::artifact_files::{self, replace_file, resolve_path};
use crate::error::Error;
use crate::history;
use crate::patterns::Ending;
use crate::scope::{Scope, TemplateValue};
use crate::steps::Runner;
use crate::trace::{self, Trace};

/// The largest file that is read for comparison, in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Writes all artifacts of a workflow.
pub(crate) async fn write(
    runner: &Runner,
    workflow: &Workflow,
    ending: &Ending,
) -> Result<(), Error> {
    if workflow.artifacts.is_empty() {
        return Ok(());
    }
    let state = runner.journal.state();
    let created = state
        .created
        .as_ref()
        .expect("a running session has a creation event");
    let named = |artifact: &Artifact| [&artifact.path, &artifact.from].map(|t| t.contains("TRACE"));
    let traced = workflow.artifacts.iter().flat_map(named).any(|named| named);
    let trace = if traced {
        trace(runner, workflow).await?
    } else {
        String::new()
    };
    let scope = scope(ending, trace);
    for artifact in &workflow.artifacts {
        let whose = format!("artifact {}", artifact.path);
        let path = runner.render("the path", &whose, &artifact.path, &scope);
        let path = path.await?;
        let content = runner.render("the text", &whose, &artifact.from, &scope);
        let content = content.await?;
        let target = resolve_path(Path::new(&created.out), &path)?;
        // P12: the file has the name that the spec gives it; the journal does not repeat a secret.
        let path = runner.env.redactor.redact(&path).into_owned();
        let digest = Digest::of(content.as_bytes());
        let there = runner.env.disk.read(&target, MAX_FILE_BYTES);
        let ours = match &there {
            Ok(bytes) => {
                let found = Digest::of(bytes);
                found == digest || state.artifacts.get(&path) == Some(&found)
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if !ours && !created.force {
            return Err(artifact_files::Error::Exists { path: target }.into());
        }
        if there.is_ok_and(|bytes| Digest::of(&bytes) == digest) {
            if state.artifacts.get(&path) == Some(&digest) {
                continue;
            }
        } else {
            replace_file(&runner.env, runner.id.session, &target, content.as_bytes()).map_err(
                |error| artifact_files::Error::Failed {
                    path: path.clone(),
                    reason: error.to_string(),
                },
            )?;
        }
        runner
            .journal
            .write(vec![
                ArtifactWritten {
                    path,
                    digest,
                    bytes: content.len() as u64,
                }
                .into(),
            ])
            .await?;
    }
    Ok(())
}

/// What artifact templates see: the pattern's results, the last answer, and the trace.
fn scope(ending: &Ending, trace: String) -> Scope {
    let last = match ending.last {
        Some(answer) => TemplateValue::Answer(answer),
        None => TemplateValue::from(""),
    };
    let more = [
        ("last_response", last),
        ("TRACE", TemplateValue::from(trace)),
    ];
    ending.scope.with(more)
}

/// The spans of the session so far, as JSON.
async fn trace(runner: &Runner, workflow: &Workflow) -> Result<String, Error> {
    let (mut trace, mut spans) = (Trace::new(runner.id.session, workflow), Vec::new());
    let start = Head::genesis(runner.id.session);
    history::read_events(&runner.env, runner.id.session, start, |entry| {
        spans.extend(trace.apply(&entry));
        Ok(())
    })
    .await?;
    Ok(trace::render_json(&trace, &spans))
}
