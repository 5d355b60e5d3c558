//! Verifies, restores and compares checkpoints.

mod calls;
mod content;
pub mod notes_diff;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use segno_core::checkpoint::{Manifest, Position, Trigger};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::fault::{Point, point};
use segno_core::id::{CheckpointId, Name, SessionId};
use segno_core::journal::Seq;
use segno_core::snapshot::{
    self, Change, FolderUse, Progress, Restore, Restored, Rules, Size, StoredFile,
};
use segno_core::store::Error as StoreError;
use segno_core::usage::Usage;
use segno_engine::workspace::{NotUtf8, canonical, path_text};
use segno_engine::{Env, history, lease};

use crate::relocate;

pub use calls::Calls;
pub use content::{Content, Overview, overviews};
pub use segno_engine::checkpoint::{
    NewCheckpoint, create, create_before_expiry, create_with_id, environment, file_counts, find,
    list, new_id, put_manifest, rules_of, size_hints,
};

/// Why a checkpoint cannot be restored or compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
    /// The checkpoint was imported or pulled. Its recorded workspace is not trusted as the restore
    /// target.
    #[error("checkpoint {checkpoint} comes from {origin}; choose the folder to restore it into")]
    UntrustedTarget {
        checkpoint: CheckpointId,
        origin: String,
        /// The folder that the checkpoint records.
        workspace: String,
    },
    #[error("session `{name}` ({session}) is running; its files cannot be replaced")]
    RestoreWhileRunning { session: SessionId, name: Name },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::NotUtf8(error) => error.diagnosis(),
            Self::UntrustedTarget { workspace, .. } => {
                Diagnosis::new(Kind::Invalid, "K0205").hint(format!(
                    "use `--into FOLDER` to choose the folder, or `--trust` to restore into {workspace}"
                ))
            }
            Self::RestoreWhileRunning { name, .. } => {
                Diagnosis::new(Kind::Conflict, "K0203").hint(format!(
                    "restore into another folder with `--into FOLDER`, or cancel the session first: `segno cancel {name}`"
                ))
            }
        }
    }
}

/// The disk space of a checkpoint.
pub async fn size(env: &Env, manifest: &Manifest) -> Result<Size, snapshot::Error> {
    env.snapshots()?.size(manifest.files.snapshot).await
}

