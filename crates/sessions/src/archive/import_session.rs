//! Imports a session with its files, and lets it continue in a folder on this machine.
//!
//! Verifies everything first. Then it does these steps, each durable before the next: it stores the
//! files as a snapshot that nothing references yet; creates the session with all its records in one
//! transaction; stores the checkpoint with the transcripts of its CLI agents; restores the files
//! into the folder, staged like every restore; and appends the event that gives the session this
//! folder. After a kill between two steps, the same call continues where it stopped. Once the event
//! is appended, the same call changes nothing, so that files changed since then are not replaced.

use std::path::PathBuf;

use segno_core::id::Name;
use segno_core::snapshot::archive::{ImportMode, Limits};
use segno_core::snapshot::{FolderUse, Progress};
use segno_core::store::Summary;
use segno_engine::{Env, lease};

use super::import::{Imported, Request, import_incoming};
use super::{Error, incoming, names, refuse};
use crate::checkpoint::{self, RestoreOutcome};
use crate::import::{self, Existing};
use crate::relocate;

#[derive(Debug, Clone)]
pub struct SessionImport {
    /// The exported folder.
    pub from: PathBuf,
    /// The folder that the session continues in; if `None`, its files stay in the checkpoint.
    pub into: Option<PathBuf>,
    /// Whether files that can start programs are restored unchanged.
    pub trust: bool,
    /// The name of the session.
    pub name: Option<Name>,
    /// Limits for the archive.
    pub limits: Limits,
}

#[derive(Debug)]
pub struct ImportedSession {
    pub summary: Summary,
    /// `None` if all of it was already here, in its folder.
    pub imported: Option<Imported>,
    pub restored: Option<RestoreOutcome>,
}

/// Creates a session and its checkpoint from a folder, and gives the session a folder here.
pub async fn import_session(
    env: &Env,
    arrival: &SessionImport,
    progress: &Progress,
) -> Result<ImportedSession, Error> {
    if let Some(into) = arrival.into.as_ref().filter(|into| into.exists()) {
        relocate::folder(into)?;
    }
    if let Some(into) = &arrival.into {
        env.snapshots()?.check_folder(into, FolderUse::Target)?;
    }
    let incoming = incoming::read(env, &arrival.from)?;
    let Some(bundle) = &incoming.bundle else {
        let reason = format!("it has no {}, so it is not a session", names::SESSION);
        return Err(refuse(&arrival.from, reason));
    };
    let session = bundle.header.session;
    match import::find_existing(env, bundle, arrival.into.as_deref()).await? {
        Existing::Moved(summary) => {
            return Ok(ImportedSession {
                summary,
                imported: None,
                restored: None,
            });
        }
        Existing::Imported(summary) => lease::refuse_if_running(env, &summary).await?,
        Existing::Absent => {}
    }
    let request = Request {
        from: arrival.from.clone(),
        limits: arrival.limits,
        keeping: ImportMode::Store,
        name: arrival.name.clone(),
    };
    let imported = import_incoming(env, incoming, &request, progress).await?;
    let mut returned = None;
    if let Some(into) = &arrival.into {
        let request = checkpoint::Request {
            into: Some(into.clone()),
            exact: false,
            dry_run: false,
            trusted: arrival.trust,
        };
        let manifest = &imported.manifest;
        returned = Some(checkpoint::restore(env, manifest, request, progress).await?);
        let summary = env.store.summary(session).await?;
        relocate::relocate(env, &summary, into).await?;
    }
    Ok(ImportedSession {
        summary: env.store.summary(session).await?,
        imported: Some(imported),
        restored: returned,
    })
}
