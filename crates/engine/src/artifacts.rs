//! Writes artifacts: files for the user, complete and idempotent.
//!
//! A run that was killed between writing a file and journaling it recognizes its own file: the same
//! content counts as written, and a file that this session wrote may be replaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minijinja::Value;
use minijinja::value::Serde;
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::journal::{ArtifactWritten, Head};
use segno_core::ports::Access;

use crate::env::Env;
use crate::error::Error;
use crate::history;
use crate::patterns::Ending;
use crate::scope::{Scope, TemplateValue};
use crate::steps::Runner;
use crate::trace::{self, Trace};
use segno_spec::template::Templates;
use segno_spec::{Artifact, Workflow, checked_artifact_path};

/// The largest file that is read for comparison, in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Refuses existing files early, before money is spent on text that cannot be written.
pub(crate) fn check_paths(
    env: &Env,
    templates: &Templates,
    artifacts: &[Artifact],
    variables: &BTreeMap<String, serde_json::Value>,
    out: &Path,
    force: bool,
) -> Result<(), Error> {
    for artifact in artifacts {
        // A path that depends on answers is not known yet; `write` checks it.
        let given = variables
            .iter()
            .map(|(name, value)| (name.as_str(), Value::from(Serde(value))));
        let context = Value::from_pairs(given);
        if let Ok(path) = templates.render(&artifact.path, context) {
            let target = resolve_path(out, &path)?;
            if exists(env, &path, &target)? && !force {
                return Err(Error::ArtifactExists { path: target });
            }
        }
    }
    Ok(())
}

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
            return Err(Error::ArtifactExists { path: target });
        }
        if there.is_ok_and(|bytes| Digest::of(&bytes) == digest) {
            if state.artifacts.get(&path) == Some(&digest) {
                continue;
            }
        } else {
            replace_file(&runner.env, runner.session, &target, content.as_bytes()).map_err(
                |error| Error::Artifact {
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

/// Replaces a file atomically and durably.
pub(crate) fn replace_file(
    env: &Env,
    session: SessionId,
    target: &Path,
    content: &[u8],
) -> std::io::Result<()> {
    let disk = &env.disk;
    let folder = target.parent().unwrap_or(Path::new("."));
    disk.create_folder(folder, Access::Shared)?;
    let temporary = folder.join(format!(".segno-{session}"));
    disk.remove(&temporary)?;
    disk.create(&temporary, content, Access::Shared)?;
    point(Point::ArtifactBeforeRename);
    let renamed = disk.rename(&temporary, target).and_then(|()| {
        point(Point::ArtifactAfterRename);
        disk.sync_folder(folder)
    });
    if renamed.is_err() {
        let _ = disk.remove(&temporary);
    }
    renamed
}

/// The path of an artifact: below `out`, and not through a symlink.
pub(crate) fn resolve_path(out: &Path, path: &str) -> Result<PathBuf, Error> {
    let refuse = |reason: String| Error::Artifact {
        path: path.to_owned(),
        reason,
    };
    let relative = checked_artifact_path(path).map_err(|error| refuse(error.to_string()))?;
    let mut target = out.to_owned();
    for part in relative.components() {
        target.push(part);
        if target.is_symlink() {
            return Err(refuse(format!("{} is a symbolic link", target.display())));
        }
    }
    Ok(target)
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
    let (mut trace, mut spans) = (Trace::new(runner.session, workflow), Vec::new());
    let start = Head::genesis(runner.session);
    history::read_events(&runner.env, runner.session, start, |entry| {
        spans.extend(trace.apply(&entry));
        Ok(())
    })
    .await?;
    Ok(trace::render_json(&trace, &spans))
}

/// Whether anything is at `place`, a folder or a file of any length.
fn exists(env: &Env, path: &str, target: &Path) -> Result<bool, Error> {
    match env.disk.read(target, 0) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Err(Error::Artifact {
            path: path.to_owned(),
            reason: format!("{}: {error}", target.display()),
        }),
        _ => Ok(true),
    }
}
