//! Giving a session another folder: because its own was renamed, or because it came from elsewhere.
//!
//! It is one entry of its journal, and the store's row changes in the same transaction, so that a kill
//! leaves it moved or not. Paths that lay in the old folder are meant in the new one; others stay as
//! they are. No file is touched (decision 0025).

use std::path::{Path, PathBuf};

use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, SessionMoved};
use segno_core::session::Summary;
use segno_core::state::Created;

use crate::error::Error;
use crate::interlude::Interlude;
use crate::spec::{Agent, Provider, Workflow};
use crate::world::World;
use crate::{history, start};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relocated {
    /// It works in another folder now.
    Moved {
        /// The folder that it worked in.
        from: String,
        /// The folder that it works in.
        to: String,
    },
    /// It works there already.
    There,
}

/// A folder by the one name that it has.
pub fn folder(folder: &Path) -> Result<PathBuf, Error> {
    let unusable = |reason: String| Error::NoFolder {
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

/// Lets a session work in another folder from here on. Refused while somebody runs it.
pub async fn relocate(world: &World, summary: &Summary, to: &Path) -> Result<Relocated, Error> {
    let to = folder(to)?;
    if Path::new(&summary.workspace) == to {
        return Ok(Relocated::There);
    }
    // Looked at once more: someone may have moved it between the look and the grant.
    let interlude = Interlude::begin(world, summary).await?;
    let created = interlude.state.created.as_ref();
    let created = created.expect("a session that is here was created");
    if Path::new(&created.workspace) == to {
        interlude.leave().await;
        return Ok(Relocated::There);
    }
    let from = created.workspace.clone();
    let moved = match moved(created, &to) {
        Ok(moved) => moved,
        Err(error) => {
            interlude.leave().await;
            return Err(error);
        }
    };
    let to = moved.workspace.clone();
    interlude.write(vec![moved.into()]).await?;
    Ok(Relocated::Moved { from, to })
}

/// What a session says that works in another folder from here on.
pub(crate) fn moved(created: &Created, to: &Path) -> Result<SessionMoved, Error> {
    let from = Path::new(&created.workspace);
    let rebased = |path: &str| match Path::new(path).strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => start::text_of(to),
        Ok(rest) => start::text_of(&to.join(rest)),
        Err(_) => Ok(path.to_owned()),
    };
    Ok(SessionMoved {
        workspace: start::text_of(to)?,
        spec_path: rebased(&created.spec_path)?,
        out: rebased(&created.out)?,
    })
}

/// Refuses to go on where the folder is gone that programs would work in: each would fail, and leave
/// its conversation for a fresh one, although nothing is lost but the way there.
pub(crate) fn is_there(
    summary: &Summary,
    workflow: &Workflow,
    workspace: &str,
) -> Result<(), Error> {
    let works_there = |agent: &Agent| {
        matches!(
            agent.provider,
            Provider::Program { .. } | Provider::Acp { .. } | Provider::Command { .. }
        )
    };
    if Path::new(workspace).is_dir() || !workflow.agents.values().any(works_there) {
        return Ok(());
    }
    Err(Error::FolderGone {
        name: summary.name.clone(),
        folder: workspace.to_owned(),
    })
}

/// Where a session works now that worked in `folder` once; `folder` itself if it never did, or if that
/// cannot be told.
pub(crate) async fn newest(world: &World, session: SessionId, folder: &str) -> PathBuf {
    let same = PathBuf::from(folder);
    let Ok(summary) = world.store.summary(session).await else {
        return same;
    };
    if summary.workspace == folder {
        return same;
    }
    let mut worked = false;
    let start = Head::genesis(session);
    let read = history::follow(world, session, start, |entry| {
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
    use segno_core::session::Kind;
    use segno_core::time::Timestamp;

    use super::*;

    #[test]
    fn what_lay_in_the_folder_moves_along_and_the_rest_stays() {
        for (spec, out, spec_then, out_then) in [
            ("/a/b/s.yaml", "/a/b", "/n/s.yaml", "/n"),
            ("/a/s.yaml", "/a/b/x/out", "/a/s.yaml", "/n/x/out"),
            ("/a/bc/s.yaml", "/elsewhere", "/a/bc/s.yaml", "/elsewhere"),
            ("", "/a/b/", "", "/n"),
        ] {
            let created = Created {
                name: Name::new("one").unwrap(),
                kind: Kind::Workflow,
                workspace: "/a/b".into(),
                spec_path: spec.into(),
                variables: BTreeMap::new(),
                out: out.into(),
                force: false,
                commit: None,
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
