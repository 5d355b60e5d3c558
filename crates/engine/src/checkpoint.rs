//! Checkpoints: the state of a session and the files of its workspace at one point in time.
//!
//! Creating one does not change the session: it reads the journal and copies the files. The files
//! are durable before the manifest that references them is written, and only checkpoints with a
//! manifest are listed (P4).

pub mod notes_diff;
pub(crate) mod transcripts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use segno_core::checkpoint::{self, Files, Manifest, Position, Repository, Trigger};
use segno_core::fault::{Point, point};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::journal::Seq;
use segno_core::lease::LeaseDecision;
use segno_core::snapshot::{Captured, Change, Progress, Restore, Restored, Rules, Size};
use segno_core::state::State;
use segno_core::store::Error as StoreError;
use segno_core::store::Summary;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

use crate::env::Env;
use crate::error::Error;
use crate::{history, lease, relocate, resume, start};

/// Environment variables that describe where the work was done, and not who did it.
const ENVIRONMENT: [&str; 9] = [
    "LANG",
    "LC_ALL",
    "PATH",
    "SHELL",
    "TERM",
    "TZ",
    "VIRTUAL_ENV",
    "NODE_ENV",
    "RUSTUP_TOOLCHAIN",
];

/// A new checkpoint.
#[derive(Debug, Clone)]
pub struct NewCheckpoint {
    pub manifest: Manifest,
    pub captured: Captured,
}

/// Creates a checkpoint of the session's current state.
pub async fn create(
    env: &Env,
    summary: &Summary,
    trigger: Trigger,
    note: Option<String>,
    progress: &Progress,
) -> Result<NewCheckpoint, Error> {
    // The journal is read before the files: files may be ahead of it, but everything that the
    // journal calls finished is in the files.
    let state = history::load_state(env, summary.id).await?;
    // For the same reason, the agents' transcripts are read before the files, too.
    let attachments = transcripts::put_transcripts(env, summary.id, &state).await?;
    let workspace = PathBuf::from(&summary.workspace);
    let rules = rules(env, summary.id, &state).await;
    let captured = env
        .snapshots()?
        .capture(&workspace, &rules, state.start_commit(), progress);
    let mut captured = captured.await?;
    redact(env, &mut captured.repositories);
    let parent = newest(env, summary.id).await?;
    let (id, at) = new_id(env);
    let manifest = Manifest {
        segno_checkpoint: checkpoint::VERSION,
        id,
        session: summary.id,
        trigger,
        note: note.map(|note| env.redactor.redact(&note).into_owned()),
        at,
        host: env.processes.host(),
        version: env.version.to_owned(),
        parent,
        journal: Position {
            run: state.run,
            seq: state.head.seq,
            hash: state.head.hash,
        },
        status: summary.status,
        finished: state.finished,
        usage: state.usage,
        workspace: summary.workspace.clone(),
        files: file_counts(&captured),
        repositories: captured.repositories.clone(),
        environment: environment(env),
        attachments,
        origin: None,
        verified: Some(at),
        pruned: None,
    };
    put_manifest(env, &manifest).await?;
    Ok(NewCheckpoint { manifest, captured })
}

/// Redacts the names of changed files: a file name can contain a secret.
pub(crate) fn redact(env: &Env, repositories: &mut [Repository]) {
    let since = repositories
        .iter_mut()
        .filter_map(|it| it.session_changes.as_mut());
    for name in since.flat_map(|since| &mut since.names) {
        *name = env.redactor.redact(name).into_owned();
    }
}

/// Creates a checkpoint of a session that is about to expire, if its spec has the trigger `expiry`.
pub async fn create_before_expiry(env: &Env, summary: &Summary) -> Result<Option<Manifest>, Error> {
    let state = history::load_state(env, summary.id).await?;
    let workflow = resume::recorded_spec(env, summary.id, &state).await;
    let asks = workflow.is_ok_and(|workflow| workflow.checkpoints.on.contains(&Trigger::Expiry));
    if !asks || !Path::new(&summary.workspace).is_dir() {
        return Ok(None);
    }
    let taken = create(env, summary, Trigger::Expiry, None, &|_, _| {}).await?;
    Ok(Some(taken.manifest))
}

/// The file rules of the session's spec. The default rules if the spec cannot be read.
async fn rules(env: &Env, session: SessionId, state: &State) -> Rules {
    let workflow = resume::recorded_spec(env, session, state).await;
    workflow.map_or_else(|_| Rules::default(), |workflow| workflow.checkpoints.rules)
}

/// Like [`rules`], for a session that may be absent or unreadable.
pub(crate) async fn rules_of(env: &Env, session: SessionId) -> Rules {
    match history::load_state(env, session).await {
        Ok(state) => rules(env, session, &state).await,
        Err(_) => Rules::default(),
    }
}

/// The newest usable checkpoint of a session. Older manifests are not read.
async fn newest(env: &Env, session: SessionId) -> Result<Option<CheckpointId>, Error> {
    for (session, checkpoint) in env
        .store
        .list_checkpoint_ids(Some(session))
        .await?
        .into_iter()
        .rev()
    {
        // `list` reports damaged manifests; here they are skipped.
        if let Ok(Some(manifest)) = env.store.get_checkpoint(session, checkpoint).await
            && manifest.pruned.is_none()
        {
            return Ok(Some(checkpoint));
        }
    }
    Ok(None)
}

pub(crate) fn new_id(env: &Env) -> (CheckpointId, Timestamp) {
    let mut entropy = [0; 10];
    env.random.fill(&mut entropy);
    let now = env.clock.now();
    (CheckpointId::new(now, entropy), now)
}

