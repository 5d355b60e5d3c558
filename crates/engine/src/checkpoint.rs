//! Checkpoints: where a session stood, and the files of its workspace at that moment.
//!
//! Taking one changes nothing about the session: its journal is read, its files are copied. The
//! files are durable before the manifest that names them is written, and only what has a manifest is
//! listed (P4).

pub(crate) mod records;
pub mod said;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use segno_core::checkpoint::{self, Files, Manifest, Position, Repository, Trigger};
use segno_core::fault::{Point, point};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::journal::Seq;
use segno_core::lease::Verdict;
use segno_core::session::Summary;
use segno_core::snapshot::{Captured, Change, Progress, Restore, Restored, Rules, Size};
use segno_core::state::State;
use segno_core::store::Error as StoreError;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;

use crate::error::Error;
use crate::world::World;
use crate::{claim, history, relocate, resume, start};

/// What of the environment says something about where work was done, and nothing about who did it.
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

/// A checkpoint that was taken.
#[derive(Debug, Clone)]
pub struct Taken {
    /// What is kept of it.
    pub manifest: Manifest,
    /// What became of the files.
    pub captured: Captured,
}

/// Takes a checkpoint of a session as it stands.
pub async fn take(
    world: &World,
    summary: &Summary,
    trigger: Trigger,
    note: Option<String>,
    progress: &Progress,
) -> Result<Taken, Error> {
    // The journal first: files may be ahead of it, but nothing that it calls done is missing there.
    let state = history::look(world, summary.id).await?;
    // For the same reason, what agents have of it next.
    let papers = records::keep(world, summary.id, &state).await?;
    let workspace = PathBuf::from(&summary.workspace);
    let rules = rules(world, summary.id, &state).await;
    let captured = world
        .snapshots
        .capture(&workspace, &rules, state.began(), progress);
    let mut captured = captured.await?;
    redact(world, &mut captured.repositories);
    let parent = newest(world, summary.id).await?;
    let (id, at) = fresh(world);
    let manifest = Manifest {
        segno_checkpoint: checkpoint::VERSION,
        id,
        session: summary.id,
        trigger,
        note: note.map(|note| world.redactor.redact(&note).into_owned()),
        at,
        host: world.processes.host(),
        version: world.version.to_owned(),
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
        files: figures(&captured),
        repositories: captured.repositories.clone(),
        environment: environment(world),
        papers,
        origin: None,
        verified: Some(at),
        pruned: None,
    };
    keep(world, &manifest).await?;
    Ok(Taken { manifest, captured })
}

/// Files are called what whoever made them liked.
pub(crate) fn redact(world: &World, repositories: &mut [Repository]) {
    let since = repositories.iter_mut().filter_map(|it| it.since.as_mut());
    for name in since.flat_map(|since| &mut since.names) {
        *name = world.redactor.redact(name).into_owned();
    }
}

/// Takes a checkpoint of a session that goes because it is old, if its spec asks for that.
pub async fn before_expiry(world: &World, summary: &Summary) -> Result<Option<Manifest>, Error> {
    let state = history::look(world, summary.id).await?;
    let workflow = resume::kept_spec(world, summary.id, &state).await;
    let asks = workflow.is_ok_and(|workflow| workflow.checkpoints.on.contains(&Trigger::Expiry));
    if !asks || !Path::new(&summary.workspace).is_dir() {
        return Ok(None);
    }
    let taken = take(world, summary, Trigger::Expiry, None, &|_, _| {}).await?;
    Ok(Some(taken.manifest))
}

/// What the session's spec says about its files. Without a spec that can be read, nothing.
async fn rules(world: &World, session: SessionId, state: &State) -> Rules {
    let workflow = resume::kept_spec(world, session, state).await;
    workflow.map_or_else(|_| Rules::default(), |workflow| workflow.checkpoints.rules)
}

/// The same for a session that may not be here, or not be readable.
pub(crate) async fn rules_of(world: &World, session: SessionId) -> Rules {
    match history::look(world, session).await {
        Ok(state) => rules(world, session, &state).await,
        Err(_) => Rules::default(),
    }
}

/// The newest checkpoint of a session that can be used. Those before it are not read.
async fn newest(world: &World, session: SessionId) -> Result<Option<CheckpointId>, Error> {
    for (session, checkpoint) in world.store.names(Some(session)).await?.into_iter().rev() {
        // What is wrong with one is told where they are listed.
        if let Ok(Some(manifest)) = world.store.one(session, checkpoint).await
            && manifest.pruned.is_none()
        {
            return Ok(Some(checkpoint));
        }
    }
    Ok(None)
}

pub(crate) fn fresh(world: &World) -> (CheckpointId, Timestamp) {
    let mut entropy = [0; 10];
    world.random.fill(&mut entropy);
    let now = world.clock.now();
    (CheckpointId::new(now, entropy), now)
}

pub(crate) fn figures(captured: &Captured) -> Files {
    Files {
        snapshot: captured.snapshot,
        files: captured.files,
        bytes: captured.bytes,
        unstable: captured.unstable.len() as u64,
        skipped: captured.skipped.len() as u64,
        left_out: captured.left_out.len() as u64,
    }
}

