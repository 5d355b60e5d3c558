//! Pushes checkpoints to the remote.

use std::path::Path;

use futures_util::{StreamExt, TryStreamExt};
use segno_core::announcement::{self, Announcement};
use segno_core::checkpoint::{Manifest, attachments};
use segno_core::id::{Name, SessionId};
use segno_core::journal::Head;
use segno_core::ports::Boxed;
use segno_core::remote::{self, Put, Remote};
use segno_core::snapshot::Progress;
use segno_core::store::Error as StoreError;
use segno_core::transfer::{Part, PartSet};

use super::{CONCURRENT_TRANSFERS, Inventory, TRASH, name_of, read};
use crate::env::Env;
use crate::error::Error;
use crate::{checkpoint, export};

/// A checkpoint in the remote.
#[derive(Debug, Clone)]
pub struct Pushed {
    pub manifest: Manifest,
    /// How many objects it needs.
    pub parts: u64,
    pub bytes: u64,
    /// How many objects were uploaded.
    pub sent: u64,
    pub sent_bytes: u64,
}

/// Pushes a checkpoint. Existing objects are not uploaded again, so an interrupted push continues
/// where it stopped. The announcement is put last.
pub async fn push(world: &Env, manifest: &Manifest, progress: &Progress) -> Result<Pushed, Error> {
    let inventory = Inventory::read(super::depot(world)?).await?;
    push_into(world, manifest, &inventory, progress).await
}

/// Pushes the checkpoints of this installation that the remote lacks, of one session or of all,
/// oldest first.
pub async fn push_all(
    world: &Env,
    session: Option<SessionId>,
    progress: &Progress,
) -> Result<Vec<Pushed>, Error> {
    let above = world
        .remote
        .as_ref()
        .map_or(0, |storage| storage.auto_push_above);
    let inventory = Inventory::read(super::depot(world)?).await?;
    let mut pushed = Vec::new();
    for kept in world.store.list_checkpoints(session).await? {
        // A damaged checkpoint cannot be pushed; `checkpoint::list` reports it.
        let Ok(manifest) = kept else { continue };
        let is_ours = manifest.origin.is_none() && manifest.pruned.is_none();
        let is_there = inventory.announcements.contains(&name_of(&manifest));
        if is_ours && !is_there && (above == 0 || manifest.files.bytes > above) {
            pushed.push(push_into(world, &manifest, &inventory, progress).await?);
        }
    }
    Ok(pushed)
}

/// Runs after a checkpoint was created: pushes it, and those of the session that could not be
/// pushed before. Does nothing without a remote.
pub fn push_pending<'a>(
    world: &'a Env,
    session: SessionId,
    progress: &'a Progress,
) -> Boxed<'a, Result<Vec<Pushed>, Error>> {
    match world.remote {
        Some(_) => Box::pin(push_all(world, Some(session), progress)),
        None => Box::pin(std::future::ready(Ok(Vec::new()))),
    }
}

/// Deletes the announcement of a checkpoint that this installation pushed. The next sweeps delete
/// its objects.
pub async fn delete_announcement(world: &Env, manifest: &Manifest) -> Result<(), Error> {
    match &world.remote {
        Some(storage) if manifest.origin.is_none() => {
            Ok(storage.remote.delete(&name_of(manifest)).await?)
        }
        _ => Ok(()),
    }
}

async fn push_into(
    world: &Env,
    manifest: &Manifest,
    inventory: &Inventory,
    progress: &Progress,
) -> Result<Pushed, Error> {
    let depot = super::depot(world)?;
    let name = name_of(manifest);
    if inventory.announcements.contains(&name)
        && let Ok(Some(letter)) = read(depot, &name).await
        && inventory.has_all(&letter)
    {
        return Ok(Pushed {
            manifest: letter.checkpoint.clone(),
            parts: letter.parts.len() as u64,
            bytes: letter.bytes(),
            sent: 0,
            sent_bytes: 0,
        });
    }
    let (manifest, session) = attach_session(world, manifest).await?;
    let load = world
        .snapshots
        .collect_parts(manifest.snapshots().collect())
        .await?;
    let (sent, sent_bytes) = send(depot, &load, inventory, progress).await?;
    let letter = Announcement {
        segno_announcement: announcement::VERSION,
        name: session,
        checkpoint: Manifest {
            origin: None,
            ..manifest.clone()
        },
        parts: load.parts.iter().map(|(part, _)| *part).collect(),
    };
    put_announcement(depot, &name, &letter).await?;
    // A concurrent sweep sees the announcement from now on. Objects that were marked before are
    // unmarked, and objects that were deleted meanwhile are uploaded again.
    let after = Inventory::read(depot).await?;
    let (again, again_bytes) = send(depot, &load, &after, &|_, _| {}).await?;
    Ok(Pushed {
        manifest,
        parts: letter.parts.len() as u64,
        bytes: letter.bytes(),
        sent: sent + again,
        sent_bytes: sent_bytes + again_bytes,
    })
}

