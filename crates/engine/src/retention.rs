//! Which checkpoints stay: letting go of the others, having them back, and freeing their room.
//!
//! A checkpoint that is let go of is only marked: until it is erased it can be had back, and the
//! files that it names stay. Files that no checkpoint names are swept late, so that nobody's hands
//! are under them (P8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Event, Seq};
use segno_core::session::{Kind, Summary};
use segno_core::snapshot::Swept;
use segno_core::time::Timestamp;

use crate::checkpoint::{keep, list};
use crate::error::Error;
use crate::history;
use crate::remote;
use crate::world::World;

/// How long it may take from a snapshot to the checkpoint that names it.
const MOMENT: Duration = Duration::from_mins(10);

/// How many checkpoints are kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Of each session.
    pub count: usize,
    /// For how long.
    pub age: Duration,
    /// How long one that was let go of can be had back.
    pub undo: Duration,
    /// How many bytes all of them may take before the person is told.
    pub room: u64,
}

impl Default for Retention {
    fn default() -> Self {
        let week = Duration::from_hours(7 * 24);
        Self {
            count: 10,
            age: week,
            undo: week,
            room: 10_000_000_000,
        }
    }
}

/// The checkpoints that retention lets go, and how many there are: of each session the oldest beyond
/// its number, and those that are too old. The newest stays, and so does how it ended and how it went
/// wrong, for as long as the session is here or in the trash.
pub async fn outdated(
    world: &World,
    session: Option<&Summary>,
    retention: Retention,
) -> Result<(Vec<Manifest>, usize), Error> {
    let (all, _) = list(world, session).await?;
    let mut here: BTreeSet<SessionId> = BTreeSet::new();
    for found in world.store.list().await? {
        // Whose it is that cannot be read is not known: then all may be.
        here.insert(found?.id);
    }
    for found in world.store.discarded().await? {
        here.insert(found?.session);
    }
    let goes = beyond(&all, &here, retention, world.clock.now());
    Ok((goes, all.len()))
}

fn beyond(
    all: &[Manifest],
    here: &BTreeSet<SessionId>,
    retention: Retention,
    now: Timestamp,
) -> Vec<Manifest> {
    let mut by_session: BTreeMap<_, Vec<&Manifest>> = BTreeMap::new();
    for manifest in all {
        by_session
            .entry(manifest.session)
            .or_default()
            .push(manifest);
    }
    let mut beyond = Vec::new();
    for (session, kept) in by_session {
        let needed = here.contains(&session);
        let newest_first = kept.into_iter().rev().enumerate();
        let goes = newest_first.filter(|(place, manifest)| {
            let old = *place >= retention.count || now.since(manifest.at) > retention.age;
            let stays = needed && (*place == 0 || manifest.trigger.is_kept());
            old && !stays
        });
        beyond.extend(goes.map(|(_, manifest)| manifest.clone()));
    }
    beyond
}

/// Lets go of checkpoints. They can be had back for a while.
pub async fn prune(world: &World, manifests: &[Manifest]) -> Result<(), Error> {
    let pruned = Some(world.clock.now());
    for manifest in manifests {
        let manifest = Manifest {
            pruned,
            ..manifest.clone()
        };
        keep(world, &manifest).await?;
    }
    Ok(())
}

/// The checkpoints that were let go of and can be had back, oldest first.
pub async fn pruned(world: &World) -> Result<Vec<Manifest>, Error> {
    let all = world.store.kept(None).await?;
    // What is wrong with those that cannot be read is told where checkpoints are listed.
    let readable = all.into_iter().filter_map(Result::ok);
    Ok(readable
        .filter(|manifest| manifest.pruned.is_some())
        .collect())
}

/// Has checkpoints back that were let go of.
pub async fn undo(world: &World, manifests: &[Manifest]) -> Result<(), Error> {
    for manifest in manifests {
        let manifest = Manifest {
            pruned: None,
            ..manifest.clone()
        };
        keep(world, &manifest).await?;
    }
    Ok(())
}

/// The checkpoints that were let go of so long ago that a sweep erases them.
pub async fn erasable(world: &World) -> Result<Vec<Manifest>, Error> {
    let now = world.clock.now();
    let mut pruned = pruned(world).await?;
    pruned.retain(|manifest| {
        let since = manifest.pruned.unwrap_or(now);
        now.since(since) > world.retention.undo
    });
    Ok(pruned)
}