pub(crate) fn file_counts(captured: &Captured) -> Files {
    Files {
        snapshot: captured.snapshot,
        files: captured.files,
        bytes: captured.bytes,
        unstable: captured.unstable.len() as u64,
        skipped: captured.skipped.len() as u64,
        excluded: captured.excluded.len() as u64,
    }
}

pub(crate) async fn put_manifest(env: &Env, manifest: &Manifest) -> Result<(), Error> {
    let mut key = [0; 32];
    env.random.fill(&mut key);
    Ok(env.store.put_checkpoint(manifest.clone(), key).await?)
}

/// Whether a checkpoint stores this environment variable.
pub(crate) fn is_plain_variable(name: &str) -> bool {
    ENVIRONMENT.contains(&name)
}

fn environment(env: &Env) -> BTreeMap<String, String> {
    let variable = |name: &&str| {
        let value = env.drivers.variable(name)?;
        let value = env.redactor.redact(&value).into_owned();
        Some(((*name).to_owned(), value))
    };
    ENVIRONMENT.iter().filter_map(variable).collect()
}

/// The checkpoints of a session, or of all sessions, oldest first; and the errors of unreadable
/// ones.
pub async fn list(
    env: &Env,
    session: Option<&Summary>,
) -> Result<(Vec<Manifest>, Vec<StoreError>), Error> {
    list_of(env, session.map(|summary| summary.id)).await
}

/// Like [`list`], for a session that may be absent.
pub(crate) async fn list_of(
    env: &Env,
    session: Option<SessionId>,
) -> Result<(Vec<Manifest>, Vec<StoreError>), Error> {
    let (mut kept, mut damaged) = (Vec::new(), Vec::new());
    for found in env.store.list_checkpoints(session).await? {
        match found {
            Ok(manifest) if manifest.pruned.is_some() => {}
            Ok(manifest) => kept.push(manifest),
            Err(error) => damaged.push(error),
        }
    }
    Ok((kept, damaged))
}

/// Resolves a checkpoint reference: an id, or the beginning or end of one (at least 4 characters).
pub async fn find(env: &Env, reference: &str) -> Result<Manifest, Error> {
    let wanted = reference.to_ascii_uppercase();
    let fits = |id: CheckpointId| {
        let id = id.to_string();
        wanted.len() >= 4 && (id.ends_with(&wanted) || id.starts_with(&wanted))
    };
    let mut names = env.store.list_checkpoint_ids(None).await?;
    names.retain(|(_, checkpoint)| fits(*checkpoint));
    // If one name matches and its manifest is valid, the other manifests need not be read.
    if let [(session, checkpoint)] = names[..]
        && let Ok(Some(manifest)) = env.store.get_checkpoint(session, checkpoint).await
        && manifest.pruned.is_none()
    {
        return Ok(manifest);
    }
    let (kept, damaged) = list(env, None).await?;
    let found: Vec<&Manifest> = kept.iter().filter(|kept| fits(kept.id)).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => match damaged.into_iter().next() {
            // A damaged manifest may be the referenced one.
            Some(error) => Err(error.into()),
            None => Err(Error::NoSuchCheckpoint {
                reference: reference.to_owned(),
            }),
        },
        _ => Err(Error::AmbiguousCheckpoint {
            reference: reference.to_owned(),
            candidates: found.iter().map(|manifest| manifest.id).collect(),
        }),
    }
}

/// The disk space of a checkpoint.
pub async fn size(env: &Env, manifest: &Manifest) -> Result<Size, Error> {
    Ok(env.snapshots()?.size(manifest.files.snapshot).await?)
}

/// Verifies the files of a checkpoint and its position in the journal. Returns the problems; empty
/// if the checkpoint is usable.
pub async fn verify(
    env: &Env,
    manifest: &Manifest,
    progress: &Progress,
) -> Result<Vec<String>, Error> {
    let mut wrong = env
        .snapshots()?
        .verify(manifest.files.snapshot, progress)
        .await?;
    let Position { seq, hash, .. } = manifest.journal;
    if seq > Seq(0) {
        match env.store.event(manifest.session, seq).await {
            Ok(entry) if entry.hash == hash => {}
            Ok(_) => wrong.push(format!(
                "the journal of session {} differs: event {seq} is not the one of this checkpoint",
                manifest.session
            )),
            // Files can be restored without their session.
            Err(StoreError::NoSession(_)) => {}
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
async fn note_verified(env: &Env, manifest: &Manifest) -> Result<(), Error> {
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
    let rules = rules_of(env, manifest.session).await;
    let mut rescue = None;
    if !request.dry_run && folder.is_dir() {
        if canonical(&folder) == canonical(&current_folder) {
            refuse_if_running(env, manifest).await?;
        }
        rescue = Some(capture_before_restore(env, manifest, &folder, &rules, progress).await?);
        point(Point::RestoreAfterRescue);
    }
    let options = Restore {
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

/// The canonical path of a folder; the path itself if it cannot be resolved.
pub(crate) fn canonical(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Refuses to replace files while a run holds the session.
async fn refuse_if_running(env: &Env, manifest: &Manifest) -> Result<(), Error> {
    let summary = match env.store.summary(manifest.session).await {
        Err(StoreError::NoSession(_)) => return Ok(()),
        other => other?,
    };
    let lease = env.store.lease(summary.id).await?;
    if lease::verdict(env, &lease) == LeaseDecision::Held {
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
        workspace: start::path_text(folder)?,
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

pub async fn read_file(env: &Env, manifest: &Manifest, path: &str) -> Result<Vec<u8>, Error> {
    let read = env.snapshots()?.read(manifest.files.snapshot, path.into());
    Ok(read.await?)
}