/// Verifies the files of a checkpoint and its position in the journal. Returns the problems; empty
/// if the checkpoint is usable.
pub async fn verify(
    env: &Env,
    manifest: &Manifest,
    progress: &Progress,
) -> Result<Vec<String>, snapshot::Error> {
    let mut wrong = env
        .snapshots()?
        .verify(manifest.files.snapshot, progress)
        .await?;
    let Position { seq, hash, .. } = manifest.journal;
    let session = env.store.summary(manifest.session).await;
    // Files can be restored without their session.
    if seq > Seq(0) && !matches!(session, Err(StoreError::NoSession(_))) {
        match env.store.event(manifest.session, seq).await {
            Ok(entry) if entry.hash == hash => {}
            Ok(_) => wrong.push(format!(
                "the journal of session {} differs: event {seq} is not the one of this checkpoint",
                manifest.session
            )),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() {
        // The result is valid even if the verification time cannot be stored, for example on a full
        // disk.
        let _ = note_verified(env, manifest).await;
    }
    Ok(wrong)
}

/// Stores the time of the verification. A checkpoint that was pruned or deleted meanwhile stays so.
async fn note_verified(env: &Env, manifest: &Manifest) -> Result<(), StoreError> {
    let now = env
        .store
        .get_checkpoint(manifest.session, manifest.id)
        .await?;
    match now.filter(|now| now.pruned == manifest.pruned) {
        Some(now) => {
            let verified = Some(env.clock.now());
            put_manifest(env, &Manifest { verified, ..now }).await
        }
        None => Ok(()),
    }
}

/// How to restore a checkpoint.
#[derive(Debug, Clone)]
pub struct Request {
    /// The target folder; the workspace of the session if `None`.
    pub into: Option<PathBuf>,
    /// Also delete files that are not in the checkpoint.
    pub exact: bool,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Trust a checkpoint from another machine like a local one.
    pub trusted: bool,
}

#[derive(Debug)]
pub struct RestoreOutcome {
    pub folder: PathBuf,
    pub restored: Restored,
    /// The checkpoint of the replaced files, if the target folder existed.
    pub rescue: Option<Manifest>,
}

/// Restores the files of a checkpoint. First creates a checkpoint of the files that will be
/// replaced (P5).
pub async fn restore(
    env: &Env,
    manifest: &Manifest,
    request: Request,
    progress: &Progress,
) -> Result<RestoreOutcome, Error> {
    let home = PathBuf::from(&manifest.workspace);
    // The session may have moved since the checkpoint.
    let current_folder = relocate::current_folder(env, manifest.session, &manifest.workspace).await;
    if let (Some(origin), None, false) = (&manifest.origin, &request.into, request.trusted) {
        return Err(Error::UntrustedTarget {
            checkpoint: manifest.id,
            origin: origin.clone(),
            workspace: current_folder.display().to_string(),
        });
    }
    let folder = request.into.unwrap_or_else(|| current_folder.clone());
    let is_workspace = canonical(&folder) == canonical(&current_folder);
    let folder_use = if is_workspace && manifest.origin.is_none() {
        FolderUse::Workspace
    } else {
        FolderUse::Target
    };
    // Before anything is stored or created.
    env.snapshots()?.check_folder(&folder, folder_use)?;
    let rules = rules_of(env, manifest.session).await;
    let mut rescue = None;
    if !request.dry_run && folder.is_dir() {
        if is_workspace {
            refuse_if_running(env, manifest).await?;
        }
        rescue = Some(capture_before_restore(env, manifest, &folder, &rules, progress).await?);
        point(Point::RestoreAfterRescue);
    }
    let options = Restore {
        folder_use,
        exact: request.exact,
        dry_run: request.dry_run,
        trusted: request.trusted || manifest.origin.is_none(),
        current: rescue.as_ref().map(|rescue| rescue.files.snapshot),
        from: home,
        repositories: manifest.repositories.clone(),
        rules,
    };
    let restored = env
        .snapshots()?
        .restore(manifest.files.snapshot, &folder, options, progress)
        .await?;
    Ok(RestoreOutcome {
        folder,
        restored,
        rescue,
    })
}

/// Refuses to replace files while a run holds the session.
async fn refuse_if_running(env: &Env, manifest: &Manifest) -> Result<(), Error> {
    let summary = match env.store.summary(manifest.session).await {
        Err(StoreError::NoSession(_)) => return Ok(()),
        other => other?,
    };
    let lease = env.store.lease(summary.id).await?;
    if lease::verdict(env, &lease).is_held() {
        return Err(Error::RestoreWhileRunning {
            session: summary.id,
            name: summary.name,
        });
    }
    Ok(())
}

/// Creates a checkpoint of `folder` before `manifest` is restored there. Works for any folder, and
/// for sessions that no longer exist.
async fn capture_before_restore(
    env: &Env,
    manifest: &Manifest,
    folder: &Path,
    rules: &Rules,
    progress: &Progress,
) -> Result<Manifest, Error> {
    let captured = env
        .snapshots()?
        .capture(folder, rules, None, progress)
        .await?;
    let (id, at) = new_id(env);
    let saved = Manifest {
        id,
        at,
        trigger: Trigger::Manual,
        note: Some(format!("before restoring {}", manifest.id)),
        host: env.processes.host(),
        version: env.version.to_owned(),
        parent: Some(manifest.id),
        workspace: path_text(folder)?,
        files: file_counts(&captured),
        repositories: captured.repositories,
        environment: environment(env),
        attachments: None,
        origin: None,
        verified: Some(at),
        pruned: None,
        ..manifest.clone()
    };
    put_manifest(env, &saved).await?;
    Ok(saved)
}

#[derive(Debug)]
pub struct Difference {
    pub files: Vec<Change>,
    /// Steps finished in between; negative if `to` has fewer.
    pub steps: i128,
    pub usage: Usage,
    /// Other facts that differ: name, first value, second value.
    pub others: Vec<(String, String, String)>,
    /// The differences of notes and finished steps, if both journals are readable here.
    pub notes: Option<notes_diff::Difference>,
}

/// Other facts that differ: name, first value, second value.
fn other_differences(from: &Manifest, to: &Manifest) -> Vec<(String, String, String)> {
    let nothing = || "-".to_owned();
    let plain = |manifest: &Manifest| {
        BTreeMap::from([
            ("session".to_owned(), manifest.session.to_string()),
            ("status".to_owned(), manifest.status.to_string()),
            ("host".to_owned(), manifest.host.clone()),
            ("version".to_owned(), manifest.version.clone()),
            ("workspace".to_owned(), manifest.workspace.clone()),
        ])
    };
    let facts = |manifest: &Manifest| {
        let mut facts = plain(manifest);
        for (name, value) in &manifest.environment {
            facts.insert(format!("environment {name}"), value.clone());
        }
        for repository in &manifest.repositories {
            let place = format!("git {}", repository.path);
            let place = place.trim_end().to_owned();
            let word = |word: &Option<String>| word.clone().unwrap_or_else(nothing);
            facts.insert(format!("{place} branch"), word(&repository.branch));
            facts.insert(format!("{place} commit"), word(&repository.commit));
        }
        facts
    };
    let (before, after) = (facts(from), facts(to));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let both = |name: &String| {
        let say = |facts: &BTreeMap<String, String>| facts.get(name).cloned();
        let (from, to) = (say(&before), say(&after));
        let or_nothing = |said: Option<String>| said.unwrap_or_else(nothing);
        (name.clone(), or_nothing(from), or_nothing(to))
    };
    names.into_iter().filter(differs).map(both).collect()
}

pub async fn diff(env: &Env, from: &Manifest, to: &Manifest) -> Result<Difference, Error> {
    let files = env
        .snapshots()?
        .diff(from.files.snapshot, to.files.snapshot)
        .await?;
    let less = |a: u64, b: u64| a.saturating_sub(b);
    Ok(Difference {
        files,
        others: other_differences(from, to),
        notes: notes_diff::diff(env, from, to).await?,
        steps: i128::from(to.finished) - i128::from(from.finished),
        usage: Usage {
            input_tokens: less(to.usage.input_tokens, from.usage.input_tokens),
            output_tokens: less(to.usage.output_tokens, from.usage.output_tokens),
            cost: segno_core::usage::Cost(less(to.usage.cost.0, from.usage.cost.0)),
        },
    })
}

pub async fn read_file(
    env: &Env,
    manifest: &Manifest,
    path: &str,
) -> Result<Vec<u8>, snapshot::Error> {
    let read = env.snapshots()?.read(manifest.files.snapshot, path.into());
    read.await
}

/// The files of a checkpoint in their fixed order: at most `limit`, without the first `skipped`.
pub async fn files(
    env: &Env,
    manifest: &Manifest,
    skipped: usize,
    limit: usize,
) -> Result<Vec<StoredFile>, snapshot::Error> {
    let files = env
        .snapshots()?
        .files(manifest.files.snapshot, skipped, limit);
    files.await
}
