//! Forks a session: creates a new session from the events of another, up to now or up to a
//! checkpoint.
//!
//! A journal is append-only, so going back needs a new journal. A fork is independent: its journal
//! has the events of the finished steps, with new hashes, and names their origin; it can have its
//! own folder with the files of that time; and where an agent was in the middle of a step, it has
//! its own conversation with its own id. The source session is only read.
//!
//! The session is created last, in one transaction that references all that it needs. Whatever a
//! kill leaves before that is used or replaced when the same fork is requested again.

mod conversation;
mod error;
mod fork_journal;
mod source;
mod target;

use std::path::{Path, PathBuf};

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::id::{CheckpointId, Name};
use segno_core::journal::{Event, RunPurpose, SessionCreated, SessionForked};
use segno_core::lease::Owner;
use segno_core::snapshot::{Progress, Restored};
use segno_core::store::{Error as StoreError, Summary};
use segno_core::usage::Usage;
use segno_engine::{Env, history, journal, lease, workspace};
use segno_spec as spec;

use crate::checkpoint;
use crate::naming;
use crate::next_run::Options;
use crate::resume::plan::{self, StepPlan};
use conversation::ForkedConversation;
use fork_journal::ForkJournal;
use source::SourceState;
use target::Target;

pub use error::Error;

#[derive(Debug, Clone, Default)]
pub struct Request {
    pub point: ForkPoint,
    pub name: Option<Name>,
    /// The folder for artifacts; that of the source if `None`.
    pub out: Option<PathBuf>,
}

