//! Checkpoints: the state of a session and the files of its workspace at one point in time.
//!
//! Creating one does not change the session: it reads the journal and copies the files. The files
//! are durable before the manifest that references them is written, and only checkpoints with a
//! manifest are listed (P4).

mod size;
pub mod transcripts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use segno_core::checkpoint::{self, Files, Manifest, Position, Trigger};
use segno_core::error::{Diagnose, Diagnosis, Kind, join_shown};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::snapshot::{self, Captured, Progress, Rules};
use segno_core::state::State;
use segno_core::store::{Error as StoreError, Summary};
use segno_core::time::Timestamp;

use crate::env::Env;
use crate::{history, workspace};

pub(crate) use size::is_pushed;
pub use size::size_hints;

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

/// Why a checkpoint cannot be created or found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    #[error("no checkpoint matches `{reference}`")]
    NoSuchCheckpoint { reference: String },
    #[error("`{reference}` matches several checkpoints: {}", join_shown(.candidates))]
    Ambiguous {
        reference: String,
        candidates: Vec<CheckpointId>,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Snapshot(error) => error.diagnosis(),
            Self::NoSuchCheckpoint { reference } if reference.contains('/') => {
                Diagnosis::new(Kind::NotFound, "K0201").hint(
                    "`segno checkpoint list --all` lists all checkpoints; use `--before` to name a step",
                )
            }
            Self::NoSuchCheckpoint { .. } => Diagnosis::new(Kind::NotFound, "K0201")
                .hint("`segno checkpoint list --all` lists all checkpoints"),
            Self::Ambiguous { .. } => {
                Diagnosis::new(Kind::Conflict, "K0202").hint("give more characters of the id")
            }
        }
    }
}

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
    create_with_id(env, summary, new_id(env), trigger, note, progress).await
}

/// The same with an id of the caller, so that a caller who does not know whether it was created can
/// find it.
pub async fn create_with_id(
    env: &Env,
    summary: &Summary,
    (id, at): (CheckpointId, Timestamp),
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
    workspace::redact_repositories(env, &mut captured.repositories);
    let parent = newest(env, summary.id).await?;
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

/// Creates a checkpoint of a session that is about to expire, if its spec has the trigger `expiry`.
pub async fn create_before_expiry(env: &Env, summary: &Summary) -> Result<Option<Manifest>, Error> {
    let state = history::load_state(env, summary.id).await?;
    let workflow = history::recorded_spec(env, summary.id, &state).await;
    let asks = workflow.is_ok_and(|workflow| workflow.checkpoints.on.contains(&Trigger::Expiry));
    if !asks || !Path::new(&summary.workspace).is_dir() {
        return Ok(None);
    }
    let taken = create(env, summary, Trigger::Expiry, None, &|_, _| {}).await?;
    Ok(Some(taken.manifest))
}

/// The file rules of the session's spec. The default rules if the spec cannot be read.
async fn rules(env: &Env, session: SessionId, state: &State) -> Rules {
    let workflow = history::recorded_spec(env, session, state).await;
    workflow.map_or_else(|_| Rules::default(), |workflow| workflow.checkpoints.rules)
}

/// Like [`rules`], for a session that may be absent or unreadable.
pub async fn rules_of(env: &Env, session: SessionId) -> Rules {
    match history::load_state(env, session).await {
        Ok(state) => rules(env, session, &state).await,
        Err(_) => Rules::default(),
    }
}

/// The newest usable checkpoint of a session. Older manifests are not read.
async fn newest(env: &Env, session: SessionId) -> Result<Option<CheckpointId>, StoreError> {
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

pub fn new_id(env: &Env) -> (CheckpointId, Timestamp) {
    let mut entropy = [0; 10];
    env.random.fill(&mut entropy);
    let now = env.clock.now();
    (CheckpointId::new(now, entropy), now)
}

pub fn file_counts(captured: &Captured) -> Files {
    Files {
        snapshot: captured.snapshot,
        files: captured.files,
        bytes: captured.bytes,
        unstable: captured.unstable.len() as u64,
        skipped: captured.skipped.len() as u64,
        excluded: captured.excluded.len() as u64,
    }
}

pub async fn put_manifest(env: &Env, manifest: &Manifest) -> Result<(), StoreError> {
    let mut key = [0; 32];
    env.random.fill(&mut key);
    env.store.put_checkpoint(manifest.clone(), key).await
}

/// Whether a checkpoint stores this environment variable.
pub fn is_plain_variable(name: &str) -> bool {
    ENVIRONMENT.contains(&name)
}

pub fn environment(env: &Env) -> BTreeMap<String, String> {
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
) -> Result<(Vec<Manifest>, Vec<StoreError>), StoreError> {
    list_of(env, session.map(|summary| summary.id)).await
}

/// Like [`list`], for a session that may be absent.
pub async fn list_of(
    env: &Env,
    session: Option<SessionId>,
) -> Result<(Vec<Manifest>, Vec<StoreError>), StoreError> {
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
        _ => Err(Error::Ambiguous {
            reference: reference.to_owned(),
            candidates: found.iter().map(|manifest| manifest.id).collect(),
        }),
    }
}
