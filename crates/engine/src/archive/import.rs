//! Imports a checkpoint from a folder.
//!
//! Verifies everything before it writes anything: the folder's files, the session, then the
//! archive, which becomes a snapshot that nothing references yet. Then it creates the session, and
//! last the checkpoint, which is listed from then on. After a kill, the next import continues where
//! it stopped.

use std::path::PathBuf;

use segno_core::archive::{Archive, Keeping, Limits};
use segno_core::bundle::Bundle;
use segno_core::checkpoint::Manifest;
use segno_core::id::{CheckpointId, Name};
use segno_core::snapshot::{Captured, Progress};

use super::incoming::{self, Incoming};
use crate::checkpoint::{file_counts, list_of, new_id, put_manifest};
use crate::error::Error;
use crate::import::{self, Relation};
use crate::start;
use crate::world::World;

#[derive(Debug, Clone)]
pub struct Request {
    /// The folder, or an archive without a folder.
    pub from: PathBuf,
    /// Limits for the archive.
    pub limits: Limits,
    /// Whether to import, or only to verify.
    pub keeping: Keeping,
    /// The name of the session, if the folder has one.
    pub name: Option<Name>,
}

#[derive(Debug)]
pub enum Fate {
    /// Created; `None` if this is only a verification.
    Came(Option<import::Imported>),
    /// The session exists with all events that the folder has, or more.
    Here,
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    New,
    Known,
    /// Another checkpoint has this id, so this one got a new id.
    Renamed(CheckpointId),
}

#[derive(Debug)]
pub struct Imported {
    pub manifest: Manifest,
    pub captured: Captured,
    pub standing: Standing,
    pub session: Fate,
    /// Files of the layout that the folder lacks.
    pub missing: Vec<&'static str>,
}

/// Imports a checkpoint from an exported folder.
pub async fn import(
    world: &World,
    request: &Request,
    progress: &Progress,
) -> Result<Imported, Error> {
    let incoming = incoming::read(world, &request.from)?;
    import_incoming(world, incoming, request, progress).await
}

/// Imports a folder that was read.
pub(super) async fn import_incoming(
    world: &World,
    incoming: Incoming,
    request: &Request,
    progress: &Progress,
) -> Result<Imported, Error> {
    let session_is_new = match &incoming.bundle {
        Some(bundle) => Some(is_new(world, bundle).await?),
        None => None,
    };
    let archive = Archive {
        from: &incoming.archive,
        digest: incoming.digest,
        snapshot: incoming.snapshot,
        limits: request.limits,
        keeping: request.keeping,
    };
    let captured = world.snapshots.take(archive, progress).await?;
    let Incoming {
        mut manifest,
        bundle,
        papers,
        missing,
        ..
    } = incoming;
    manifest.files = file_counts(&captured);
    manifest.origin = Some(start::text_of(&request.from)?);
    manifest.verified = Some(world.clock.now());
    manifest.pruned = None;
    // Git folders from outside of the workspace are not exported.
    for repository in &mut manifest.repositories {
        repository.outside = None;
    }
    let standing = standing(world, &manifest).await?;
    if standing != Standing::Known && request.keeping == Keeping::Keep && !papers.is_empty() {
        manifest.papers = Some(world.snapshots.keep(papers).await?);
    }
    if let Standing::Renamed(_) = standing {
        manifest.id = new_id(world).0;
    }
    let session = match (session_is_new, bundle, request.keeping) {
        (Some(true), Some(bundle), Keeping::Keep) => {
            let name = request.name.clone();
            Fate::Came(Some(import::import(world, bundle, name, |_, _| {}).await?))
        }
        (Some(true), ..) => Fate::Came(None),
        (Some(false), ..) => Fate::Here,
        (None, ..) => Fate::Missing,
    };
    if standing != Standing::Known && request.keeping == Keeping::Keep {
        put_manifest(world, &manifest).await?;
    }
    Ok(Imported {
        manifest,
        captured,
        standing,
        session,
        missing,
    })
}

/// Whether the session is not here yet. An existing session must have all events that the folder
/// has.
async fn is_new(world: &World, bundle: &Bundle) -> Result<bool, Error> {
    match import::refuse_existing(world, bundle).await {
        Ok(()) => Ok(true),
        Err(Error::Exists {
            relation: Relation::Same | Relation::Ahead,
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn standing(world: &World, new: &Manifest) -> Result<Standing, Error> {
    let (kept, damaged) = list_of(world, Some(new.session)).await?;
    // The origin and the attachments may differ; the rest must be equal.
    let content = |manifest: &Manifest| {
        let mut repositories = manifest.repositories.clone();
        for repository in &mut repositories {
            repository.outside = None;
        }
        Manifest {
            origin: None,
            papers: None,
            verified: None,
            pruned: None,
            repositories,
            ..manifest.clone()
        }
    };
    let existing = kept.iter().find(|manifest| manifest.id == new.id);
    Ok(match existing {
        Some(existing) if content(existing) == content(new) => Standing::Known,
        Some(_) => Standing::Renamed(new.id),
        // It may be one of the unreadable checkpoints, which must not be replaced.
        None if !damaged.is_empty() => Standing::Renamed(new.id),
        None => Standing::New,
    })
}