pub(crate) async fn keep(world: &World, manifest: &Manifest) -> Result<(), Error> {
    let mut key = [0; 32];
    world.random.fill(&mut key);
    Ok(world.store.keep(manifest.clone(), key).await?)
}

/// Whether a variable of the environment belongs to a checkpoint.
pub(crate) fn is_plain_variable(name: &str) -> bool {
    ENVIRONMENT.contains(&name)
}

fn environment(world: &World) -> BTreeMap<String, String> {
    let variable = |name: &&str| {
        let value = world.drivers.variable(name)?;
        let value = world.redactor.redact(&value).into_owned();
        Some(((*name).to_owned(), value))
    };
    ENVIRONMENT.iter().filter_map(variable).collect()
}

/// The checkpoints of a session, or of all, oldest first; and what is wrong with those that cannot
/// be shown.
pub async fn list(
    world: &World,
    session: Option<&Summary>,
) -> Result<(Vec<Manifest>, Vec<StoreError>), Error> {
    list_of(world, session.map(|summary| summary.id)).await
}

/// The same for a session that may not be here.
pub(crate) async fn list_of(
    world: &World,
    session: Option<SessionId>,
) -> Result<(Vec<Manifest>, Vec<StoreError>), Error> {
    let (mut kept, mut damaged) = (Vec::new(), Vec::new());
    for found in world.store.kept(session).await? {
        match found {
            Ok(manifest) if manifest.pruned.is_some() => {}
            Ok(manifest) => kept.push(manifest),
            Err(error) => damaged.push(error),
        }
    }
    Ok((kept, damaged))
}

/// The checkpoint that a person means: by its id, or the end or beginning of it.
pub async fn find(world: &World, reference: &str) -> Result<Manifest, Error> {
    let wanted = reference.to_ascii_uppercase();
    let fits = |id: CheckpointId| {
        let id = id.to_string();
        wanted.len() >= 4 && (id.ends_with(&wanted) || id.starts_with(&wanted))
    };
    let mut names = world.store.names(None).await?;
    names.retain(|(_, checkpoint)| fits(*checkpoint));
    // If one name fits and is sound, the others need not be read.
    if let [(session, checkpoint)] = names[..]
        && let Ok(Some(manifest)) = world.store.one(session, checkpoint).await
        && manifest.pruned.is_none()
    {
        return Ok(manifest);
    }
    let (kept, damaged) = list(world, None).await?;
    let found: Vec<&Manifest> = kept.iter().filter(|kept| fits(kept.id)).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => match damaged.into_iter().next() {
            // It may be the one that is meant.
            Some(error) => Err(error.into()),
            None => Err(Error::NoSuchCheckpoint {
                reference: reference.to_owned(),
            }),
        },
        _ => Err(Error::WhichCheckpoint {
            reference: reference.to_owned(),
            candidates: found.iter().map(|manifest| manifest.id).collect(),
        }),
    }
}

/// What a checkpoint takes on the disk.
pub async fn size(world: &World, manifest: &Manifest) -> Result<Size, Error> {
    Ok(world.snapshots.size(manifest.files.snapshot).await?)
}

