//! Lists and finds sessions.

use std::collections::HashMap;
use std::path::{Path as Folder, PathBuf};
use std::time::Duration;

use segno_core::error::{Diagnose, Diagnosis, Kind as ErrorKind, join_shown};
use segno_core::id::{self, Name, SessionId, Unresolved};
use segno_core::journal::Suspension;
use segno_core::lease::{Lease, LeaseDecision};
use segno_core::session::Status;
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, Filter, Summary, TrashedSession};
use segno_engine::{Env, history, lease};

/// Why a session was not found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no session matches `{reference}`")]
    NoSuchSession { reference: String },
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    #[error("session `{name}` ({session}) is in the trash")]
    InTrash { session: SessionId, name: Name },
    #[error("no session was started in {}", .workspace.display())]
    NoSessionInFolder { workspace: PathBuf },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::NoSuchSession { .. } => Diagnosis::new(ErrorKind::NotFound, "S0101")
                .hint("`segno sessions list --all` lists all sessions"),
            Self::Ambiguous(error) => error.diagnosis(),
            Self::InTrash { name, .. } => Diagnosis::new(ErrorKind::NotFound, "S0111")
                .hint(format!("`segno sessions restore {name}` restores it")),
            Self::NoSessionInFolder { .. } => Diagnosis::new(ErrorKind::NotFound, "S0110")
                .hint("`segno sessions list --all` lists the sessions of all folders"),
        }
    }
}

/// A reference that matches several sessions.
#[derive(Debug, thiserror::Error)]
#[error("`{reference}` matches several sessions: {}", join_shown(.candidates.iter().map(|(id, name)| format!("{name} ({id})"))))]
pub struct Ambiguous {
    pub reference: String,
    pub candidates: Vec<(SessionId, Name)>,
}

impl Diagnose for Ambiguous {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(ErrorKind::Conflict, "S0105")
            .hint("give more characters of the id, or the full name")
    }
}

#[derive(Debug, Clone)]
pub struct ListedSession {
    pub summary: Summary,
    /// The lease of its active run, if it has one.
    pub lease: Option<Lease>,
    /// Whether the process of that run is stopped (SIGSTOP).
    pub is_stopped: bool,
    /// The status, given whether the owner of the lease is alive.
    pub status: Status,
}

impl ListedSession {
    /// Finds out whether the session's run is alive.
    pub async fn of(env: &Env, summary: Summary) -> Result<Self, StoreError> {
        let mut listed = Self {
            status: summary.status,
            summary,
            lease: None,
            is_stopped: false,
        };
        if listed.status == Status::Running {
            let lease = env.store.lease(listed.summary.id).await?;
            listed.status = lease::effective_status(env, &listed.summary, &lease);
            listed.is_stopped = lease::verdict(env, &lease) == LeaseDecision::HeldByStopped;
            listed.lease = Some(lease).filter(|_| listed.status == Status::Running);
        }
        Ok(listed)
    }
}

/// The sessions that pass the filter, newest first, and the errors of unreadable ones. The filter's
/// statuses are those of the journal: a session whose run was lost is `running` there.
pub async fn list(
    env: &Env,
    filter: Filter,
) -> Result<(Vec<ListedSession>, Vec<StoreError>), StoreError> {
    let (mut listed, mut damaged) = (Vec::new(), Vec::new());
    for found in env.store.list(filter).await? {
        let found = match found {
            Ok(summary) => ListedSession::of(env, summary).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(session) => listed.push(session),
            Err(error) => damaged.push(error),
        }
    }
    Ok((listed, damaged))
}

/// The sessions of a list in which all work waits for the end of a rate limit. Skips unreadable
/// sessions.
pub async fn suspensions(
    env: &Env,
    listed: &[ListedSession],
) -> HashMap<SessionId, (Path, Suspension)> {
    let now = env.clock.now();
    let mut found = HashMap::new();
    for listed in listed.iter().filter(|listed| listed.status.is_resumable()) {
        let session = listed.summary.id;
        let Ok(state) = history::load_state(env, session).await else {
            continue;
        };
        if let Some((path, suspension)) = state.suspended(now) {
            found.insert(session, (path.clone(), suspension));
        }
    }
    found
}

/// The newest session with this workspace. Skips unreadable sessions.
pub async fn newest_in(env: &Env, folder: &Folder) -> Result<Option<Summary>, StoreError> {
    let filter = Filter {
        limit: Some(1),
        ..in_folder(folder)
    };
    Ok(env.store.list(filter).await?.into_iter().flatten().next())
}

/// Only sessions with this workspace.
pub fn in_folder(folder: &Folder) -> Filter {
    Filter {
        workspace: Some(folder.display().to_string()),
        ..Filter::default()
    }
}

