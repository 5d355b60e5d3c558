//! Retention: prunes checkpoints, restores pruned ones, and deletes unreferenced snapshot data.
//!
//! Pruning only marks a checkpoint: until it is deleted it can be restored, and its files stay.
//! Snapshot data that no checkpoint references is deleted after a grace period, so that a
//! concurrent capture never loses data (P8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis};
use segno_core::id::SessionId;
use segno_core::journal::{Event, Seq};
use segno_core::session::Kind;
use segno_core::snapshot::{self, Swept};
use segno_core::store::{Error as StoreError, Filter, Summary};
use segno_core::time::Timestamp;

use crate::checkpoint::{list, put_manifest};
use crate::env::{Env, Retention};
use crate::{history, remote};

/// The longest time from the end of a capture to the manifest that references its snapshot.
const LONGEST_TO_MANIFEST: Duration = Duration::from_mins(10);

/// Why unreferenced data cannot be deleted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// A checkpoint cannot be deleted from the remote.
    #[error(transparent)]
    Remote(#[from] segno_core::remote::Error),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::Remote(error) => error.diagnosis(),
        }
    }
}

/// The checkpoints that retention prunes, and the number of all checkpoints. Per session these are
/// the ones above the limit, and the ones that are too old. While the session exists, also in the
/// trash, its newest checkpoint stays, and so do those of its end and of its failures, which do not
/// count towards the limit.
pub async fn outdated(
    env: &Env,
    session: Option<&Summary>,
    retention: Retention,
) -> Result<(Vec<Manifest>, usize), StoreError> {
    let (all, _) = list(env, session).await?;
    let mut existing: BTreeSet<SessionId> = BTreeSet::new();
    for found in env.store.list(Filter::default()).await? {
        // An unreadable session may own any checkpoint, so the error ends the command.
        existing.insert(found?.id);
    }
    for found in env.store.list_trash().await? {
        existing.insert(found?.session);
    }
    let selected = select_outdated(&all, &existing, retention, env.clock.now());
    Ok((selected, all.len()))
}

fn select_outdated(
    all: &[Manifest],
    existing: &BTreeSet<SessionId>,
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
    let mut select_outdated = Vec::new();
    for (session, kept) in by_session {
        let needed = existing.contains(&session);
        let is_protected = |manifest: &Manifest| needed && manifest.trigger.is_protected();
        let newest = kept.last().map(|manifest| manifest.id).filter(|_| needed);
        let newest_first = kept.into_iter().rev();
        // Protected checkpoints stay, and do not count.
        let counted = newest_first.filter(|manifest| !is_protected(manifest));
        let selected = counted.enumerate().filter(|(place, manifest)| {
            let old = *place >= retention.count || now.since(manifest.at) > retention.age;
            old && newest != Some(manifest.id)
        });
        select_outdated.extend(selected.map(|(_, manifest)| manifest.clone()));
    }
    select_outdated
}

/// Prunes what retention no longer keeps of a session. Returns whether that was anything.
pub async fn enforce(env: &Env, summary: &Summary) -> Result<bool, StoreError> {
    let (outdated, _) = outdated(env, Some(summary), env.retention).await?;
    prune(env, &outdated).await?;
    Ok(!outdated.is_empty())
}

/// Marks checkpoints as pruned. They can be restored until they are deleted.
pub async fn prune(env: &Env, manifests: &[Manifest]) -> Result<(), StoreError> {
    let pruned = Some(env.clock.now());
    for manifest in manifests {
        let manifest = Manifest {
            pruned,
            ..manifest.clone()
        };
        put_manifest(env, &manifest).await?;
    }
    Ok(())
}

/// The checkpoints that are pruned and not yet deleted, oldest first.
pub async fn pruned(env: &Env) -> Result<Vec<Manifest>, StoreError> {
    let all = env.store.list_checkpoints(None).await?;
    // `checkpoint::list` reports unreadable manifests; here they are skipped.
    let readable = all.into_iter().filter_map(Result::ok);
    Ok(readable
        .filter(|manifest| manifest.pruned.is_some())
        .collect())
}

/// Restores pruned checkpoints.
pub async fn restore(env: &Env, manifests: &[Manifest]) -> Result<(), StoreError> {
    for manifest in manifests {
        let manifest = Manifest {
            pruned: None,
            ..manifest.clone()
        };
        put_manifest(env, &manifest).await?;
    }
    Ok(())
}

/// The checkpoints that were pruned so long ago that [`sweep`] deletes them.
pub async fn deletable(env: &Env) -> Result<Vec<Manifest>, StoreError> {
    let now = env.clock.now();
    let mut pruned = pruned(env).await?;
    pruned.retain(|manifest| {
        let since = manifest.pruned.unwrap_or(now);
        now.since(since) > env.retention.restore_within
    });
    Ok(pruned)
}

/// What a sweep deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sweep {
    pub swept: Swept,
    /// How many checkpoints cannot be read. While there are any, all snapshots stay.
    pub unreadable: u64,
}

