//! Sending checkpoints to the depot.

use std::path::Path;

use futures_util::{StreamExt, TryStreamExt};
use segno_core::carry::{Load, Part};
use segno_core::checkpoint::{Manifest, papers};
use segno_core::depot::{self, Depot, Put};
use segno_core::id::{Name, SessionId};
use segno_core::journal::Head;
use segno_core::letter::{self, Letter};
use segno_core::ports::Boxed;
use segno_core::snapshot::Progress;
use segno_core::store::Error as StoreError;

use super::{Inventory, LANES, TRASH, name_of, read};
use crate::error::Error;
use crate::world::World;
use crate::{checkpoint, export};

/// A checkpoint that is in the depot.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// The checkpoint.
    pub manifest: Manifest,
    /// How many objects it needs.
    pub parts: u64,
    /// How long they are, all together.
    pub bytes: u64,
    /// How many of them were sent.
    pub sent: u64,
    /// How long these are.
    pub sent_bytes: u64,
}

/// Sends a checkpoint. What is there already is not sent again, so a push that was cut off goes on
/// where it was. Its letter is put last.
pub async fn push(
    world: &World,
    manifest: &Manifest,
    progress: &Progress,
) -> Result<Pushed, Error> {
    let inventory = Inventory::take(super::depot(world)?).await?;
    push_into(world, manifest, &inventory, progress).await
}

/// Sends what this installation has taken and the depot has not, of one session or of all, oldest
/// first.
pub async fn push_all(
    world: &World,
    session: Option<SessionId>,
    progress: &Progress,
) -> Result<Vec<Pushed>, Error> {
    let above = world.storage.as_ref().map_or(0, |storage| storage.above);
    let inventory = Inventory::take(super::depot(world)?).await?;
    let mut pushed = Vec::new();
    for kept in world.store.kept(session).await? {
        // One that is damaged here cannot be sent, and is named by whoever lists them.
        let Ok(manifest) = kept else { continue };
        let is_ours = manifest.origin.is_none() && manifest.pruned.is_none();
        let is_there = inventory.letters.contains(&name_of(&manifest));
        if is_ours && !is_there && (above == 0 || manifest.files.bytes > above) {
            pushed.push(push_into(world, &manifest, &inventory, progress).await?);
        }
    }
    Ok(pushed)
}

/// What follows a checkpoint that was just taken: it is sent, and with it what could not be sent
/// before. Nothing, if there is nowhere to send it.
pub fn catch_up<'a>(
    world: &'a World,
    session: SessionId,
    progress: &'a Progress,
) -> Boxed<'a, Result<Vec<Pushed>, Error>> {
    match world.storage {
        Some(_) => Box::pin(push_all(world, Some(session), progress)),
        None => Box::pin(std::future::ready(Ok(Vec::new()))),
    }
}

/// Takes back the letter of a checkpoint that this installation sent. What it named goes when the
/// depot is swept.
pub async fn withdraw(world: &World, manifest: &Manifest) -> Result<(), Error> {
    match &world.storage {
        Some(storage) if manifest.origin.is_none() => {
            Ok(storage.depot.delete(&name_of(manifest)).await?)
        }
        _ => Ok(()),
    }
}

async fn push_into(
    world: &World,
    manifest: &Manifest,
    inventory: &Inventory,
    progress: &Progress,
) -> Result<Pushed, Error> {
    let depot = super::depot(world)?;
    let name = name_of(manifest);
    if inventory.letters.contains(&name)
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
    let (manifest, session) = furnish(world, manifest).await?;
    let load = world.snapshots.load(manifest.snapshots().collect()).await?;
    let (sent, sent_bytes) = send(depot, &load, inventory, progress).await?;
    let letter = Letter {
        segno_letter: letter::VERSION,
        name: session,
        checkpoint: Manifest {
            origin: None,
            ..manifest.clone()
        },
        parts: load.parts.iter().map(|(part, _)| *part).collect(),
    };
    put(depot, &name, &letter).await?;
    // Whoever sweeps sees the letter from now on. What was doomed before is saved, and what went in
    // the meantime is sent once more.
    let after = Inventory::take(depot).await?;
    let (again, again_bytes) = send(depot, &load, &after, &|_, _| {}).await?;
    Ok(Pushed {
        manifest,
        parts: letter.parts.len() as u64,
        bytes: letter.bytes(),
        sent: sent + again,
        sent_bytes: sent_bytes + again_bytes,
    })
}

/// Puts the session among the papers of a checkpoint, up to where it stood, so that it can be made
/// again where it never was. A session that is not here any more stays behind.
async fn furnish(world: &World, manifest: &Manifest) -> Result<(Manifest, Option<Name>), Error> {
    let summary = match world.store.summary(manifest.session).await {
        Err(StoreError::NoSession(_)) => return Ok((manifest.clone(), None)),
        other => other?,
    };
    let mut all = match manifest.papers {
        Some(papers) => world.snapshots.papers(papers).await?,
        None => Vec::new(),
    };
    let name = Some(summary.name.clone());
    if all.iter().any(|(name, _)| name == papers::SESSION) || manifest.journal.seq.0 == 0 {
        return Ok((manifest.clone(), name));
    }
    let until = Head {
        seq: manifest.journal.seq,
        hash: manifest.journal.hash,
    };
    let running = until != summary.head;
    let session = export::up_to(world, &summary, until, running, |_, _| {}).await?;
    all.push((papers::SESSION.to_owned(), session.bytes));
    let manifest = Manifest {
        papers: Some(world.snapshots.keep(all).await?),
        ..manifest.clone()
    };
    checkpoint::keep(world, &manifest).await?;
    Ok((manifest, name))
}

/// Sends the parts that the depot lacks, several at a time, and saves those that are doomed. Returns
/// how many were sent, and how long they are.
async fn send(
    depot: &dyn Depot,
    load: &Load,
    inventory: &Inventory,
    progress: &Progress,
) -> Result<(u64, u64), Error> {
    for (part, _) in &load.parts {
        let object = part.object();
        if inventory.doomed.contains(&object) {
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
    let mut uploads = futures_util::stream::iter(uploads).buffer_unordered(LANES);
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

fn missing<'a>(load: &'a Load, inventory: &Inventory) -> Vec<(Part, &'a Path)> {
    let is_there = |part: &Part| inventory.parts.get(&part.object()) == Some(&part.bytes);
    let missing = load.parts.iter().filter(|(part, _)| !is_there(part));
    missing
        .map(|(part, path)| (*part, path.as_path()))
        .collect()
}

fn upload<'a>(
    depot: &'a dyn Depot,
    part: Part,
    path: &'a Path,
) -> Boxed<'a, Result<(Part, Put), Error>> {
    Box::pin(async move { Ok((part, depot.upload(&part.object(), path).await?)) })
}

/// Puts a letter. One that is there stays if it is whole, whoever put it; one that cannot be read, or
/// names what is not there any more, is replaced.
async fn put(depot: &dyn Depot, name: &str, letter: &Letter) -> Result<(), Error> {
    if depot.create(name, letter.to_bytes()).await? == Put::New {
        return Ok(());
    }
    match read(depot, name).await {
        Ok(Some(found)) if Inventory::take(depot).await?.has_all(&found) => return Ok(()),
        Ok(_) | Err(Error::Depot(depot::Error::Damaged { .. })) => {}
        Err(error) => return Err(error),
    }
    depot.delete(name).await?;
    depot.create(name, letter.to_bytes()).await?;
    Ok(())
}
