//! Pulls checkpoints from the remote, and creates their sessions if these are not here.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt};
use segno_core::announcement::Announcement;
use segno_core::checkpoint::{Manifest, attachments};
use segno_core::error::{Diagnose, Kind};
use segno_core::ports::Boxed;
use segno_core::remote::{self, Remote};
use segno_core::snapshot::Progress;
use segno_core::snapshot::transfer::{Part, PartKind};
use segno_engine::Env;
use segno_engine::remote::{CONCURRENT_TRANSFERS, list, remote};

use super::Error;
use crate::checkpoint;
use crate::import::{self, Imported, Relation};

#[derive(Debug)]
pub struct Pulled {
    /// Oldest first.
    pub checkpoints: Vec<Manifest>,
    /// How many of the checkpoints are new here.
    pub new: u64,
    /// How many objects were downloaded.
    pub fetched: u64,
    pub fetched_bytes: u64,
    pub sessions: Vec<PulledSession>,
}

/// What happened to the session of a pulled checkpoint.
#[derive(Debug)]
pub enum PulledSession {
    Created(Imported),
    /// The session exists, and is not changed.
    Existing {
        /// The newest checkpoint that was pulled.
        checkpoint: Manifest,
        /// How the local session relates to the pulled one.
        relation: Relation,
    },
    /// The remote does not have the session.
    Absent(Manifest),
}

/// Pulls one checkpoint, all checkpoints of a session, or all. A checkpoint is stored here after
/// everything that it references (P4).
pub async fn pull(
    env: &Env,
    reference: Option<&str>,
    progress: &Progress,
) -> Result<Pulled, Error> {
    let remote = remote(env)?;
    let (announcements, damaged) = list(env).await?;
    let announcements = match reference {
        None => match damaged.into_iter().next() {
            Some(error) => return Err(error.into()),
            None => announcements,
        },
        Some(reference) => {
            let wanted = select(announcements, reference);
            if wanted.is_empty() {
                return Err(match damaged.into_iter().next() {
                    // A damaged announcement may be the referenced one.
                    Some(error) => error.into(),
                    None => Error::NotInRemote {
                        place: remote.url().to_owned(),
                        reference: reference.to_owned(),
                    },
                });
            }
            wanted
        }
    };
    let parts: BTreeSet<Part> = announcements
        .iter()
        .flat_map(|announcement| announcement.parts.clone())
        .collect();
    let parts = ordered(&announcements, &parts);
    let (fetched, fetched_bytes) = fetch(env, remote, parts, progress).await?;
    let sessions = sessions(env, &announcements).await?;
    let new = put_manifests(env, remote, &announcements).await?;
    Ok(Pulled {
        checkpoints: announcements
            .into_iter()
            .map(|announcement| announcement.checkpoint)
            .collect(),
        new,
        fetched,
        fetched_bytes,
        sessions,
    })
}

/// The announcements that a reference names: that of a checkpoint, or those of a session by id or
/// name.
fn select(announcements: Vec<Announcement>, reference: &str) -> Vec<Announcement> {
    let wanted = reference.to_ascii_uppercase();
    let is = |id: String| wanted.len() >= 4 && (id.ends_with(&wanted) || id.starts_with(&wanted));
    let one: Vec<&Announcement> = announcements
        .iter()
        .filter(|announcement| is(announcement.checkpoint.id.to_string()))
        .collect();
    if let [one] = one[..] {
        return vec![one.clone()];
    }
    let of_session = |announcement: &Announcement| {
        let named = announcement
            .name
            .as_ref()
            .is_some_and(|name| name.as_str() == reference);
        named || is(announcement.checkpoint.session.to_string())
    };
    announcements.into_iter().filter(of_session).collect()
}

/// Every object once, in the order in which they can be stored.
pub(crate) fn ordered(announcements: &[Announcement], parts: &BTreeSet<Part>) -> Vec<Part> {
    let mut left = parts.clone();
    let all = announcements
        .iter()
        .flat_map(|announcement| &announcement.parts);
    all.filter(|part| left.remove(part)).copied().collect()
}