/// Deletes checkpoints that were pruned long ago, and snapshot data that no checkpoint references.
/// Recently written data stays for `grace`, because a capture may be about to reference it (P8).
pub async fn sweep(env: &Env, grace: Duration) -> Result<Sweep, Error> {
    let now = env.clock.now();
    for manifest in deletable(env).await? {
        // The remote first: if the deletion there fails, the checkpoint is still here, and the next
        // sweep retries.
        remote::delete_announcement(env, &manifest).await?;
        env.store
            .delete_checkpoint(manifest.session, manifest.id)
            .await?;
    }
    // A capture writes its manifest shortly after its snapshot, so recent snapshots stay.
    let before = now.before(grace.max(LONGEST_TO_MANIFEST));
    let all = env.store.list_checkpoints(None).await?;
    let count = all.len();
    let kept: Vec<Manifest> = all.into_iter().filter_map(Result::ok).collect();
    let unreadable = (count - kept.len()) as u64;
    let mut named: Vec<Digest> = kept.iter().flat_map(Manifest::snapshots).collect();
    named.extend(adopted_transcripts(env).await?);
    // It is unknown what an unreadable checkpoint references.
    let named = (unreadable == 0).then_some(named);
    let swept = env.snapshots()?.sweep(named, before, grace).await?;
    Ok(Sweep { swept, unreadable })
}

/// The transcript copies that sessions were adopted from, including sessions in the trash. An
/// unreadable session may reference a copy, so its error ends the sweep.
async fn adopted_transcripts(env: &Env) -> Result<Vec<Digest>, history::Error> {
    let mut sessions = Vec::new();
    for found in env.store.list(Filter::default()).await? {
        let summary = found?;
        if summary.kind == Kind::Agent {
            sessions.push(summary.id);
        }
    }
    for found in env.store.list_trash().await? {
        sessions.push(found?.session);
    }
    let mut attachments = forked_transcripts(env).await?;
    for session in sessions {
        let state = history::load_state(env, session).await?;
        attachments.extend(state.imported.map(|adopted| adopted.attachments));
        attachments.extend(state.forked.and_then(|forked| forked.attachments));
    }
    Ok(attachments)
}

/// The transcript copies that forks continue with. A fork names its copy in the third event of its
/// journal.
async fn forked_transcripts(env: &Env) -> Result<Vec<Digest>, StoreError> {
    let third = Seq(3);
    let mut attachments = Vec::new();
    for summary in env.store.list(Filter::default()).await? {
        let summary = summary?;
        if summary.head.seq < third {
            continue;
        }
        if let Event::SessionForked(forked) = env.store.event(summary.id, third).await?.event {
            attachments.extend(forked.attachments);
        }
    }
    Ok(attachments)
}

/// The disk space of all checkpoints, if it is above the limit.
pub(crate) async fn bytes_over_limit(env: &Env) -> Result<Option<u64>, snapshot::Error> {
    let room = env.snapshots()?.total_size().await?;
    Ok((room > env.retention.max_bytes).then_some(room))
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
    fn final_and_failed_checkpoints_do_not_count() {
        let all = [
            taken(1, 0, Trigger::Manual),
            taken(1, 1, Trigger::Pause),
            taken(1, 2, Trigger::Error),
            taken(1, 3, Trigger::Complete),
        ];
        let existing = BTreeSet::from([all[0].session]);
        let now = Timestamp(1_794_738_089_000 + 4 * HOUR);
        let selected = |count| -> Vec<CheckpointId> {
            let retention = Retention {
                count,
                ..Retention::default()
            };
            let selected = select_outdated(&all, &existing, retention, now);
            selected.iter().map(|manifest| manifest.id).collect()
        };
        assert_eq!(selected(2), []);
        assert_eq!(selected(1), [all[0].id]);
        assert_eq!(selected(0), [all[1].id, all[0].id]);
    }

    #[test]
    fn prune_keeps_newest_final_and_failed_checkpoints() {
        let all = [
            taken(1, 0, Trigger::Error),
            taken(1, 1, Trigger::Manual),
            taken(1, 2, Trigger::TaskComplete),
            taken(1, 3, Trigger::Manual),
            taken(2, 0, Trigger::Manual),
        ];
        let now = Timestamp(1_794_738_089_000 + 10 * HOUR);
        let existing: BTreeSet<SessionId> = all.iter().map(|manifest| manifest.session).collect();
        let selected = |existing: &BTreeSet<SessionId>, count, hours: u64| -> Vec<CheckpointId> {
            let retention = Retention {
                count,
                age: Duration::from_hours(hours),
                ..Retention::default()
            };
            let mut selected: Vec<_> = select_outdated(&all, existing, retention, now)
                .iter()
                .map(|manifest| manifest.id)
                .collect();
            selected.sort();
            selected
        };
        assert!(selected(&existing, 10, 100).is_empty());
        assert!(selected(&existing, 3, 100).is_empty());
        assert_eq!(selected(&existing, 2, 100), [all[1].id]);
        assert_eq!(selected(&existing, 10, 8), [all[1].id]);
        // The newest checkpoint of each session stays, however old it is.
        assert_eq!(selected(&existing, 0, 0), [all[1].id, all[2].id]);
        // The checkpoints of a deleted session expire like all others.
        assert_eq!(selected(&BTreeSet::new(), 10, 8).len(), 3);
    }
}
