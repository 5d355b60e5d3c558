//! Moves a session to another folder: because its folder was renamed, or because it was imported.
//!
//! The move is one event of the journal, and the store updates the session's row in the same
//! transaction, so a kill leaves the session moved or not moved. Paths inside the old folder are
//! rebased to the new one; other paths stay. No file is changed (decision 0025).

use std::path::{Path, PathBuf};

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, SessionMoved};
use segno_core::snapshot::{self, FolderUse};
use segno_core::state::Created;
use segno_core::store::Summary;
use segno_engine::between_runs::{self, BetweenRuns};
use segno_engine::workspace::{NotUtf8, path_text};
use segno_engine::{Env, history};

/// Why a session was not moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} cannot be used as a workspace: {reason}", .path.display())]
    InvalidFolder { path: PathBuf, reason: String },
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    /// The folder belongs to Segno itself.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error(transparent)]
    BetweenRuns(#[from] between_runs::Error),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::InvalidFolder { .. } => Diagnosis::new(Kind::Invalid, "R0117")
                .hint("use an existing folder, or create it first"),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::BetweenRuns(error) => error.diagnosis(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relocated {
    /// The session uses another folder now.
    Moved { from: String, to: String },
    /// The session already uses this folder.
    Unchanged,
}

/// The canonical path of an existing folder.
pub fn folder(folder: &Path) -> Result<PathBuf, Error> {
    let unusable = |reason: String| Error::InvalidFolder {
        path: folder.to_owned(),
        reason,
    };
    let real = folder.canonicalize();
    let real = real.map_err(|error| unusable(error.to_string()))?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(unusable("it is not a folder".to_owned()))
    }
}

/// Refuses a folder that no session can work in.
pub(crate) fn check_folder(env: &Env, folder: &Path) -> Result<(), Error> {
    if let Some(snapshots) = &env.snapshots {
        snapshots.check_folder(folder, FolderUse::Workspace)?;
    }
    Ok(())
}

/// Moves a session to another folder. Refused while a run holds the session.
pub async fn relocate(env: &Env, summary: &Summary, to: &Path) -> Result<Relocated, Error> {
    let to = folder(to)?;
    if Path::new(&summary.workspace) == to {
        return Ok(Relocated::Unchanged);
    }
    check_folder(env, &to)?;
    // The folder is checked again: another process may have moved the session before the lease was
    // acquired.
    let between_runs = BetweenRuns::acquire(env, summary).await?;
    let created = between_runs.state.created.as_ref();
    let created = created.expect("a stored session has a creation event");
    if Path::new(&created.workspace) == to {
        between_runs.release().await;
        return Ok(Relocated::Unchanged);
    }
    let from = created.workspace.clone();
    let moved = match moved(created, &to) {
        Ok(moved) => moved,
        Err(error) => {
            between_runs.release().await;
            return Err(error.into());
        }
    };
    let to = moved.workspace.clone();
    between_runs.append(vec![moved.into()]).await?;
    Ok(Relocated::Moved { from, to })
}

/// The event that moves a session to another folder.
pub(crate) fn moved(created: &Created, to: &Path) -> Result<SessionMoved, NotUtf8> {
    let from = Path::new(&created.workspace);
    let rebased = |path: &str| match Path::new(path).strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => path_text(to),
        Ok(rest) => path_text(&to.join(rest)),
        Err(_) => Ok(path.to_owned()),
    };
    Ok(SessionMoved {
        workspace: path_text(to)?,
        spec_path: rebased(&created.spec_path)?,
        out: rebased(&created.out)?,
    })
}

/// The current folder of a session that once worked in `folder`; `folder` itself if it never did,
/// or if that is unknown.
pub(crate) async fn current_folder(env: &Env, session: SessionId, folder: &str) -> PathBuf {
    let same = PathBuf::from(folder);
    let Ok(summary) = env.store.summary(session).await else {
        return same;
    };
    if summary.workspace == folder {
        return same;
    }
    let mut worked = false;
    let start = Head::genesis(session);
    let read = history::read_events(env, session, start, |entry| {
        worked |= match &entry.event {
            Event::SessionCreated(event) => event.workspace == folder,
            Event::SessionMoved(event) => event.workspace == folder,
            _ => false,
        };
        Ok(())
    });
    match read.await {
        Ok(_) if worked => PathBuf::from(summary.workspace),
        _ => same,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use segno_core::id::Name;
    use segno_core::session::Kind as SessionKind;
    use segno_core::time::Timestamp;

    use super::*;

    #[test]
    fn relocate_rebases_only_paths_inside_the_folder() {
        for (spec, out, spec_then, out_then) in [
            ("/a/b/s.yaml", "/a/b", "/n/s.yaml", "/n"),
            ("/a/s.yaml", "/a/b/x/out", "/a/s.yaml", "/n/x/out"),
            ("/a/bc/s.yaml", "/elsewhere", "/a/bc/s.yaml", "/elsewhere"),
            ("", "/a/b/", "", "/n"),
        ] {
            let created = Created {
                name: Name::new("one").unwrap(),
                kind: SessionKind::Workflow,
                workspace: "/a/b".into(),
                spec_path: spec.into(),
                variables: BTreeMap::new(),
                out: out.into(),
                force: false,
                commit: None,
                pattern: None,
                at: Timestamp(1),
            };
            let expected = SessionMoved {
                workspace: "/n".into(),
                spec_path: spec_then.into(),
                out: out_then.into(),
            };
            assert_eq!(moved(&created, Path::new("/n")).unwrap(), expected);
        }
    }
}