/// Like [`newest_in`]; a folder without a session is an error.
pub async fn find_newest_in(env: &Env, folder: &Folder) -> Result<Summary, Error> {
    let newest = newest_in(env, folder).await?;
    newest.ok_or_else(|| Error::NoSessionInFolder {
        workspace: folder.to_owned(),
    })
}

/// Resolves a session reference: an id, a name, or the beginning of either.
pub async fn find(env: &Env, reference: &str) -> Result<Summary, Error> {
    if let Some(discarded) = in_trash(env, reference).await? {
        return Err(discarded);
    }
    if let Ok(session) = reference.parse::<SessionId>() {
        return match env.store.summary(session).await {
            Err(StoreError::NoSession(_)) => Err(Error::NoSuchSession {
                reference: reference.to_owned(),
            }),
            other => Ok(other?),
        };
    }
    if let Ok(name) = Name::new(reference)
        && let Some(session) = env.store.find_named(name).await?
    {
        return Ok(env.store.summary(session).await?);
    }
    let (mut all, mut damaged) = (Vec::new(), Vec::new());
    let filter = Filter {
        prefix: Some(reference.to_owned()),
        ..Filter::default()
    };
    for found in env.store.list(filter).await? {
        match found {
            Ok(summary) => all.push(summary),
            Err(error) => damaged.push(error),
        }
    }
    let names: Vec<(SessionId, Name)> = all
        .iter()
        .map(|summary| (summary.id, summary.name.clone()))
        .collect();
    let resolved = id::resolve(reference, &names);
    // The name of a damaged session is unknown. Unless the reference matches another name exactly,
    // the damaged session may be meant, so its error is returned.
    let certain = resolved
        .as_ref()
        .is_ok_and(|(_, name)| name.as_str() == reference);
    if let Some(error) = damaged.pop()
        && !certain
    {
        return Err(error.into());
    }
    match resolved {
        Ok((session, _)) => Ok(all
            .into_iter()
            .find(|summary| summary.id == session)
            .expect("it was just found")),
        Err(Unresolved::Unknown) => Err(Error::NoSuchSession {
            reference: reference.to_owned(),
        }),
        Err(Unresolved::Ambiguous(candidates)) => Err(Ambiguous {
            reference: reference.to_owned(),
            candidates,
        }
        .into()),
    }
}

/// `Error::InTrash`, if the session with this whole id or name is in the trash and no other session
/// has the name.
async fn in_trash(env: &Env, reference: &str) -> Result<Option<Error>, Error> {
    let id = reference.parse::<SessionId>().ok();
    let means = |found: &TrashedSession| {
        id == Some(found.session)
            || found
                .name
                .as_ref()
                .is_some_and(|name| name.as_str() == reference)
    };
    let trashed = match env.store.list_trash().await {
        // An unreadable trash does not prevent finding readable sessions.
        Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
        other => other?,
    };
    let Some(found) = trashed.into_iter().flatten().find(means) else {
        return Ok(None);
    };
    if id.is_none()
        && let Some(name) = &found.name
        && env.store.find_named(name.clone()).await?.is_some()
    {
        return Ok(None);
    }
    Ok(Some(Error::InTrash {
        session: found.session,
        name: found.shown_name(),
    }))
}

/// The sessions that are old enough to delete: unchanged for `age`, and no run holds them.
/// Completed sessions stay with `keep_completed`. Resumable sessions stay unless `unfinished` is
/// set.
pub async fn outdated(
    env: &Env,
    age: Duration,
    keep_completed: bool,
    unfinished: bool,
) -> Result<Vec<ListedSession>, StoreError> {
    let now = env.clock.now();
    let (listed, _) = list(env, Filter::default()).await?;
    let goes = |listed: &ListedSession| {
        let status = listed.status;
        let chosen = match status {
            Status::Completed => !keep_completed,
            Status::Running | Status::Waiting => false,
            Status::Expired => true,
            other => other.is_final() || unfinished,
        };
        chosen && now.since(listed.summary.updated_at) >= age
    };
    Ok(listed.into_iter().filter(goes).collect())
}

/// The resumable sessions of a workspace that have no active run, least recently updated first. A
/// damaged session is an error: it may be the one that the user means, and starting over costs
/// money.
pub(crate) async fn resumable_sessions(
    env: &Env,
    workspace: &Folder,
) -> Result<Vec<Summary>, StoreError> {
    let open = Status::ALL.iter().copied();
    let open = open.filter(|status| status.is_resumable() && !status.is_archived());
    let filter = Filter {
        statuses: Some(open.collect()),
        ..in_folder(workspace)
    };
    let mut found = Vec::new();
    for summary in env.store.list(filter).await? {
        let listed = ListedSession::of(env, summary?).await?;
        if listed.status != Status::Running {
            found.push(listed.summary);
        }
    }
    found.sort_by_key(|summary| (summary.updated_at, summary.id));
    Ok(found)
}