/// Everything that is wrong with a checkpoint: with its files, and with the journal that it speaks
/// of. Nothing, if it can be used.
pub async fn verify(
    world: &World,
    manifest: &Manifest,
    progress: &Progress,
) -> Result<Vec<String>, Error> {
    let mut wrong = world
        .snapshots
        .verify(manifest.files.snapshot, progress)
        .await?;
    let Position { seq, hash, .. } = manifest.journal;
    if seq > Seq(0) {
        match world.store.entry(manifest.session, seq).await {
            Ok(entry) if entry.hash == hash => {}
            Ok(_) => wrong.push(format!(
                "the journal of session {} is another one: entry {seq} is not the one of this checkpoint",
                manifest.session
            )),
            // Files can be brought back without their session.
            Err(StoreError::NoSession(_)) => {}
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() {
        // What was found stands, whether or not there is room to note when.
        let _ = note_verified(world, manifest).await;
    }
    Ok(wrong)
}

/// Notes that a checkpoint was verified. It may have been pruned or erased meanwhile, and stays so.
async fn note_verified(world: &World, manifest: &Manifest) -> Result<(), Error> {
    let now = world.store.one(manifest.session, manifest.id).await?;
    match now.filter(|now| now.pruned == manifest.pruned) {
        Some(now) => {
            let verified = Some(world.clock.now());
            keep(world, &Manifest { verified, ..now }).await
        }
        None => Ok(()),
    }
}

/// How files are brought back.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where to; otherwise where they came from.
    pub into: Option<PathBuf>,
    /// Whether files that were not there go.
    pub exact: bool,
    /// Whether nothing is done, only told.
    pub dry: bool,
    /// Whether a checkpoint that was taken elsewhere is trusted like one that was taken here.
    pub trust: bool,
}

/// What was brought back.
#[derive(Debug)]
pub struct Returned {
    /// Where to.
    pub folder: PathBuf,
    /// What was done.
    pub restored: Restored,
    /// The checkpoint of what was there before, if something was replaced.
    pub rescue: Option<Manifest>,
}

/// Brings the files of a checkpoint back. What they replace is kept in a checkpoint of its own first
/// (P5).
pub async fn restore(
    world: &World,
    manifest: &Manifest,
    request: Request,
    progress: &Progress,
) -> Result<Returned, Error> {
    let home = PathBuf::from(&manifest.workspace);
    // The session may have moved since.
    let lives = relocate::newest(world, manifest.session, &manifest.workspace).await;
    if let (Some(origin), None, false) = (&manifest.origin, &request.into, request.trust) {
        return Err(Error::FromElsewhere {
            checkpoint: manifest.id,
            origin: origin.clone(),
            workspace: lives.display().to_string(),
        });
    }
    let folder = request.into.unwrap_or_else(|| lives.clone());
    let rules = rules_of(world, manifest.session).await;
    let mut rescue = None;
    if !request.dry && folder.is_dir() {
        if real(&folder) == real(&lives) {
            at_rest(world, manifest).await?;
        }
        rescue = Some(save(world, manifest, &folder, &rules, progress).await?);
        point(Point::RestoreAfterRescue);
    }
    let options = Restore {
        exact: request.exact,
        dry: request.dry,
        trusted: request.trust || manifest.origin.is_none(),
        seen: rescue.as_ref().map(|rescue| rescue.files.snapshot),
        from: home,
        repositories: manifest.repositories.clone(),
        rules,
    };
    let restored = world
        .snapshots
        .restore(manifest.files.snapshot, &folder, options, progress)
        .await?;
    Ok(Returned {
        folder,
        restored,
        rescue,
    })
}

/// A folder by the one name that it has.
pub(crate) fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Refuses to replace files under a session that is being run.
async fn at_rest(world: &World, manifest: &Manifest) -> Result<(), Error> {
    let summary = match world.store.summary(manifest.session).await {
        Err(StoreError::NoSession(_)) => return Ok(()),
        other => other?,
    };
    let lease = world.store.lease(summary.id).await?;
    if claim::verdict(world, &lease) == Verdict::Held {
        return Err(Error::Busy {
            session: summary.id,
            name: summary.name,
        });
    }
    Ok(())
}

/// Keeps what is in `folder` before `manifest` is restored there, whoever's folder it is and whether
/// or not the session is still here.
async fn save(
    world: &World,
    manifest: &Manifest,
    folder: &Path,
    rules: &Rules,
    progress: &Progress,
) -> Result<Manifest, Error> {
    let captured = world
        .snapshots
        .capture(folder, rules, None, progress)
        .await?;
    let (id, at) = fresh(world);
    let saved = Manifest {
        id,
        at,
        trigger: Trigger::Manual,
        note: Some(format!("before {} was restored", manifest.id)),
        host: world.processes.host(),
        version: world.version.to_owned(),
        parent: Some(manifest.id),
        workspace: start::text_of(folder)?,
        files: figures(&captured),
        repositories: captured.repositories,
        environment: environment(world),
        papers: None,
        origin: None,
        verified: Some(at),
        pruned: None,
        ..manifest.clone()
    };
    keep(world, &saved).await?;
    Ok(saved)
}

/// How two checkpoints differ.
#[derive(Debug)]
pub struct Difference {
    /// Files.
    pub files: Vec<Change>,
    /// How many steps were finished in between, if the second is later in the same session.
    pub steps: i128,
    /// What was used in between.
    pub usage: Usage,
    /// What else they say: in which words, what the first says, and the second.
    pub others: Vec<(String, String, String)>,
    /// What differs in what their journals say, where both are here.
    pub said: Option<said::Difference>,
}

/// What else two checkpoints say differently: in which words, what the first says, and the second.
fn others(from: &Manifest, to: &Manifest) -> Vec<(String, String, String)> {
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

/// Compares two checkpoints.
pub async fn diff(world: &World, from: &Manifest, to: &Manifest) -> Result<Difference, Error> {
    let files = world
        .snapshots
        .diff(from.files.snapshot, to.files.snapshot)
        .await?;
    let less = |a: u64, b: u64| a.saturating_sub(b);
    Ok(Difference {
        files,
        others: others(from, to),
        said: said::diff(world, from, to).await?,
        steps: i128::from(to.finished) - i128::from(from.finished),
        usage: Usage {
            input_tokens: less(to.usage.input_tokens, from.usage.input_tokens),
            output_tokens: less(to.usage.output_tokens, from.usage.output_tokens),
            cost: segno_core::usage::Cost(less(to.usage.cost.0, from.usage.cost.0)),
        },
    })
}

/// The content of a file in a checkpoint.
pub async fn content(world: &World, manifest: &Manifest, path: &str) -> Result<Vec<u8>, Error> {
    let read = world.snapshots.read(manifest.files.snapshot, path.into());
    Ok(read.await?)
}
