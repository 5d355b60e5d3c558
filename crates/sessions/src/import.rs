//! Imports a session from an exported file.
//!
//! Verifies everything before it writes anything. Then it stores the long texts, which are
//! invisible without a session, and creates the session with all its records in one transaction. A
//! kill leaves all of the session or nothing.

use std::path::{Path, PathBuf};

use segno_core::bundle::{self, Bundle};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Head, Record};
use segno_core::session::Status;
use segno_core::store::{Batch, Error as StoreError, LeaseUpdate, NewSession, Summary};
use segno_engine::workspace::{NotUtf8, path_text};
use segno_engine::{Env, journal, lease};

use crate::{naming, relocate};

/// How the local session relates to the one in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Same,
    /// The file continues where the local journal ends.
    Behind,
    /// The local journal continues where the file ends.
    Ahead,
    /// The journals have diverged.
    Diverged,
    /// The local session is in the trash.
    InTrash,
}

/// Why a session was not imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{place} cannot be imported: {error}")]
    InvalidFile { place: String, error: bundle::Error },
    /// A session with the same id exists.
    #[error("session `{name}` ({session}) {}", describe(*.relation, *.here, *.there))]
    SessionExists {
        session: SessionId,
        name: Name,
        relation: Relation,
        /// How many events the local journal has.
        here: u64,
        /// How many events the imported journal has.
        there: u64,
    },
    /// The imported session cannot get its folder.
    #[error(transparent)]
    Relocate(#[from] relocate::Error),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
}

fn describe(relation: Relation, here: u64, there: u64) -> String {
    match relation {
        Relation::Same => "already exists here with the same journal".into(),
        Relation::Behind => {
            format!("already exists here with {here} events; the file continues to event {there}")
        }
        Relation::Ahead => {
            format!("already exists here with {here} events; the file has only the first {there}")
        }
        Relation::Diverged => {
            "already exists here, and its journal has diverged from the one in the file".into()
        }
        Relation::InTrash => "already exists here, in the trash".into(),
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::InvalidFile { .. } => Diagnosis::new(Kind::FailedVerification, "F0204")
                .hint("export the session again; if this file was transferred, compare the two"),
            Self::SessionExists {
                session,
                name,
                relation,
                ..
            } => {
                let exists = Diagnosis::new(Kind::Conflict, "S0113");
                match relation {
                    Relation::Behind => exists.hint(format!(
                        "run `segno sessions delete {session} --permanent`, then import again: the file has all of its events"
                    )),
                    Relation::InTrash => exists.hint(format!(
                        "run `segno sessions restore {session}`, or `segno sessions delete {session} --permanent` and import again"
                    )),
                    Relation::Same | Relation::Ahead => exists.hint(format!(
                        "nothing needs to be imported; `segno show {name}` shows the session"
                    )),
                    Relation::Diverged => exists,
                }
            }
            Self::Relocate(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
        }
    }
}

/// An imported session.
#[derive(Debug)]
pub struct Imported {
    pub session: SessionId,
    pub name: Name,
    pub status: Status,
    pub workspace: String,
    /// How many journal events it has.
    pub records: u64,
    /// How many long texts.
    pub texts: u64,
    /// Whether a run held the session at the time of the export.
    pub running: bool,
}

/// Reads a file and verifies all of it. `place` is the name of the file in error messages.
pub fn read(place: &str, bytes: &[u8]) -> Result<Bundle, Error> {
    bundle::read(bytes).map_err(|error| match error {
        bundle::Error::Newer(found) => Error::Store(StoreError::Newer {
            place: place.to_owned(),
            found,
            known: bundle::VERSION,
        }),
        error => Error::InvalidFile {
            place: place.to_owned(),
            error,
        },
    })
}

