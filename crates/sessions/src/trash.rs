//! Moves sessions to the trash, restores them, and deletes them permanently (P8).

use std::collections::BTreeSet;
use std::time::Duration;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::{self, Name, SessionId, Unresolved};
use segno_core::journal::{Head, Text};
use segno_core::lease::Liveness;
use segno_core::session::Status;
use segno_core::store::{Error as StoreError, Filter, Summary, Swept, TrashedSession};
use segno_core::time::Timestamp;
use segno_engine::{Env, history, lease};

use crate::listing::{self, Ambiguous};
use crate::naming;

/// Younger blobs are never deleted: a run may be about to reference them.
const GRACE: Duration = Duration::from_hours(24);

/// Why a session was not moved to the trash, or not found there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("session `{name}` ({session}) is running and cannot be deleted")]
    DeleteWhileRunning { session: SessionId, name: Name },
    #[error("no session in the trash matches `{reference}`")]
    NotInTrash { reference: String },
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::DeleteWhileRunning { name, .. } => Diagnosis::new(Kind::Conflict, "S0109")
                .hint(format!("cancel it first: `segno cancel {name}`")),
            Self::NotInTrash { .. } => Diagnosis::new(Kind::NotFound, "S0112")
                .hint("`segno sessions trash` lists the sessions in the trash"),
            Self::Ambiguous(error) => error.diagnosis(),
        }
    }
}

/// A session to delete.
#[derive(Debug, Clone)]
pub enum Target {
    Readable(Summary),
    /// A session that cannot be read, and the error.
    Damaged(SessionId, StoreError),
}

impl Target {
    pub fn id(&self) -> SessionId {
        match self {
            Target::Readable(summary) => summary.id,
            Target::Damaged(session, _) => *session,
        }
    }

    /// The name, if it can be read.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Target::Readable(summary) => Some(&summary.name),
            Target::Damaged(..) => None,
        }
    }
}

/// Resolves a session to delete. A damaged session is found by its whole id only.
pub async fn target(env: &Env, reference: &str) -> Result<Target, listing::Error> {
    match (listing::find(env, reference).await, reference.parse()) {
        (Ok(summary), _) => Ok(Target::Readable(summary)),
        (Err(listing::Error::Store(error)), Ok(session)) if error.kind() == Kind::Damaged => {
            Ok(Target::Damaged(session, error))
        }
        (Err(error), _) => Err(error),
    }
}