/// Adds the session to the attachments of a checkpoint, up to its position, so that a pull can
/// create it on another machine. A deleted session is not pushed.
async fn attach_session(
    world: &Env,
    manifest: &Manifest,
) -> Result<(Manifest, Option<Name>), Error> {
    let summary = match world.store.summary(manifest.session).await {
        Err(StoreError::NoSession(_)) => return Ok((manifest.clone(), None)),
        other => other?,
    };
    let mut all = match manifest.attachments {
        Some(papers) => world.snapshots.attachments(papers).await?,
        None => Vec::new(),
    };
    let name = Some(summary.name.clone());
    if all.iter().any(|(name, _)| name == attachments::SESSION) || manifest.journal.seq.0 == 0 {
        return Ok((manifest.clone(), name));
    }
    let until = Head {
        seq: manifest.journal.seq,
        hash: manifest.journal.hash,
    };
    let running = until != summary.head;
    let session = export::up_to(world, &summary, until, running, |_, _| {}).await?;
    all.push((attachments::SESSION.to_owned(), session.bytes));
    let manifest = Manifest {
        attachments: Some(world.snapshots.put_files(all).await?),
        ..manifest.clone()
    };
    checkpoint::put_manifest(world, &manifest).await?;
    Ok((manifest, name))
}

/// Uploads the objects that the remote lacks, several at a time, and unmarks those marked for
/// deletion. Returns how many were uploaded, and their size.
async fn send(
    depot: &dyn Remote,
    load: &PartSet,
    inventory: &Inventory,
    progress: &Progress,
) -> Result<(u64, u64), Error> {
    for (part, _) in &load.parts {
        let object = part.object_name();
        if inventory.marked.contains(&object) {
            depot.delete(&format!("{TRASH}/{object}")).await?;
        }
    }
    let missing = missing(load, inventory);
    let total: u64 = missing.iter().map(|(part, _)| part.bytes).sum();
    let (mut done, mut sent, mut sent_bytes) = (0, 0, 0);
    let uploads: Vec<Boxed<'_, _>> = missing
        .into_iter()
        .map(|(part, path)| upload(depot, part, path))
        .collect();
    let mut uploads = futures_util::stream::iter(uploads).buffer_unordered(CONCURRENT_TRANSFERS);
    while let Some((part, put)) = uploads.try_next().await? {
        done += part.bytes;
        progress(done, total);
        if put == Put::New {
            sent += 1;
            sent_bytes += part.bytes;
        }
    }
    Ok((sent, sent_bytes))
}

fn missing<'a>(load: &'a PartSet, inventory: &Inventory) -> Vec<(Part, &'a Path)> {
    let is_there = |part: &Part| inventory.parts.get(&part.object_name()) == Some(&part.bytes);
    let missing = load.parts.iter().filter(|(part, _)| !is_there(part));
    missing
        .map(|(part, path)| (*part, path.as_path()))
        .collect()
}

fn upload<'a>(
    depot: &'a dyn Remote,
    part: Part,
    path: &'a Path,
) -> Boxed<'a, Result<(Part, Put), Error>> {
    Box::pin(async move { Ok((part, depot.upload(&part.object_name(), path).await?)) })
}

/// Puts an announcement. An existing one stays if it is complete; one that is unreadable, or
/// references absent objects, is replaced.
async fn put_announcement(
    depot: &dyn Remote,
    name: &str,
    letter: &Announcement,
) -> Result<(), Error> {
    if depot.create(name, letter.to_bytes()).await? == Put::New {
        return Ok(());
    }
    match read(depot, name).await {
        Ok(Some(found)) if Inventory::read(depot).await?.has_all(&found) => return Ok(()),
        Ok(_) | Err(Error::Remote(remote::Error::Damaged { .. })) => {}
        Err(error) => return Err(error),
    }
    depot.delete(name).await?;
    depot.create(name, letter.to_bytes()).await?;
    Ok(())
}