/// Creates the session of a file. If its name is taken and was not requested, a number is appended.
/// Calls `progress` with the number of stored texts, and of all texts.
pub async fn import(
    env: &Env,
    bundle: Bundle,
    wanted: Option<Name>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Imported, Error> {
    let session = bundle.header.session;
    refuse_existing(env, &bundle).await?;
    let Bundle {
        header,
        records,
        state,
        texts,
    } = bundle;
    let total = texts.len() as u64;
    for (done, (_, text)) in (1..).zip(texts) {
        env.store.put(text.into_bytes()).await?;
        progress(done, total);
    }
    let created = state
        .created
        .as_ref()
        .expect("a parsed bundle has a creation event");
    let count = records.len() as u64;
    let batch = Batch {
        session,
        run: state.run,
        expected: Head::genesis(session),
        records,
        status: state.status,
        spec_digest: state.spec_digest,
        workspace: None,
        lease: LeaseUpdate::Release,
        cached_state: Some(journal::to_folded(&state)),
        handled_messages: Vec::new(),
    };
    let new = NewSession {
        id: session,
        name: wanted.clone().unwrap_or(header.name),
        kind: created.kind,
        workspace: created.workspace.clone(),
        owner: env.processes.current(),
        ttl: env.ttl,
        batch,
    };
    let name = create(env, new, wanted.is_some()).await?;
    Ok(Imported {
        session,
        name,
        status: match state.status {
            // The run that held it is on another machine.
            Status::Running => Status::Interrupted,
            status => status,
        },
        workspace: created.workspace.clone(),
        records: count,
        texts: total,
        running: header.running,
    })
}

/// Like [`import`], and gives the session a folder on this machine, if `into` is set. Continues an
/// import that was killed.
pub async fn import_into(
    env: &Env,
    bundle: Bundle,
    wanted: Option<Name>,
    into: Option<PathBuf>,
    progress: impl FnMut(u64, u64),
) -> Result<Imported, Error> {
    let Some(into) = into else {
        return import(env, bundle, wanted, progress).await;
    };
    relocate::check_folder(env, &into)?;
    let mut imported = match find_existing(env, &bundle, Some(&into)).await? {
        Existing::Absent => import(env, bundle, wanted, progress).await?,
        Existing::Imported(summary) | Existing::Moved(summary) => {
            let lease = env.store.lease(summary.id).await?;
            Imported {
                session: summary.id,
                status: lease::effective_status(env, &summary, &lease),
                name: summary.name,
                workspace: summary.workspace,
                records: summary.head.seq.0,
                texts: bundle.texts.len() as u64,
                running: bundle.header.running,
            }
        }
    };
    let summary = env.store.summary(imported.session).await?;
    relocate::relocate(env, &summary, &into).await?;
    imported.workspace = path_text(&into)?;
    Ok(imported)
}

/// Creates a session, and returns its name: the given one, or the first numbered one that is free.
pub(crate) async fn create(env: &Env, new: NewSession, is_given: bool) -> Result<Name, StoreError> {
    let create = |name| {
        let new = new.clone();
        let creating = env.store.create(NewSession { name, ..new });
        async move {
            match creating.await {
                Err(StoreError::NameTaken(_)) if !is_given => Ok(None),
                created => created.map(Some),
            }
        }
    };
    let (name, _) = naming::create_numbered(env, &new.name, new.name.clone(), create).await?;
    Ok(name)
}

/// How far an earlier import of the same session came.
#[derive(Debug)]
pub enum Existing {
    Absent,
    /// The session exists as in the file.
    Imported(Summary),
    /// The session exists as in the file, and already has the requested folder.
    Moved(Summary),
}

/// How far an earlier import of the session came. Refuses a session that has continued or diverged.
pub async fn find_existing(
    env: &Env,
    bundle: &Bundle,
    into: Option<&Path>,
) -> Result<Existing, Error> {
    let session = bundle.header.session;
    match refuse_existing(env, bundle).await {
        Ok(()) => Ok(Existing::Absent),
        Err(Error::SessionExists {
            relation: Relation::Same,
            ..
        }) => Ok(Existing::Imported(env.store.summary(session).await?)),
        Err(
            error @ Error::SessionExists {
                relation: Relation::Ahead,
                ..
            },
        ) => {
            let summary = env.store.summary(session).await?;
            let end = bundle.records.len() as u64;
            let into = into.and_then(|into| into.canonicalize().ok());
            if into != Some(PathBuf::from(&summary.workspace)) || summary.head.seq.0 != end + 1 {
                return Err(error);
            }
            match env.store.event(session, summary.head.seq).await?.event {
                Event::SessionMoved(_) => Ok(Existing::Moved(summary)),
                _ => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Refuses a session whose id exists here; the error says how the two are related.
pub(crate) async fn refuse_existing(env: &Env, bundle: &Bundle) -> Result<(), Error> {
    let session = bundle.header.session;
    let trashed = env.store.list_trash().await?;
    let trashed = trashed.into_iter().flatten();
    let discarded = trashed
        .into_iter()
        .any(|trashed| trashed.session == session);
    let (name, relation, here) = match env.store.summary(session).await {
        Err(StoreError::NoSession(_)) if !discarded => return Ok(()),
        Err(StoreError::NoSession(_)) => (bundle.header.name.clone(), Relation::InTrash, 0),
        Ok(summary) if discarded => {
            let name = bundle.header.name.clone();
            (name, Relation::InTrash, summary.head.seq.0)
        }
        Ok(summary) => {
            let relation = compare_journals(env, session, summary.head, &bundle.records).await?;
            (summary.name, relation, summary.head.seq.0)
        }
        Err(error) => return Err(error.into()),
    };
    Err(Error::SessionExists {
        session,
        name,
        relation,
        here,
        there: bundle.records.len() as u64,
    })
}

async fn compare_journals(
    env: &Env,
    session: SessionId,
    here: Head,
    there: &[Record],
) -> Result<Relation, StoreError> {
    let end = there.last().map_or(Head::genesis(session), Record::head);
    if here == end {
        return Ok(Relation::Same);
    }
    if here.seq < end.seq {
        let index = usize::try_from(here.seq.0).unwrap_or(usize::MAX);
        let same = index.checked_sub(1).and_then(|index| there.get(index));
        let is_prefix = same.is_some_and(|record| record.head() == here);
        return Ok(if is_prefix {
            Relation::Behind
        } else {
            Relation::Diverged
        });
    }
    let entry = env.store.event(session, end.seq).await?;
    Ok(if entry.head() == end {
        Relation::Ahead
    } else {
        Relation::Diverged
    })
}
