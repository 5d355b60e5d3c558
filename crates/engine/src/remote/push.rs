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
use segno_core::snapshot::transfer::{Part, PartSet};
use segno_core::store::Error as StoreError;

use super::{CONCURRENT_TRANSFERS, Error, Inventory, TRASH, name_of, read};
use crate::env::Env;
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
pub async fn push(env: &Env, manifest: &Manifest, progress: &Progress) -> Result<Pushed, Error> {
    let inventory = Inventory::read(super::remote(env)?).await?;
    push_into(env, manifest, &inventory, progress).await
}

/// Pushes the checkpoints of this installation that the remote lacks, of one session or of all,
/// oldest first.
pub async fn push_all(
    env: &Env,
    session: Option<SessionId>,
    progress: &Progress,
) -> Result<Vec<Pushed>, Error> {
    let above = env
        .remote
        .as_ref()
        .map_or(0, |storage| storage.auto_push_above);
    let inventory = Inventory::read(super::remote(env)?).await?;
    let mut pushed = Vec::new();
    for kept in env.store.list_checkpoints(session).await? {
        // A damaged checkpoint cannot be pushed; `checkpoint::list` reports it.
        let Ok(manifest) = kept else { continue };
        let is_ours = manifest.origin.is_none() && manifest.pruned.is_none();
        let is_there = inventory.announcements.contains(&name_of(&manifest));
        if is_ours && !is_there && checkpoint::is_pushed(manifest.files.bytes, above) {
            pushed.push(push_into(env, &manifest, &inventory, progress).await?);
        }
    }
    Ok(pushed)
}

/// Runs after a checkpoint was created: pushes it, and those of the session that could not be
/// pushed before. Does nothing without a remote.
pub fn push_pending<'a>(
    env: &'a Env,
    session: SessionId,
    progress: &'a Progress,
) -> Boxed<'a, Result<Vec<Pushed>, Error>> {
    match env.remote {
        Some(_) => Box::pin(push_all(env, Some(session), progress)),
        None => Box::pin(std::future::ready(Ok(Vec::new()))),
    }
}

/// Deletes the announcement of a checkpoint that this installation pushed. The next sweeps delete
/// its objects.
pub(crate) async fn delete_announcement(
    env: &Env,
    manifest: &Manifest,
) -> Result<(), remote::Error> {
    match &env.remote {
        Some(storage) if manifest.origin.is_none() => {
            storage.remote.delete(&name_of(manifest)).await
        }
        _ => Ok(()),
    }
}

async fn push_into(
    env: &Env,
    manifest: &Manifest,
    inventory: &Inventory,
    progress: &Progress,
) -> Result<Pushed, Error> {
    let remote = super::remote(env)?;
    let name = name_of(manifest);
    if inventory.announcements.contains(&name)
        && let Ok(Some(announcement)) = read(remote, &name).await
        && inventory.has_all(&announcement)
    {
        return Ok(Pushed {
            manifest: announcement.checkpoint.clone(),
            parts: announcement.parts.len() as u64,
            bytes: announcement.bytes(),
            sent: 0,
            sent_bytes: 0,
        });
    }
    let (manifest, session) = attach_session(env, manifest).await?;
    let load = env
        .snapshots()?
        .collect_parts(manifest.snapshots().collect())
        .await?;
    let (sent, sent_bytes) = send(remote, &load, inventory, progress).await?;
    let announcement = Announcement {
        segno_announcement: announcement::VERSION,
        name: session,
        checkpoint: Manifest {
            origin: None,
            ..manifest.clone()
        },
        parts: load.parts.iter().map(|(part, _)| *part).collect(),
    };
    put_announcement(remote, &name, &announcement).await?;
    // A concurrent sweep sees the announcement from now on. Objects that were marked before are
    // unmarked, and objects that were deleted meanwhile are uploaded again.
    let after = Inventory::read(remote).await?;
    let (again, again_bytes) = send(remote, &load, &after, &|_, _| {}).await?;
    Ok(Pushed {
        manifest,
        parts: announcement.parts.len() as u64,
        bytes: announcement.bytes(),
        sent: sent + again,
        sent_bytes: sent_bytes + again_bytes,
    })
}

/// Adds the session to the attachments of a checkpoint, up to its position, so that a pull can
/// create it on another machine. A deleted session is not pushed.
async fn attach_session(env: &Env, manifest: &Manifest) -> Result<(Manifest, Option<Name>), Error> {
    let summary = match env.store.summary(manifest.session).await {
        Err(StoreError::NoSession(_)) => return Ok((manifest.clone(), None)),
        other => other?,
    };
    let mut all = match manifest.attachments {
        Some(attachments) => env.snapshots()?.attachments(attachments).await?,
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
    let session = export::up_to(env, &summary, until, running, |_, _| {}).await?;
    all.push((attachments::SESSION.to_owned(), session.bytes));
    let manifest = Manifest {
        attachments: Some(env.snapshots()?.put_files(all).await?),
        ..manifest.clone()
    };
    checkpoint::put_manifest(env, &manifest).await?;
    Ok((manifest, name))
}

/// Uploads the objects that the remote lacks, several at a time, and unmarks those marked for
/// deletion. Returns how many were uploaded, and their size.
async fn send(
    remote: &dyn Remote,
    load: &PartSet,
    inventory: &Inventory,
    progress: &Progress,
) -> Result<(u64, u64), remote::Error> {
    for (part, _) in &load.parts {
        let object = part.object_name();
        if inventory.marked.contains(&object) {
            remote.delete(&format!("{TRASH}/{object}")).await?;
        }
    }
    let missing = missing(load, inventory);
    let total: u64 = missing.iter().map(|(part, _)| part.bytes).sum();
    let (mut done, mut sent, mut sent_bytes) = (0, 0, 0);
    let uploads: Vec<Boxed<'_, _>> = missing
        .into_iter()
        .map(|(part, path)| upload(remote, part, path))
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
    remote: &'a dyn Remote,
    part: Part,
    path: &'a Path,
) -> Boxed<'a, Result<(Part, Put), remote::Error>> {
    Box::pin(async move { Ok((part, remote.upload(&part.object_name(), path).await?)) })
}

/// Puts an announcement. An existing one stays if it is complete; one that is unreadable, or
/// references absent objects, is replaced.
async fn put_announcement(
    remote: &dyn Remote,
    name: &str,
    announcement: &Announcement,
) -> Result<(), Error> {
    if remote.create(name, announcement.to_bytes()).await? == Put::New {
        return Ok(());
    }
    match read(remote, name).await {
        Ok(Some(found)) if Inventory::read(remote).await?.has_all(&found) => return Ok(()),
        Ok(_) | Err(Error::Remote(remote::Error::Damaged { .. })) => {}
        Err(error) => return Err(error),
    }
    remote.delete(name).await?;
    remote.create(name, announcement.to_bytes()).await?;
    Ok(())
}
