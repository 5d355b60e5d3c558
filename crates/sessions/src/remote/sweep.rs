//! Deletes objects that no announcement references: marked first, deleted later, and checked twice
//! (P8).
//!
//! A sweep marks an unreferenced object with a second object under `trash/`. A later sweep deletes
//! it if the grace period is over and still no announcement references it. A push deletes the marks
//! of its objects, and checks again after it has put its announcement. A long sweep stops before
//! its knowledge of the announcements is outdated.

use std::collections::HashSet;
use std::time::Duration;

use segno_core::announcement::Announcement;
use segno_core::remote::{self, Object, Remote};
use segno_core::time::Timestamp;
use segno_engine::Env;
use segno_engine::remote::{Error, Inventory, TRASH, announcements, list, name_of, read, remote};
use serde::{Deserialize, Serialize};

/// How long a sweep relies on the announcements that it has read.
const MAX_AGE_OF_LIST: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub deleted: u64,
    pub bytes: u64,
    /// Objects that are marked, and wait for the end of the grace period.
    pub waiting: u64,
    /// Whether the sweep took too long, so that the next one must continue.
    pub unfinished: bool,
}

/// The content of a deletion mark.
#[derive(Serialize, Deserialize)]
struct DeletionMark {
    at: Timestamp,
}

/// Deletes objects that were marked at least `grace` ago and are still unreferenced; marks those
/// that are unreferenced now. Deletes nothing while an announcement is unreadable, because its
/// references are unknown.
pub async fn sweep(env: &Env, grace: Duration) -> Result<Swept, Error> {
    let remote = remote(env)?;
    let inventory = Inventory::read(remote).await?;
    let marks = remote.list(TRASH).await?;
    let looked = env.clock.elapsed();
    let needed = needed(env, remote).await?;
    let mut swept = Swept::default();
    let now = env.clock.now();
    for mark in &marks {
        let object = mark.name.strip_prefix("trash/").unwrap_or_default();
        let Some(length) = inventory.parts.get(object) else {
            remote.delete(&mark.name).await?;
            continue;
        };
        if needed.contains(object) {
            remote.delete(&mark.name).await?;
            continue;
        }
        if env.clock.elapsed().saturating_sub(looked) > MAX_AGE_OF_LIST {
            swept.unfinished = true;
            return Ok(swept);
        }
        if !grace_is_over(remote, mark, now, grace).await? {
            swept.waiting += 1;
            continue;
        }
        remote.delete(object).await?;
        remote.delete(&mark.name).await?;
        swept.deleted += 1;
        swept.bytes += length;
    }
    for object in unreferenced(&inventory, &needed) {
        let mark = serde_json::to_vec(&DeletionMark { at: now })
            .expect("an announcement serializes to JSON");
        remote.create(&format!("{TRASH}/{object}"), mark).await?;
        swept.waiting += 1;
    }
    Ok(swept)
}

/// All objects that announcements reference.
async fn needed(env: &Env, remote: &dyn Remote) -> Result<HashSet<String>, Error> {
    let (found, damaged) = list(env).await?;
    if let Some(error) = damaged.into_iter().next() {
        return Err(error.into());
    }
    let mut needed: HashSet<String> = found.iter().flat_map(objects).collect();
    let known: HashSet<String> = found
        .iter()
        .map(|announcement| name_of(&announcement.checkpoint))
        .collect();
    // Announcements may have been put while the others were read.
    for name in announcements(remote).await? {
        if !known.contains(&name)
            && let Some(announcement) = read(remote, &name).await?
        {
            needed.extend(objects(&announcement));
        }
    }
    Ok(needed)
}

/// The objects that are neither referenced nor marked, sorted.
fn unreferenced<'a>(inventory: &'a Inventory, needed: &HashSet<String>) -> Vec<&'a String> {
    let is_unreferenced = |object: &&String| {
        !needed.contains(object.as_str()) && !inventory.marked.contains(object.as_str())
    };
    let mut unreferenced: Vec<&String> = inventory.parts.keys().filter(is_unreferenced).collect();
    unreferenced.sort();
    unreferenced
}

fn objects(announcement: &Announcement) -> impl Iterator<Item = String> {
    announcement
        .parts
        .iter()
        .map(segno_core::snapshot::transfer::Part::object_name)
}

/// Whether a mark is older than the grace period, by the remote's clock and by its own time, and
/// still exists.
async fn grace_is_over(
    remote: &dyn Remote,
    mark: &Object,
    now: Timestamp,
    grace: Duration,
) -> Result<bool, remote::Error> {
    let old = |at: Timestamp| now.since(at) >= grace && (now >= at || grace.is_zero());
    if !old(mark.at) {
        return Ok(false);
    }
    match remote.read(&mark.name, 1024).await {
        Ok(bytes) => {
            Ok(serde_json::from_slice(&bytes).is_ok_and(|mark: DeletionMark| old(mark.at)))
        }
        Err(remote::Error::Missing { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
