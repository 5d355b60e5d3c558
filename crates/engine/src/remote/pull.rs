//! Fetching checkpoints from the depot, and with them sessions that are not here.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt};
use segno_core::carry::{Part, Sort};
use segno_core::checkpoint::{Manifest, papers};
use segno_core::depot::{self, Depot};
use segno_core::error::{Diagnose, Kind};
use segno_core::letter::Letter;
use segno_core::ports::Boxed;
use segno_core::snapshot::Progress;

use super::{LANES, list};
use crate::checkpoint;
use crate::error::Error;
use crate::import::{self, Imported, Relation};
use crate::world::World;

/// What was fetched.
#[derive(Debug)]
pub struct Pulled {
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<Manifest>,
    /// How many of them were not here.
    pub new: u64,
    /// How many objects were fetched for them.
    pub fetched: u64,
    /// How long these are.
    pub fetched_bytes: u64,
    /// What became of their sessions.
    pub sessions: Vec<Arrival>,
}

/// What became of the session of a checkpoint that was fetched.
#[derive(Debug)]
pub enum Arrival {
    /// It was made here.
    Made(Imported),
    /// It is here, and stays as it is.
    Stays {
        /// The newest checkpoint that was fetched.
        checkpoint: Manifest,
        /// How it stands to what was sent along.
        relation: Relation,
    },
    /// It was not sent along.
    Absent(Manifest),
}

/// Fetches the checkpoint or the checkpoints of the session that `reference` means, or all. A
/// checkpoint is kept here when everything that it names is (P4).
pub async fn pull(
    world: &World,
    reference: Option<&str>,
    progress: &Progress,
) -> Result<Pulled, Error> {
    let depot = super::depot(world)?;
    let (letters, damaged) = list(world).await?;
    let letters = match reference {
        None => match damaged.into_iter().next() {
            Some(error) => return Err(error.into()),
            None => letters,
        },
        Some(reference) => {
            let wanted = meant(letters, reference);
            if wanted.is_empty() {
                return Err(match damaged.into_iter().next() {
                    // It may be the one that is meant.
                    Some(error) => error.into(),
                    None => Error::NotStored {
                        place: depot.url().to_owned(),
                        reference: reference.to_owned(),
                    },
                });
            }
            wanted
        }
    };
    let parts: BTreeSet<Part> = letters
        .iter()
        .flat_map(|letter| letter.parts.clone())
        .collect();
    let parts = ordered(&letters, &parts);
    let (fetched, fetched_bytes) = fetch(world, depot, parts, progress).await?;
    let sessions = sessions(world, &letters).await?;
    let new = keep(world, depot, &letters).await?;
    Ok(Pulled {
        checkpoints: letters
            .into_iter()
            .map(|letter| letter.checkpoint)
            .collect(),
        new,
        fetched,
        fetched_bytes,
        sessions,
    })
}

/// The letters that a person means: that of a checkpoint, or those of a session by its id or name.
fn meant(letters: Vec<Letter>, reference: &str) -> Vec<Letter> {
    let wanted = reference.to_ascii_uppercase();
    let is = |id: String| wanted.len() >= 4 && (id.ends_with(&wanted) || id.starts_with(&wanted));
    let one: Vec<&Letter> = letters
        .iter()
        .filter(|letter| is(letter.checkpoint.id.to_string()))
        .collect();
    if let [one] = one[..] {
        return vec![one.clone()];
    }
    let of_session = |letter: &Letter| {
        let named = letter
            .name
            .as_ref()
            .is_some_and(|name| name.as_str() == reference);
        named || is(letter.checkpoint.session.to_string())
    };
    letters.into_iter().filter(of_session).collect()
}

/// Every part once, in the order in which they can be taken in.
fn ordered(letters: &[Letter], parts: &BTreeSet<Part>) -> Vec<Part> {
    let mut left = parts.clone();
    let all = letters.iter().flat_map(|letter| &letter.parts);
    all.filter(|part| left.remove(part)).copied().collect()
}

