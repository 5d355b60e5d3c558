//! Imports a checkpoint from a folder.
//!
//! Verifies everything before it writes anything: the folder's files, the session, then the
//! archive, which becomes a snapshot that nothing references yet. Then it creates the session, and
//! last the checkpoint, which is listed from then on. After a kill, the next import continues where
//! it stopped.

use std::path::PathBuf;

use segno_core::bundle::Bundle;
use segno_core::checkpoint::Manifest;
use segno_core::id::{CheckpointId, Name};
use segno_core::snapshot::archive::{Archive, ImportMode, Limits};
use segno_core::snapshot::{Captured, Progress};
use segno_core::store::Error as StoreError;
use segno_engine::checkpoint::{file_counts, list_of, new_id, put_manifest};
use segno_engine::{Env, workspace};

use super::Error;
use super::incoming::{self, Incoming};
use crate::import::{self, Relation};

#[derive(Debug, Clone)]
pub struct Request {
    /// The folder, or an archive without a folder.
    pub from: PathBuf,
    /// Limits for the archive.
    pub limits: Limits,
    /// Whether to import, or only to verify.
    pub keeping: ImportMode,
    /// The name of the session, if the folder has one.
    pub name: Option<Name>,
}

#[derive(Debug)]
pub enum SessionOutcome {
    /// Created; `None` if this is only a verification.
    Created(Option<import::Imported>),
    /// The session exists with all events that the folder has, or more.
    Existing,
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointOutcome {
    New,
    Existing,
    /// Another checkpoint has this id, so this one got a new id.
    Renamed(CheckpointId),
}

#[derive(Debug)]
pub struct Imported {
    pub manifest: Manifest,
    pub captured: Captured,
    pub outcome: CheckpointOutcome,
    pub session: SessionOutcome,
    /// Files of the layout that the folder lacks.
    pub missing: Vec<&'static str>,
}

/// Imports a checkpoint from an exported folder.
pub async fn import(env: &Env, request: &Request, progress: &Progress) -> Result<Imported, Error> {
    let incoming = incoming::read(env, &request.from)?;
    import_incoming(env, incoming, request, progress).await
}

/// Imports a folder that was read.
pub(super) async fn import_incoming(
    env: &Env,
    incoming: Incoming,
    request: &Request,
    progress: &Progress,
) -> Result<Imported, Error> {
    let session_is_new = match &incoming.bundle {
        Some(bundle) => Some(is_new(env, bundle).await?),
        None => None,
    };
    let archive = Archive {
        from: &incoming.archive,
        digest: incoming.digest,
        snapshot: incoming.snapshot,
        limits: request.limits,
        mode: request.keeping,
    };
    let captured = env.snapshots()?.import_archive(archive, progress).await?;
    let Incoming {
        mut manifest,
        bundle,
        attachments,
        missing,
        ..
    } = incoming;
    manifest.files = file_counts(&captured);
    manifest.origin = Some(workspace::path_text(&request.from)?);
    manifest.verified = Some(env.clock.now());
    manifest.pruned = None;
    // Git folders from outside of the workspace are not exported.
    for repository in &mut manifest.repositories {
        repository.external_git_dir = None;
    }
    let standing = standing(env, &manifest).await?;
    if standing != CheckpointOutcome::Existing
        && request.keeping == ImportMode::Store
        && !attachments.is_empty()
    {
        manifest.attachments = Some(env.snapshots()?.put_files(attachments).await?);
    }
    if let CheckpointOutcome::Renamed(_) = standing {
        manifest.id = new_id(env).0;
    }
    let session = match (session_is_new, bundle, request.keeping) {
        (Some(true), Some(bundle), ImportMode::Store) => {
            let name = request.name.clone();
            SessionOutcome::Created(Some(import::import(env, bundle, name, |_, _| {}).await?))
        }
        (Some(true), ..) => SessionOutcome::Created(None),
        (Some(false), ..) => SessionOutcome::Existing,
        (None, ..) => SessionOutcome::Missing,
    };
    if standing != CheckpointOutcome::Existing && request.keeping == ImportMode::Store {
        put_manifest(env, &manifest).await?;
    }
    Ok(Imported {
        manifest,
        captured,
        outcome: standing,
        session,
        missing,
    })
}

/// Whether the session is not here yet. An existing session must have all events that the folder
/// has.
async fn is_new(env: &Env, bundle: &Bundle) -> Result<bool, import::Error> {
    match import::refuse_existing(env, bundle).await {
        Ok(()) => Ok(true),
        Err(import::Error::SessionExists {
            relation: Relation::Same | Relation::Ahead,
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn standing(env: &Env, new: &Manifest) -> Result<CheckpointOutcome, StoreError> {
    let (kept, damaged) = list_of(env, Some(new.session)).await?;
    // The origin and the attachments may differ; the rest must be equal.
    let content = |manifest: &Manifest| {
        let mut repositories = manifest.repositories.clone();
        for repository in &mut repositories {
            repository.external_git_dir = None;
        }
        Manifest {
            origin: None,
            attachments: None,
            verified: None,
            pruned: None,
            repositories,
            ..manifest.clone()
        }
    };
    let existing = kept.iter().find(|manifest| manifest.id == new.id);
    Ok(match existing {
        Some(existing) if content(existing) == content(new) => CheckpointOutcome::Existing,
        Some(_) => CheckpointOutcome::Renamed(new.id),
        // It may be one of the unreadable checkpoints, which must not be replaced.
        None if !damaged.is_empty() => CheckpointOutcome::Renamed(new.id),
        None => CheckpointOutcome::New,
    })
}