#[derive(Debug, Clone, Default)]
pub enum ForkPoint {
    /// All finished steps, and the conversations of unfinished ones. Same folder.
    #[default]
    All,
    /// The steps that finished before this step first started. Same folder.
    Before(String),
    /// Like `All`, with a copy of the current files in this folder. A checkpoint of them is created
    /// first.
    CopyInto(PathBuf),
    /// The state at a checkpoint, with its files.
    AtCheckpoint(Box<Manifest>, TargetFolder),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFolder {
    /// Into the source's folder; a checkpoint of its files is created first.
    Original,
    /// Into a new folder beside the source's, named after the fork.
    Beside,
    Into(PathBuf),
}

#[derive(Debug)]
pub struct Forked {
    pub summary: Summary,
    pub steps: u64,
    pub usage: Usage,
    /// The checkpoint that its files are from.
    pub checkpoint: Option<CheckpointId>,
    /// Files that could start a program, and were restored under another name.
    pub set_aside: Vec<String>,
    /// The checkpoint of the files that were replaced, if any.
    pub rescue: Option<CheckpointId>,
}

/// What a fork would do.
#[derive(Debug)]
pub struct ForkPlan {
    pub name: Name,
    pub workspace: PathBuf,
    pub checkpoint: Option<CheckpointId>,
    /// The changes to the existing files, if the fork would replace them.
    pub replaced: Option<Restored>,
    /// The owner of a run in that folder; the fork would be refused while it runs.
    pub held_by: Option<Owner>,
    pub finished: u64,
    /// The unfinished steps, and how they would continue.
    pub steps: Vec<StepPlan>,
}

/// Creates a new session from `summary`, with the status `paused`.
pub async fn fork(
    env: &Env,
    summary: &Summary,
    request: Request,
    progress: &Progress,
) -> Result<Forked, Error> {
    let request = match request.point {
        ForkPoint::CopyInto(folder) => Request {
            point: checkpoint_files(env, summary, folder, progress).await?,
            ..request
        },
        _ => request,
    };
    let mut draft = Draft::new(env, summary, request).await?;
    let (mut set_aside, mut rescue) = (Vec::new(), None);
    if let ForkPoint::AtCheckpoint(manifest, place) = &draft.part {
        let filled = draft
            .target
            .restore_files(env, manifest, place, progress)
            .await?;
        set_aside = filled.restored.disarmed;
        rescue = filled.rescue.map(|rescue| rescue.id);
    }
    draft.forked.attachments = conversation::put(env, &draft.conversations).await?;
    let family = draft.target.family.as_ref();
    let draft = &draft;
    let create = |name| async move {
        let created = SessionCreated {
            name,
            ..draft.created.clone()
        };
        let copy = draft.copy(env, &created)?;
        let (session, steps, usage) = (copy.session, copy.state.finished, copy.state.usage);
        match env.store.create(copy.ready(env, &created)).await {
            // Another process took the name.
            Err(StoreError::NameTaken(_)) if family.is_some() => Ok(None),
            Err(error) => Err(Error::from(error)),
            Ok(_) => Ok(Some((session, steps, usage))),
        }
    };
    let first = &draft.target.name;
    let creating = naming::create_numbered(env, family.unwrap_or(first), first.clone(), create);
    let (_, (session, steps, usage)) = creating.await?;
    Ok(Forked {
        summary: env.store.summary(session).await?,
        steps,
        usage,
        checkpoint: draft.forked.checkpoint,
        set_aside,
        rescue,
    })
}

/// Creates a checkpoint of the current files for the fork.
async fn checkpoint_files(
    env: &Env,
    summary: &Summary,
    folder: PathBuf,
    progress: &Progress,
) -> Result<ForkPoint, Error> {
    let note = Some("before the fork".to_owned());
    let taken = checkpoint::create(env, summary, Trigger::Manual, note, progress).await?;
    Ok(ForkPoint::AtCheckpoint(
        Box::new(taken.manifest),
        TargetFolder::Into(folder),
    ))
}

/// Reports what a fork, and a resume of it, would do. Changes nothing.
pub async fn plan(
    env: &Env,
    summary: &Summary,
    request: Request,
    options: &Options,
) -> Result<ForkPlan, Error> {
    let draft = Draft::new(env, summary, request).await?;
    let state = draft.copy(env, &draft.created)?.state;
    let text = journal::load_text(env, &draft.created.spec).await?;
    let workflow = spec::parse(&text).map_err(|problems| history::Error::InvalidStoredSpec {
        session: summary.id,
        digest: draft.created.spec_digest,
        reason: problems.to_string(),
    })?;
    let attachments = conversation::attachments(&draft.conversations);
    let steps = plan::steps(
        env,
        &workflow,
        &state,
        plan::TranscriptCopies::Attachments(&attachments),
        options,
    );
    let (mut checkpoint, mut replaced, mut held_by) = (None, None, None);
    if let ForkPoint::AtCheckpoint(manifest, place) = &draft.part {
        checkpoint = Some(manifest.id);
        if *place == TargetFolder::Original {
            replaced = Some(draft.target.dry_run(env, manifest).await?);
            let mut users = lease::active_sessions(env, &draft.target.folder).await?;
            held_by = users.pop().map(|(_, owner)| owner);
        }
    }
    Ok(ForkPlan {
        steps: steps.await?,
        finished: state.finished,
        name: draft.created.name,
        workspace: draft.target.folder,
        checkpoint,
        replaced,
        held_by,
    })
}

/// A fork that is not created yet.
struct Draft {
    part: ForkPoint,
    target: Target,
    created: SessionCreated,
    forked: SessionForked,
    events: Vec<Event>,
    conversations: Vec<ForkedConversation>,
}

impl Draft {
    async fn new(env: &Env, summary: &Summary, request: Request) -> Result<Self, Error> {
        let Request {
            point: part,
            name,
            out,
        } = request;
        let source = SourceState::read(env, summary, &part).await?;
        let conversations = conversation::collect(env, summary, &source, &part).await?;
        let events = source.events(env, summary, &conversations).await?;
        let target = Target::choose(env, summary, &part, name).await?;
        let mut created = source.created(env, summary, &target).await?;
        if let Some(out) = out {
            created.out = workspace::path_text(&out)?;
        }
        let moved = Path::new(&summary.workspace) != target.folder;
        let forked = SessionForked {
            from: summary.id,
            from_name: summary.name.clone(),
            seq: source.state.head.seq,
            before: source.before,
            checkpoint: match &part {
                ForkPoint::AtCheckpoint(manifest, _) => Some(manifest.id),
                ForkPoint::All | ForkPoint::Before(_) | ForkPoint::CopyInto(_) => None,
            },
            workspace: moved.then(|| summary.workspace.clone()),
            attachments: None,
        };
        Ok(Self {
            part,
            target,
            created,
            forked,
            events,
            conversations,
        })
    }

    /// Builds the journal of the fork.
    fn copy(&self, env: &Env, created: &SessionCreated) -> Result<ForkJournal, history::Error> {
        let mut copy = ForkJournal::new(env);
        copy.write(created.clone().into())?;
        copy.write(env.run_started(RunPurpose::Bookkeeping))?;
        copy.write(self.forked.clone().into())?;
        for event in &self.events {
            copy.write(event.clone())?;
        }
        copy.end()?;
        Ok(copy)
    }
}