/// Downloads the missing objects, several at a time; manifests one after the other, because they
/// build on each other.
pub(crate) async fn fetch(
    env: &Env,
    remote: &dyn Remote,
    parts: Vec<Part>,
    progress: &Progress,
) -> Result<(u64, u64), Error> {
    let missing = env.snapshots()?.missing_parts(parts).await?;
    let total: u64 = missing.iter().map(|part| part.bytes).sum();
    let count = missing.len() as u64;
    let (manifests, packs): (Vec<Part>, Vec<Part>) = missing
        .into_iter()
        .partition(|part| part.kind == PartKind::Manifest);
    let mut done = 0;
    for part in manifests {
        done += download(env, remote, part).await?;
        progress(done, total);
    }
    let packs: Vec<Boxed<'_, _>> = packs
        .into_iter()
        .map(|part| boxed(env, remote, part))
        .collect();
    let mut packs = futures_util::stream::iter(packs).buffer_unordered(CONCURRENT_TRANSFERS);
    while let Some(bytes) = packs.try_next().await? {
        done += bytes;
        progress(done, total);
    }
    Ok((count, total))
}

fn boxed<'a>(env: &'a Env, remote: &'a dyn Remote, part: Part) -> Boxed<'a, Result<u64, Error>> {
    Box::pin(download(env, remote, part))
}

/// Downloads an object and stores it. Retries once if the object is damaged, because that may be a
/// transfer error. Returns its size.
async fn download(env: &Env, remote: &dyn Remote, part: Part) -> Result<u64, Error> {
    let object = part.object_name();
    let mut is_second = false;
    loop {
        let draft = env.snapshots()?.new_draft().await?;
        remote.download(&object, part.bytes, &draft.path).await?;
        match env.snapshots()?.import_part(part, draft).await {
            Err(error) if error.kind() == Kind::FailedVerification && !is_second => {
                is_second = true;
            }
            Err(error) if error.kind() == Kind::FailedVerification => {
                let damaged = remote::Error::Damaged {
                    place: remote.url().to_owned(),
                    object,
                    reason: error.message,
                };
                return Err(damaged.into());
            }
            other => return Ok(other.map(|()| part.bytes)?),
        }
    }
}

/// Creates the sessions that are not here, each from its newest checkpoint.
async fn sessions(env: &Env, announcements: &[Announcement]) -> Result<Vec<PulledSession>, Error> {
    let mut newest: Vec<&Manifest> = Vec::new();
    for announcement in announcements {
        let manifest = &announcement.checkpoint;
        newest.retain(|other| {
            other.session != manifest.session || other.journal.seq > manifest.journal.seq
        });
        if newest.iter().all(|other| other.session != manifest.session) {
            newest.push(manifest);
        }
    }
    let mut arrivals = Vec::new();
    for manifest in newest {
        env.snapshots()?
            .register_snapshots(manifest.snapshots().collect())
            .await?;
        arrivals.push(arrive(env, manifest).await?);
    }
    Ok(arrivals)
}

async fn arrive(env: &Env, manifest: &Manifest) -> Result<PulledSession, Error> {
    let Some(digest) = manifest.attachments else {
        return Ok(PulledSession::Absent(manifest.clone()));
    };
    let attachments = env.snapshots()?.attachments(digest).await?;
    let session = attachments
        .into_iter()
        .find(|(name, _)| name == attachments::SESSION);
    let Some((_, bytes)) = session else {
        return Ok(PulledSession::Absent(manifest.clone()));
    };
    let bundle = import::read(
        &format!("the session of checkpoint {}", manifest.id),
        &bytes,
    )?;
    match import::import(env, bundle, None, |_, _| {}).await {
        Ok(imported) => Ok(PulledSession::Created(imported)),
        Err(import::Error::SessionExists { relation, .. }) => Ok(PulledSession::Existing {
            checkpoint: manifest.clone(),
            relation,
        }),
        Err(error) => Err(error.into()),
    }
}

/// Stores the manifests of checkpoints whose files are all here. Existing manifests are not
/// changed.
async fn put_manifests(
    env: &Env,
    remote: &dyn Remote,
    announcements: &[Announcement],
) -> Result<u64, Error> {
    let (kept, _) = checkpoint::list(env, None).await?;
    let existing: BTreeSet<_> = kept.iter().map(|manifest| manifest.id).collect();
    let mut new = 0;
    for announcement in announcements {
        let manifest = &announcement.checkpoint;
        env.snapshots()?
            .register_snapshots(manifest.snapshots().collect())
            .await?;
        if !existing.contains(&manifest.id) {
            let origin = Some(remote.url().to_owned());
            checkpoint::put_manifest(
                env,
                &Manifest {
                    origin,
                    verified: Some(env.clock.now()),
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