/// Erases the checkpoints that were let go of long ago, and removes the files of snapshots that no
/// checkpoint names. What became needless lately stays for `grace`: someone may be about to name it
/// (P8).
pub async fn sweep(world: &World, grace: Duration) -> Result<Swept, Error> {
    let now = world.clock.now();
    for manifest in erasable(world).await? {
        // There first: one that could not be withdrawn is still here, and goes the next time.
        remote::withdraw(world, &manifest).await?;
        world.store.forget(manifest.session, manifest.id).await?;
    }
    // A snapshot is named a moment after it is taken, and that moment is left to whoever takes one.
    let before = now.before(grace.max(MOMENT));
    // What a damaged checkpoint names is not known, so nothing can be let go.
    let kept: Result<Vec<Manifest>, _> = world.store.kept(None).await?.into_iter().collect();
    let kept = kept?;
    let mut named: Vec<Digest> = kept.iter().flat_map(Manifest::snapshots).collect();
    named.extend(adopted(world).await?);
    Ok(world.snapshots.sweep(named, before, grace).await?)
}

/// The copies of transcripts that sessions were made of, those in the trash included. A session that
/// cannot be read may have one that nobody knows of, so then nothing can be let go.
async fn adopted(world: &World) -> Result<Vec<Digest>, Error> {
    let mut sessions = Vec::new();
    for found in world.store.list().await? {
        let summary = found?;
        if summary.kind == Kind::Agent {
            sessions.push(summary.id);
        }
    }
    for found in world.store.discarded().await? {
        sessions.push(found?.session);
    }
    let mut papers = copied(world).await?;
    for session in sessions {
        let state = history::look(world, session).await?;
        papers.extend(state.adopted.map(|adopted| adopted.papers));
        papers.extend(state.forked.and_then(|forked| forked.papers));
    }
    Ok(papers)
}

/// The records of conversations that copies of sessions go on with. Which these are stands in their third
/// entry.
async fn copied(world: &World) -> Result<Vec<Digest>, Error> {
    let third = Seq(3);
    let mut papers = Vec::new();
    for summary in world.store.list().await? {
        let summary = summary?;
        if summary.head.seq < third {
            continue;
        }
        if let Event::SessionForked(forked) = world.store.entry(summary.id, third).await?.event {
            papers.extend(forked.papers);
        }
    }
    Ok(papers)
}

/// What all checkpoints take on the disk, if that is more than they may.
pub async fn excess(world: &World) -> Result<Option<u64>, Error> {
    let room = world.snapshots.room().await?;
    Ok((room > world.retention.room).then_some(room))
}

#[cfg(test)]
mod tests {
    use segno_core::checkpoint::Trigger;
    use segno_core::id::CheckpointId;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn taken(session: u8, hour: i64, trigger: Trigger) -> Manifest {
        let at = Timestamp(1_794_738_089_000 + hour * HOUR);
        let session = SessionId::new(Timestamp(0), [session; 10]);
        Manifest {
            trigger,
            ..segno_testkit::journal::checkpoint(session, at)
        }
    }

    #[test]
    fn old_ones_go_and_the_newest_the_last_and_the_failed_stay() {
        let all = [
            taken(1, 0, Trigger::Error),
            taken(1, 1, Trigger::Manual),
            taken(1, 2, Trigger::TaskComplete),
            taken(1, 3, Trigger::Manual),
            taken(2, 0, Trigger::Manual),
        ];
        let now = Timestamp(1_794_738_089_000 + 10 * HOUR);
        let here: BTreeSet<SessionId> = all.iter().map(|manifest| manifest.session).collect();
        let goes = |here: &BTreeSet<SessionId>, count, hours: u64| -> Vec<CheckpointId> {
            let retention = Retention {
                count,
                age: Duration::from_hours(hours),
                ..Retention::default()
            };
            let mut goes: Vec<_> = beyond(&all, here, retention, now)
                .iter()
                .map(|manifest| manifest.id)
                .collect();
            goes.sort();
            goes
        };
        assert!(goes(&here, 10, 100).is_empty());
        assert_eq!(goes(&here, 2, 100), [all[1].id]);
        assert_eq!(goes(&here, 10, 8), [all[1].id]);
        // The newest of each session stays, however old.
        assert_eq!(goes(&here, 0, 0), [all[1].id, all[2].id]);
        // Of a session that is gone, nothing stays for ever.
        assert_eq!(goes(&BTreeSet::new(), 10, 8).len(), 3);
    }
}