/// Moves a session to the trash, unless a run holds it.
pub async fn move_to_trash(env: &Env, target: &Target) -> Result<(), Error> {
    let session = target.id();
    let seen = match env.store.lease(session).await {
        Ok(lease) => Some(lease),
        Err(error) if error.kind() == Kind::Damaged => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(lease) = &seen
        && lease::verdict(env, lease).is_held()
    {
        let name = target.name().cloned();
        return Err(Error::DeleteWhileRunning {
            session,
            name: name.unwrap_or_else(|| Name::sanitized(&session.to_string())),
        });
    }
    Ok(env.store.discard(session, seen).await?)
}

/// A session in the trash.
#[derive(Debug, Clone)]
pub struct TrashItem {
    pub discarded: TrashedSession,
    /// The session's row, if it can be read.
    pub summary: Option<Summary>,
}

impl TrashItem {
    pub fn name(&self) -> Name {
        self.discarded.shown_name()
    }
}

/// The sessions in the trash, newest first, and the errors of unreadable ones.
pub async fn list(env: &Env) -> Result<(Vec<TrashItem>, Vec<StoreError>), StoreError> {
    let (mut trashed, mut damaged) = (Vec::new(), Vec::new());
    for found in env.store.list_trash().await? {
        match found {
            Ok(discarded) => {
                let mut summary = env.store.summary(discarded.session).await.ok();
                if let Some(summary) = &mut summary
                    && summary.status == Status::Running
                {
                    // No process runs a session in the trash.
                    summary.status = Status::Interrupted;
                }
                trashed.push(TrashItem { discarded, summary });
            }
            Err(error) => damaged.push(error),
        }
    }
    Ok((trashed, damaged))
}

/// Resolves a reference to a session in the trash.
pub async fn find(env: &Env, reference: &str) -> Result<TrashedSession, Error> {
    let all: Vec<TrashedSession> = env
        .store
        .list_trash()
        .await?
        .into_iter()
        .flatten()
        .collect();
    let names: Vec<_> = all
        .iter()
        .map(|discarded| (discarded.session, discarded.shown_name()))
        .collect();
    match id::resolve(reference, &names) {
        Ok((session, _)) => Ok(all
            .into_iter()
            .find(|discarded| discarded.session == session)
            .expect("it was just found")),
        Err(Unresolved::Unknown) => Err(Error::NotInTrash {
            reference: reference.to_owned(),
        }),
        Err(Unresolved::Ambiguous(candidates)) => Err(Ambiguous {
            reference: reference.to_owned(),
            candidates,
        }
        .into()),
    }
}

/// Restores a session from the trash, and returns its name. If the name is taken and was not
/// requested, a number is appended.
pub async fn restore(
    env: &Env,
    discarded: &TrashedSession,
    wanted: Option<Name>,
) -> Result<Name, StoreError> {
    let is_given = wanted.is_some();
    let family = wanted.unwrap_or_else(|| discarded.shown_name());
    let restore = |name| {
        let restoring = env.store.restore(discarded.session, Some(name));
        async move {
            match restoring.await {
                Err(StoreError::NameTaken(_)) if !is_given => Ok(None),
                restored => restored.map(Some),
            }
        }
    };
    let (name, ()) = naming::create_numbered(env, &family, family.clone(), restore).await?;
    Ok(name)
}

/// The sessions that have been in the trash for at least `keep`.
pub async fn expired(env: &Env, keep: Duration) -> Result<Vec<TrashItem>, StoreError> {
    let now = env.clock.now();
    let (mut trashed, _) = list(env).await?;
    trashed.retain(|trashed| now.since(trashed.discarded.at) >= keep);
    Ok(trashed)
}

#[derive(Debug)]
pub enum Sweep {
    Done(Swept),
    /// Nothing was deleted: references are only known if every journal can be read.
    Skipped(history::Error),
}

/// Deletes blobs that no session references, including sessions in the trash.
pub async fn sweep(env: &Env) -> Result<Sweep, history::Error> {
    let mut before = env.clock.now().before(GRACE);
    let mut sessions = Vec::new();
    for found in env.store.list(Filter::default()).await? {
        match found {
            Ok(summary) => sessions.push(summary.id),
            Err(error) => return Ok(Sweep::Skipped(error.into())),
        }
    }
    for found in env.store.list_trash().await? {
        match found {
            Ok(discarded) => sessions.push(discarded.session),
            Err(error) => return Ok(Sweep::Skipped(error.into())),
        }
    }
    let mut kept = BTreeSet::new();
    for session in sessions {
        match collect_blobs(env, session, &mut kept).await {
            Ok(Some(since)) => before = before.min(since),
            Ok(None) => {}
            Err(error) if matches!(error.kind(), Kind::Damaged | Kind::Unusable) => {
                return Ok(Sweep::Skipped(error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Sweep::Done(env.store.sweep(kept, before).await?))
}

/// Adds the blobs that a session references. Returns since when a live owner holds the session:
/// blobs that it has put since then may not be referenced yet, however long that takes (P15).
async fn collect_blobs(
    env: &Env,
    session: SessionId,
    kept: &mut BTreeSet<segno_core::digest::Digest>,
) -> Result<Option<Timestamp>, history::Error> {
    let lease = env.store.lease(session).await?;
    history::read_events(env, session, Head::genesis(session), |entry| {
        if let Some(Text::Blob { blob, .. }) = entry.event.text() {
            kept.insert(*blob);
        }
        Ok(())
    })
    .await?;
    let is_alive = |owner| env.processes.liveness(owner) != Liveness::Gone;
    Ok(lease
        .owner
        .as_ref()
        .is_some_and(is_alive)
        .then_some(lease.since))
}
