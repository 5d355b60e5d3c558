//! Repairs the snapshot store: from what it still has, and from the remote.
//!
//! Nothing is deleted but caches. A damaged file is moved away only if the remote has it, and the
//! part that takes its place is verified before it is used. An interrupted repair is repeated.

use std::collections::{BTreeMap, BTreeSet};

use segno_core::announcement::Announcement;
use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::id::CheckpointId;
use segno_core::snapshot::transfer::{Part, PartKind};
use segno_core::snapshot::{Damage, Depth, Progress, Snapshots};
use segno_engine::Env;
use segno_engine::remote as engine_remote;

use super::Error;
use super::snapshots::readable_checkpoints;
use crate::remote::{fetch, ordered};

/// Something that was repaired, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Damaged files were moved away, because the remote has them.
    Quarantined { objects: Vec<String> },
    /// Missing files were fetched from the remote.
    Fetched { parts: u64, bytes: u64 },
    /// The snapshot of a checkpoint is complete and was listed again.
    Listed { checkpoint: CheckpointId },
    /// The indexes of captured folders were removed; the next capture rebuilds them.
    CachesRemoved { count: u64 },
}

/// How often the store is examined: a manifest that was fetched shows what else is damaged.
const ROUNDS: usize = 3;

/// Repairs what can be repaired. Reads all content first. A dry run changes nothing.
pub async fn repair(env: &Env, dry_run: bool, progress: &Progress) -> Result<Vec<Repair>, Error> {
    let mut repairs = Vec::new();
    let Some(snapshots) = &env.snapshots else {
        return Ok(repairs);
    };
    let rounds = if dry_run { 1 } else { ROUNDS };
    for _ in 0..rounds {
        let before = repairs.len();
        repair_once(env, &**snapshots, dry_run, progress, &mut repairs).await?;
        if repairs.len() == before {
            break;
        }
    }
    if !dry_run {
        let count = snapshots.remove_caches().await?;
        repairs.extend((count > 0).then_some(Repair::CachesRemoved { count }));
    }
    Ok(repairs)
}

async fn repair_once(
    env: &Env,
    snapshots: &dyn Snapshots,
    dry_run: bool,
    progress: &Progress,
    repairs: &mut Vec<Repair>,
) -> Result<(), Error> {
    let checkpoints = readable_checkpoints(env).await?;
    let needed: BTreeSet<Digest> = checkpoints.iter().flat_map(Manifest::snapshots).collect();
    let needed = needed.into_iter().collect();
    let examined = snapshots.examine(needed, Depth::Content, progress).await?;
    let (unlisted, damage): (Vec<Damage>, Vec<Damage>) = examined
        .damage
        .into_iter()
        .partition(|damage| damage.is_unlisted);
    let (unlisted, lost) = (affected(&unlisted), affected(&damage));
    let has = |manifest: &Manifest, of: &BTreeSet<Digest>| {
        manifest.snapshots().any(|name| of.contains(&name))
    };
    let is_broken = |manifest: &&Manifest| has(manifest, &unlisted) || has(manifest, &lost);
    let broken: Vec<&Manifest> = checkpoints.iter().filter(is_broken).collect();
    if env.remote.is_some() && !lost.is_empty() {
        let (announced, _) = engine_remote::list(env).await?;
        let announced = announcements_of(announced, &broken);
        refetch(
            env, snapshots, &announced, &damage, dry_run, progress, repairs,
        )
        .await?;
    }
    for manifest in broken {
        let is_listed = if dry_run {
            !has(manifest, &lost)
        } else {
            // Also admits fetched packs that need each other.
            let names = manifest.snapshots().collect();
            snapshots.register_snapshots(names).await.is_ok()
        };
        if is_listed && has(manifest, &unlisted) {
            let checkpoint = manifest.id;
            repairs.push(Repair::Listed { checkpoint });
        }
    }
    Ok(())
}

/// The snapshots that damage affects.
fn affected(damage: &[Damage]) -> BTreeSet<Digest> {
    let snapshots = damage.iter().flat_map(|damage| &damage.snapshots);
    snapshots.copied().collect()
}

/// The announcements of these checkpoints.
fn announcements_of(announced: Vec<Announcement>, of: &[&Manifest]) -> Vec<Announcement> {
    let wanted: BTreeSet<CheckpointId> = of.iter().map(|manifest| manifest.id).collect();
    let is_wanted = |announcement: &Announcement| wanted.contains(&announcement.checkpoint.id);
    announced.into_iter().filter(is_wanted).collect()
}

/// Moves damaged parts away that the remote has, and fetches what is missing.
async fn refetch(
    env: &Env,
    snapshots: &dyn Snapshots,
    announced: &[Announcement],
    damage: &[Damage],
    dry_run: bool,
    progress: &Progress,
    repairs: &mut Vec<Repair>,
) -> Result<(), Error> {
    let parts: BTreeSet<Part> = announced
        .iter()
        .flat_map(|announcement| announcement.parts.clone())
        .collect();
    let in_remote: BTreeMap<(PartKind, Digest), Part> = parts
        .iter()
        .map(|part| ((part.kind, part.name), *part))
        .collect();
    let damaged: BTreeMap<(PartKind, Digest), String> = damage
        .iter()
        .filter_map(|damage| {
            let part = damage.part.filter(|part| in_remote.contains_key(part))?;
            Some((part, in_remote[&part].to_string()))
        })
        .collect();
    if !damaged.is_empty() {
        if !dry_run {
            snapshots
                .quarantine(damaged.keys().copied().collect())
                .await?;
        }
        repairs.push(Repair::Quarantined {
            objects: damaged.values().cloned().collect(),
        });
    }
    let wanted = ordered(announced, &parts);
    let (parts, bytes) = if dry_run {
        let missing = snapshots.missing_parts(wanted.clone()).await?;
        let is_damaged = |part: &&Part| damaged.contains_key(&(part.kind, part.name));
        let mut fetched: BTreeSet<Part> = missing.into_iter().collect();
        fetched.extend(wanted.iter().filter(is_damaged));
        let bytes = fetched.iter().map(|part| part.bytes).sum();
        (fetched.len() as u64, bytes)
    } else {
        fetch(env, engine_remote::remote(env)?, wanted, progress).await?
    };
    repairs.extend((parts > 0).then_some(Repair::Fetched { parts, bytes }));
    Ok(())
}
