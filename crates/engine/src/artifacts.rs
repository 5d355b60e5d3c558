//! Files for the person: written once, whole, and idempotently.
//!
//! A run that was killed between writing a file and noting it finds its own file again: same
//! content means written, and what this session wrote before it may replace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minijinja::Value;
use minijinja::value::Serde;
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::journal::{ArtifactWritten, Head};
use segno_core::ports::Access;

use crate::error::Error;
use crate::flow::Flow;
use crate::history;
use crate::patterns::Ending;
use crate::scope::{Scope, Seen};
use crate::spec::{Artifact, Workflow, checked_artifact_path};
use crate::template::Templates;
use crate::trace::{self, Trace};
use crate::world::World;

/// The longest file that is read to compare it.
const LONGEST: u64 = 256 * 1024 * 1024;

/// Refuses early: before money is spent on text that could not be written down.
pub(crate) fn foresee(
    world: &World,
    templates: &Templates,
    artifacts: &[Artifact],
    variables: &BTreeMap<String, serde_json::Value>,
    out: &Path,
    force: bool,
) -> Result<(), Error> {
    for artifact in artifacts {
        // A path that depends on answers is not known yet; it is checked when it is.
        let given = variables
            .iter()
            .map(|(name, value)| (name.as_str(), Value::from(Serde(value))));
        let context = Value::from_pairs(given);
        if let Ok(path) = templates.render(&artifact.path, context) {
            let place = place(out, &path)?;
            if exists(world, &path, &place)? && !force {
                return Err(Error::ArtifactExists { path: place });
            }
        }
    }
    Ok(())
}

/// Writes all of a workflow's artifacts.
pub(crate) async fn write(flow: &Flow, workflow: &Workflow, ending: &Ending) -> Result<(), Error> {
    if workflow.artifacts.is_empty() {
        return Ok(());
    }
    let state = flow.pen.state();
    let created = state
        .created
        .as_ref()
        .expect("a session that runs was created");
    let named = |artifact: &Artifact| [&artifact.path, &artifact.from].map(|t| t.contains("TRACE"));
    let traced = workflow.artifacts.iter().flat_map(named).any(|named| named);
    let trace = if traced {
        trace(flow, workflow).await?
    } else {
        String::new()
    };
    let scope = scope(ending, trace);
    for artifact in &workflow.artifacts {
        let whose = format!("artifact {}", artifact.path);
        let path = flow.render("the path", &whose, &artifact.path, &scope);
        let path = path.await?;
        let content = flow.render("the text", &whose, &artifact.from, &scope);
        let content = content.await?;
        let place = place(Path::new(&created.out), &path)?;
        let digest = Digest::of(content.as_bytes());
        let there = flow.world.disk.read(&place, LONGEST);
        let ours = match &there {
            Ok(bytes) => {
                let found = Digest::of(bytes);
                found == digest || state.artifacts.get(&path) == Some(&found)
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if !ours && !created.force {
            return Err(Error::ArtifactExists { path: place });
        }
        if there.is_ok_and(|bytes| Digest::of(&bytes) == digest) {
            if state.artifacts.get(&path) == Some(&digest) {
                continue;
            }
        } else {
            replace(&flow.world, flow.session, &place, content.as_bytes()).map_err(|error| {
                Error::Artifact {
                    path: path.clone(),
                    reason: error.to_string(),
                }
            })?;
        }
        flow.pen
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

/// Puts a file in its place, whole and durable.
pub(crate) fn replace(
    world: &World,
    session: SessionId,
    place: &Path,
    content: &[u8],
) -> std::io::Result<()> {
    let disk = &world.disk;
    let folder = place.parent().unwrap_or(Path::new("."));
    disk.create_folder(folder, Access::Shared)?;
    let draft = folder.join(format!(".segno-{session}"));
    disk.remove(&draft)?;
    disk.create(&draft, content, Access::Shared)?;
    point(Point::ArtifactBeforeRename);
    let renamed = disk.rename(&draft, place).and_then(|()| {
        point(Point::ArtifactAfterRename);
        disk.sync_folder(folder)
    });
    if renamed.is_err() {
        let _ = disk.remove(&draft);
    }
    renamed
}

/// Where an artifact goes: below `out`, and not through a link that leads elsewhere.
pub(crate) fn place(out: &Path, path: &str) -> Result<PathBuf, Error> {
    let refuse = |reason: String| Error::Artifact {
        path: path.to_owned(),
        reason,
    };
    let relative = checked_artifact_path(path).map_err(|error| refuse(error.to_string()))?;
    let mut place = out.to_owned();
    for part in relative.components() {
        place.push(part);
        if place.is_symlink() {
            return Err(refuse(format!("{} is a link", place.display())));
        }
    }
    Ok(place)
}

/// What artifacts' templates see: what the pattern left, the last answer, and how it came about.
fn scope(ending: &Ending, trace: String) -> Scope {
    let last = match ending.last {
        Some(answer) => Seen::Answer(answer),
        None => Seen::from(""),
    };
    let more = [("last_response", last), ("TRACE", Seen::from(trace))];
    ending.scope.with(more)
}

/// What the session did so far.
async fn trace(flow: &Flow, workflow: &Workflow) -> Result<String, Error> {
    let (mut trace, mut spans) = (Trace::new(flow.session, workflow), Vec::new());
    let start = Head::genesis(flow.session);
    history::follow(&flow.world, flow.session, start, |entry| {
        spans.extend(trace.take(&entry));
        Ok(())
    })
    .await?;
    Ok(trace::shown(&trace, &spans))
}

/// Whether anything is at `place`, a folder or a file of any length.
fn exists(world: &World, path: &str, place: &Path) -> Result<bool, Error> {
    match world.disk.read(place, 0) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Err(Error::Artifact {
            path: path.to_owned(),
            reason: format!("{}: {error}", place.display()),
        }),
        _ => Ok(true),
    }
}
