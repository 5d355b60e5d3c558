//! Making a checkpoint out of a folder.
//!
//! Everything is verified before anything is written: the folder's files, the session, then the
//! archive, which becomes a snapshot that nobody names yet. Then the session is made, and last the
//! checkpoint, which is listed from then on. A kill in between leaves what the next import finds and
//! goes on from.

use std::path::PathBuf;

use segno_core::archive::{Archive, Keeping, Limits};
use segno_core::bundle::Bundle;
use segno_core::checkpoint::Manifest;
use segno_core::id::{CheckpointId, Name};
use segno_core::snapshot::{Captured, Progress};

use super::parcel::{self, Parcel};
use crate::checkpoint::{figures, fresh, keep, list_of};
use crate::error::Error;
use crate::import::{self, Relation};
use crate::start;
use crate::world::World;

/// What is to be imported.
#[derive(Debug, Clone)]
pub struct Request {
    /// The folder, or an archive by itself.
    pub from: PathBuf,
    /// What the archive may ask for.
    pub limits: Limits,
    /// Whether it is kept.
    pub keeping: Keeping,
    /// What to call the session, if it comes along.
    pub name: Option<Name>,
}

/// What became of the session.
#[derive(Debug)]
pub enum Fate {
    /// It was made, or would be.
    Came(Option<import::Imported>),
    /// It is here already, as far as the folder has it or further.
    Here,
    /// The folder has none.
    Missing,
}

/// What became of the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is new here.
    New,
    /// It was here already.
    Known,
    /// Another checkpoint has its id; it got a new one.
    Renamed(CheckpointId),
}

/// A checkpoint that was imported.
#[derive(Debug)]
pub struct Imported {
    /// What is kept of it.
    pub manifest: Manifest,
    /// What became of the files.
    pub captured: Captured,
    /// What became of the checkpoint.
    pub standing: Standing,
    /// What became of the session.
    pub session: Fate,
    /// Files of the layout that are not in the folder.
    pub missing: Vec<&'static str>,
}

/// Makes a checkpoint out of a folder that was exported.
pub async fn import(
    world: &World,
    request: &Request,
    progress: &Progress,
) -> Result<Imported, Error> {
    let parcel = parcel::read(world, &request.from)?;
    unpack(world, parcel, request, progress).await
}

/// The same of a folder that was read.
pub(super) async fn unpack(
    world: &World,
    parcel: Parcel,
    request: &Request,
    progress: &Progress,
) -> Result<Imported, Error> {
    let comes = match &parcel.bundle {
        Some(bundle) => Some(is_new(world, bundle).await?),
        None => None,
    };
    let archive = Archive {
        from: &parcel.archive,
        digest: parcel.digest,
        snapshot: parcel.snapshot,
        limits: request.limits,
        keeping: request.keeping,
    };
    let captured = world.snapshots.take(archive, progress).await?;
    let Parcel {
        mut manifest,
        bundle,
        papers,
        missing,
        ..
    } = parcel;
    manifest.files = figures(&captured);
    manifest.origin = Some(start::text_of(&request.from)?);
    manifest.verified = Some(world.clock.now());
    manifest.pruned = None;
    // Git folders from outside of the workspace are not in the folder.
    for repository in &mut manifest.repositories {
        repository.outside = None;
    }
    let standing = standing(world, &manifest).await?;
    if standing != Standing::Known && request.keeping == Keeping::Keep && !papers.is_empty() {
        manifest.papers = Some(world.snapshots.keep(papers).await?);
    }
    if let Standing::Renamed(_) = standing {
        manifest.id = fresh(world).0;
    }
    let session = match (comes, bundle, request.keeping) {
        (Some(true), Some(bundle), Keeping::Keep) => {
            let name = request.name.clone();
            Fate::Came(Some(import::import(world, bundle, name, |_, _| {}).await?))
        }
        (Some(true), ..) => Fate::Came(None),
        (Some(false), ..) => Fate::Here,
        (None, ..) => Fate::Missing,
    };
    if standing != Standing::Known && request.keeping == Keeping::Keep {
        keep(world, &manifest).await?;
    }
    Ok(Imported {
        manifest,
        captured,
        standing,
        session,
        missing,
    })
}

/// Whether the session is not here yet. One that is here must have what the folder has of it.
async fn is_new(world: &World, bundle: &Bundle) -> Result<bool, Error> {
    match import::refuse(world, bundle).await {
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
    // Where it came from and what lies beside it may differ; what it says does not.
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
    let here = kept.iter().find(|manifest| manifest.id == new.id);
    Ok(match here {
        Some(here) if content(here) == content(new) => Standing::Known,
        Some(_) => Standing::Renamed(new.id),
        // It may be one of those that cannot be read, and is not replaced.
        None if !damaged.is_empty() => Standing::Renamed(new.id),
        None => Standing::New,
    })
}