/// Fetches the parts that are not here, several at a time; manifests one after the other, since they
/// build on each other.
async fn fetch(
    world: &World,
    depot: &dyn Depot,
    parts: Vec<Part>,
    progress: &Progress,
) -> Result<(u64, u64), Error> {
    let missing = world.snapshots.lacking(parts).await?;
    let total: u64 = missing.iter().map(|part| part.bytes).sum();
    let count = missing.len() as u64;
    let (manifests, packs): (Vec<Part>, Vec<Part>) = missing
        .into_iter()
        .partition(|part| part.sort == Sort::Manifest);
    let mut done = 0;
    for part in manifests {
        done += bring(world, depot, part).await?;
        progress(done, total);
    }
    let packs: Vec<Boxed<'_, _>> = packs
        .into_iter()
        .map(|part| boxed(world, depot, part))
        .collect();
    let mut packs = futures_util::stream::iter(packs).buffer_unordered(LANES);
    while let Some(bytes) = packs.try_next().await? {
        done += bytes;
        progress(done, total);
    }
    Ok((count, total))
}

fn boxed<'a>(world: &'a World, depot: &'a dyn Depot, part: Part) -> Boxed<'a, Result<u64, Error>> {
    Box::pin(bring(world, depot, part))
}

/// Fetches a part and takes it in. One that does not fit is fetched a second time: it may have been
/// changed on its way. Returns how long it is.
async fn bring(world: &World, depot: &dyn Depot, part: Part) -> Result<u64, Error> {
    let object = part.object();
    let mut is_second = false;
    loop {
        let draft = world.snapshots.draft().await?;
        depot.download(&object, part.bytes, &draft.path).await?;
        match world.snapshots.adopt(part, draft).await {
            Err(error) if error.kind() == Kind::Damaged && !is_second => is_second = true,
            Err(error) if error.kind() == Kind::Damaged => {
                return Err(Error::Depot(depot::Error::Damaged {
                    place: depot.url().to_owned(),
                    object,
                    reason: error.message,
                }));
            }
            other => return Ok(other.map(|()| part.bytes)?),
        }
    }
}

/// Makes the sessions that are not here, each from the newest of its checkpoints.
async fn sessions(world: &World, letters: &[Letter]) -> Result<Vec<Arrival>, Error> {
    let mut newest: Vec<&Manifest> = Vec::new();
    for letter in letters {
        let manifest = &letter.checkpoint;
        newest.retain(|other| {
            other.session != manifest.session || other.journal.seq > manifest.journal.seq
        });
        if newest.iter().all(|other| other.session != manifest.session) {
            newest.push(manifest);
        }
    }
    let mut arrivals = Vec::new();
    for manifest in newest {
        world
            .snapshots
            .enlist(manifest.snapshots().collect())
            .await?;
        arrivals.push(arrive(world, manifest).await?);
    }
    Ok(arrivals)
}

async fn arrive(world: &World, manifest: &Manifest) -> Result<Arrival, Error> {
    let Some(digest) = manifest.papers else {
        return Ok(Arrival::Absent(manifest.clone()));
    };
    let papers = world.snapshots.papers(digest).await?;
    let session = papers.into_iter().find(|(name, _)| name == papers::SESSION);
    let Some((_, bytes)) = session else {
        return Ok(Arrival::Absent(manifest.clone()));
    };
    let bundle = import::read(
        &format!("the session of checkpoint {}", manifest.id),
        &bytes,
    )?;
    match import::import(world, bundle, None, |_, _| {}).await {
        Ok(imported) => Ok(Arrival::Made(imported)),
        Err(Error::Exists { relation, .. }) => Ok(Arrival::Stays {
            checkpoint: manifest.clone(),
            relation,
        }),
        Err(error) => Err(error),
    }
}

/// Keeps the checkpoints whose files are all here. Those that are kept already stay as they are.
async fn keep(world: &World, depot: &dyn Depot, letters: &[Letter]) -> Result<u64, Error> {
    let (kept, _) = checkpoint::list(world, None).await?;
    let here: BTreeSet<_> = kept.iter().map(|manifest| manifest.id).collect();
    let mut new = 0;
    for letter in letters {
        let manifest = &letter.checkpoint;
        world
            .snapshots
            .enlist(manifest.snapshots().collect())
            .await?;
        if !here.contains(&manifest.id) {
            let origin = Some(depot.url().to_owned());
            checkpoint::keep(
                world,
                &Manifest {
                    origin,
                    verified: Some(world.clock.now()),
                    pruned: None,
                    ..manifest.clone()
                },
            )
            .await?;
            new += 1;
        }
    }
    Ok(new)
}
