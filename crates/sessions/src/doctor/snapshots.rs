//! Examines the files of checkpoints and the stored transcripts.

use std::collections::BTreeMap;

use segno_core::checkpoint::{Manifest, Position};
use segno_core::digest::Digest;
use segno_core::error::join_shown;
use segno_core::id::{CheckpointId, SessionId};
use segno_core::snapshot::{Damage, Depth, Progress};
use segno_core::state::State;
use segno_core::store::{Error as StoreError, Finding, Severity};
use segno_engine::Env;

use super::{Error, Report};

/// The snapshots with transcripts that a session was adopted from or forked with.
pub(super) fn transcripts(state: &State) -> Vec<Digest> {
    let adopted = state.imported.as_ref().map(|adopted| adopted.attachments);
    let forked = state.forked.as_ref().and_then(|forked| forked.attachments);
    adopted.into_iter().chain(forked).collect()
}

/// The checkpoints that can be read.
pub(super) async fn readable_checkpoints(env: &Env) -> Result<Vec<Manifest>, StoreError> {
    let all = env.store.list_checkpoints(None).await?;
    // The examination of the store reports the others.
    Ok(all.into_iter().filter_map(Result::ok).collect())
}

/// Where the checkpoints that were taken here are in the journals of their sessions. Those from
/// elsewhere may belong to another history of a session that continues in both places.
pub(super) async fn positions(
    env: &Env,
) -> Result<BTreeMap<SessionId, Vec<(CheckpointId, Position)>>, StoreError> {
    let mut positions: BTreeMap<SessionId, Vec<_>> = BTreeMap::new();
    for manifest in readable_checkpoints(env).await? {
        if manifest.origin.is_none() {
            let of_session = positions.entry(manifest.session).or_default();
            of_session.push((manifest.id, manifest.journal));
        }
    }
    Ok(positions)
}

/// Examines the snapshots of all checkpoints, and those in `transcripts`.
pub(super) async fn examine(
    env: &Env,
    transcripts: Vec<Digest>,
    depth: Depth,
    report: &mut Report,
    progress: &Progress,
) -> Result<(), Error> {
    let Some(snapshots) = &env.snapshots else {
        return Ok(());
    };
    let checkpoints = readable_checkpoints(env).await?;
    report.checkpoints = checkpoints.len() as u64;
    let mut users: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    for manifest in &checkpoints {
        for snapshot in manifest.snapshots() {
            let user = format!("checkpoint {}", manifest.id);
            users.entry(snapshot).or_default().push(user);
        }
    }
    for snapshot in transcripts {
        users
            .entry(snapshot)
            .or_default()
            .push("the transcript of a session".to_owned());
    }
    let needed = users.keys().copied().collect();
    let examined = match snapshots.examine(needed, depth, progress).await {
        Ok(examined) => examined,
        Err(error) => {
            // Without checkpoints, there may be no snapshot store yet, and no space to create it.
            let severity = if users.is_empty() {
                Severity::Notice
            } else {
                Severity::Damage
            };
            report.findings.push(Finding {
                session: None,
                object: "the snapshot store".to_owned(),
                problem: format!("was not examined: {error}"),
                severity,
            });
            return Ok(());
        }
    };
    report.packs = examined.packs;
    report.pack_bytes = examined.bytes;
    let is_lost = |damage: &Damage| !damage.snapshots.is_empty();
    let something_is_lost = examined.damage.iter().any(is_lost);
    for damage in &examined.damage {
        report
            .findings
            .push(finding(damage, &users, something_is_lost));
    }
    Ok(())
}

fn finding(
    damage: &Damage,
    users: &BTreeMap<Digest, Vec<String>>,
    something_is_lost: bool,
) -> Finding {
    let mut needed_by: Vec<&str> = damage
        .snapshots
        .iter()
        .flat_map(|snapshot| users.get(snapshot).into_iter().flatten())
        .map(String::as_str)
        .collect();
    needed_by.sort_unstable();
    needed_by.dedup();
    let reason = &damage.reason;
    let (problem, severity) = match (needed_by.is_empty(), something_is_lost) {
        (false, _) => {
            let needed_by = join_shown(needed_by);
            (format!("{reason}; needed by {needed_by}"), Severity::Damage)
        }
        // It may have what is missing elsewhere.
        (true, true) => (reason.clone(), Severity::Damage),
        (true, false) => (
            format!("{reason}; no checkpoint needs it"),
            Severity::Notice,
        ),
    };
    Finding {
        session: None,
        object: damage.object.clone(),
        problem,
        severity,
    }
}
