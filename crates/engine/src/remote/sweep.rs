//! Deleting what no letter names any more: late, announced, and looked at twice (P8).
//!
//! What is not needed is announced first, in an object beside it. A later sweep deletes it, if the
//! grace is over and still no letter names it. Whoever sends a checkpoint takes announcements back
//! and looks again once its letter is there; a sweep that takes long stops before what it knows of
//! the letters is old.

use std::collections::HashSet;
use std::time::Duration;

use segno_core::depot::{Depot, Object};
use segno_core::letter::Letter;
use segno_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Inventory, TRASH, letters, list, name_of, read};
use crate::error::Error;
use crate::world::World;

/// What is known of the letters counts for so long.
const FRESH: Duration = Duration::from_mins(10);

/// What a sweep of the depot did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects that were deleted.
    pub deleted: u64,
    /// How long they were.
    pub bytes: u64,
    /// Objects that go when the grace is over.
    pub waiting: u64,
    /// Whether it took too long, and the rest is left to the next one.
    pub unfinished: bool,
}

/// What stands in an announcement.
#[derive(Serialize, Deserialize)]
struct Notice {
    at: Timestamp,
}

/// Deletes what was announced at least `grace` ago and is still not needed; announces what is not
/// needed now. Nothing is deleted while a letter cannot be read: nobody knows what it needs.
pub async fn sweep(world: &World, grace: Duration) -> Result<Swept, Error> {
    let depot = super::depot(world)?;
    let inventory = Inventory::take(depot).await?;
    let notices = depot.list(TRASH).await?;
    let looked = world.clock.elapsed();
    let needed = needed(world, depot).await?;
    let mut swept = Swept::default();
    let now = world.clock.now();
    for notice in &notices {
        let object = notice.name.strip_prefix("trash/").unwrap_or_default();
        let Some(length) = inventory.parts.get(object) else {
            depot.delete(&notice.name).await?;
            continue;
        };
        if needed.contains(object) {
            depot.delete(&notice.name).await?;
            continue;
        }
        if world.clock.elapsed().saturating_sub(looked) > FRESH {
            swept.unfinished = true;
            return Ok(swept);
        }
        if !is_ripe(depot, notice, now, grace).await? {
            swept.waiting += 1;
            continue;
        }
        depot.delete(object).await?;
        depot.delete(&notice.name).await?;
        swept.deleted += 1;
        swept.bytes += length;
    }
    for object in idle(&inventory, &needed) {
        let notice = serde_json::to_vec(&Notice { at: now }).expect("a notice is plain data");
        depot.create(&format!("{TRASH}/{object}"), notice).await?;
        swept.waiting += 1;
    }
    Ok(swept)
}

/// Everything that a letter names.
async fn needed(world: &World, depot: &dyn Depot) -> Result<HashSet<String>, Error> {
    let (found, damaged) = list(world).await?;
    if let Some(error) = damaged.into_iter().next() {
        return Err(error.into());
    }
    let mut needed: HashSet<String> = found.iter().flat_map(objects).collect();
    let known: HashSet<String> = found
        .iter()
        .map(|letter| name_of(&letter.checkpoint))
        .collect();
    // Some may have come while the others were read.
    for name in letters(depot).await? {
        if !known.contains(&name)
            && let Some(letter) = read(depot, &name).await?
        {
            needed.extend(objects(&letter));
        }
    }
    Ok(needed)
}

/// What nobody needs and nobody has announced, sorted.
fn idle<'a>(inventory: &'a Inventory, needed: &HashSet<String>) -> Vec<&'a String> {
    let is_idle = |object: &&String| {
        !needed.contains(object.as_str()) && !inventory.doomed.contains(object.as_str())
    };
    let mut idle: Vec<&String> = inventory.parts.keys().filter(is_idle).collect();
    idle.sort();
    idle
}

fn objects(letter: &Letter) -> impl Iterator<Item = String> {
    letter.parts.iter().map(segno_core::carry::Part::object)
}

/// Whether something has waited long enough, by both clocks, and nobody took its notice back.
async fn is_ripe(
    depot: &dyn Depot,
    notice: &Object,
    now: Timestamp,
    grace: Duration,
) -> Result<bool, Error> {
    let old = |at: Timestamp| now.since(at) >= grace && (now >= at || grace.is_zero());
    if !old(notice.at) {
        return Ok(false);
    }
    match depot.read(&notice.name, 1024).await {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).is_ok_and(|notice: Notice| old(notice.at))),
        Err(segno_core::depot::Error::Missing { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
