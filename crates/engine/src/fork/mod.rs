//! A new session out of what another has done, up to now or up to a checkpoint.
//!
//! A journal only grows, so whoever goes back begins another one. The copy stands by itself: its
//! journal has the entries of the steps that count, sealed anew, and says where they came from; it has
//! a folder with the files of that moment, if one is asked for; and where an agent was in the middle of
//! a step, it has a conversation of its own, under a name of its own. The other session is only read.
//!
//! The session is made last, in one transaction that names all it needs. Whatever a kill leaves before
//! that is used or replaced when the same is asked for again.

mod copy;
mod past;
mod place;
mod talk;

use std::path::{Path, PathBuf};

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::id::{CheckpointId, Name};
use segno_core::journal::{Event, SessionCreated, SessionForked};
use segno_core::lease::Owner;
use segno_core::session::Summary;
use segno_core::snapshot::{Progress, Restored};
use segno_core::store::Error as StoreError;
use segno_core::usage::Usage;

use crate::error::Error;
use crate::plan::{self, StepPlan};
use crate::resume::Options;
use crate::world::World;
use crate::{checkpoint, claim, pen, spec, start};
use copy::Copy;
use past::Past;
use place::Seat;
pub(crate) use place::settled;
use talk::Talk;

/// What a person asks for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// What of the other session is copied.
    pub part: Part,
    /// What to call the copy.
    pub name: Option<Name>,
    /// Where the copy's artifacts go; otherwise where the other's go.
    pub out: Option<PathBuf>,
}

/// What of a session is copied.
#[derive(Debug, Clone, Default)]
pub enum Part {
    /// All that is finished, and what agents are in the middle of. The folder is the same.
    #[default]
    All,
    /// What was finished before a step was first begun. The folder is the same.
    Before(String),
    /// The same as all, and the files as they are, in this folder. A checkpoint of them is taken first.
    Apart(PathBuf),
    /// What had been done when a checkpoint was taken, with the files of that moment.
    Until(Box<Manifest>, Place),
}

/// Where the files of a checkpoint go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Back to where they were; what is there is kept in a checkpoint first.
    Back,
    /// Into a new folder beside that of the other session, which is called after the copy.
    Beside,
    /// Into this folder.
    Into(PathBuf),
}

/// A copy that was made.
#[derive(Debug)]
pub struct Forked {
    /// The new session.
    pub summary: Summary,
    /// How many steps are done in it.
    pub steps: u64,
    /// What they took.
    pub usage: Usage,
    /// The checkpoint whose files it has.
    pub checkpoint: Option<CheckpointId>,
    /// What of the files could start a program, and came back under another name.
    pub set_aside: Vec<String>,
    /// The checkpoint of what the files replaced, if they did.
    pub rescue: Option<CheckpointId>,
}

/// A copy that would be made.
#[derive(Debug)]
pub struct Foreseen {
    /// What it would be called.
    pub name: Name,
    /// The folder that it would work in.
    pub workspace: PathBuf,
    /// The checkpoint whose files it would have.
    pub checkpoint: Option<CheckpointId>,
    /// What would be done to the files that are there now, if others came back in their place.
    pub replaced: Option<Restored>,
    /// Whoever runs a session in that folder; files would not come back under it.
    pub held_by: Option<Owner>,
    /// Steps that would be done.
    pub finished: u64,
    /// Steps that would go on, and how.
    pub steps: Vec<StepPlan>,
}

/// Makes a new session out of `summary`. It stands as paused.
pub async fn fork(
    world: &World,
    summary: &Summary,
    request: Request,
    progress: &Progress,
) -> Result<Forked, Error> {
    let request = match request.part {
        Part::Apart(folder) => Request {
            part: kept(world, summary, folder, progress).await?,
            ..request
        },
        _ => request,
    };
    let mut draft = Draft::new(world, summary, request).await?;
    let (mut set_aside, mut rescue) = (Vec::new(), None);
    if let Part::Until(manifest, place) = &draft.part {
        let filled = draft.seat.fill(world, manifest, place, progress).await?;
        set_aside = filled.restored.set_aside;
        rescue = filled.rescue.map(|rescue| rescue.id);
    }
    draft.forked.papers = talk::keep(world, &draft.talks).await?;
    loop {
        let copy = draft.copy(world)?;
        let (session, steps, usage) = (copy.session, copy.state.finished, copy.state.usage);
        match world.store.create(copy.ready(world, &draft.created)).await {
            // Someone else was faster.
            Err(StoreError::NameTaken(_)) if draft.seat.family.is_some() => {
                draft.created.name = draft.seat.next(world).await?;
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {
                return Ok(Forked {
                    summary: world.store.summary(session).await?,
                    steps,
                    usage,
                    checkpoint: draft.forked.checkpoint,
                    set_aside,
                    rescue,
                });
            }
        }
    }
}

/// Takes a checkpoint of a session whose copy is to have its files as they are.
async fn kept(
    world: &World,
    summary: &Summary,
    folder: PathBuf,
    progress: &Progress,
) -> Result<Part, Error> {
    let note = Some("before it was copied".to_owned());
    let taken = checkpoint::take(world, summary, Trigger::Manual, note, progress).await?;
    Ok(Part::Until(Box::new(taken.manifest), Place::Into(folder)))
}

/// Looks at what a fork and a resume of it would do. Nothing is changed.
pub async fn plan(
    world: &World,
    summary: &Summary,
    request: Request,
    options: &Options,
) -> Result<Foreseen, Error> {
    let draft = Draft::new(world, summary, request).await?;
    let state = draft.copy(world)?.state;
    let text = pen::recall(world, &draft.created.spec).await?;
    let workflow = spec::parse(&text).map_err(|problems| Error::Pinned {
        session: summary.id,
        digest: draft.created.spec_digest,
        reason: problems.to_string(),
    })?;
    let papers = talk::papers(&draft.talks);
    let steps = plan::steps(
        world,
        &workflow,
        &state,
        plan::Kept::Papers(&papers),
        options,
    );
    let (mut checkpoint, mut replaced, mut held_by) = (None, None, None);
    if let Part::Until(manifest, place) = &draft.part {
        checkpoint = Some(manifest.id);
        if *place == Place::Back {
            replaced = Some(draft.seat.foresee(world, manifest).await?);
            let mut users = claim::at_work(world, &draft.seat.folder).await?;
            held_by = users.pop().map(|(_, owner)| owner);
        }
    }
    Ok(Foreseen {
        steps: steps.await?,
        finished: state.finished,
        name: draft.created.name,
        workspace: draft.seat.folder,
        checkpoint,
        replaced,
        held_by,
    })
}

/// A copy that is not made yet.
struct Draft {
    part: Part,
    seat: Seat,
    created: SessionCreated,
    forked: SessionForked,
    events: Vec<Event>,
    talks: Vec<Talk>,
}

impl Draft {
    async fn new(world: &World, summary: &Summary, request: Request) -> Result<Self, Error> {
        let Request { part, name, out } = request;
        let past = Past::read(world, summary, &part).await?;
        let talks = talk::gather(world, summary, &past, &part).await?;
        let events = past.events(world, summary, &talks).await?;
        let seat = Seat::choose(world, summary, &part, name).await?;
        let mut created = past.created(world, summary, &seat).await?;
        if let Some(out) = out {
            created.out = start::text_of(&out)?;
        }
        let moved = Path::new(&summary.workspace) != seat.folder;
        let forked = SessionForked {
            from: summary.id,
            from_name: summary.name.clone(),
            seq: past.state.head.seq,
            before: past.before,
            checkpoint: match &part {
                Part::Until(manifest, _) => Some(manifest.id),
                Part::All | Part::Before(_) | Part::Apart(_) => None,
            },
            workspace: moved.then(|| summary.workspace.clone()),
            papers: None,
        };
        Ok(Self {
            part,
            seat,
            created,
            forked,
            events,
            talks,
        })
    }

    /// The journal of the copy.
    fn copy(&self, world: &World) -> Result<Copy, Error> {
        let mut copy = Copy::new(world);
        copy.write(self.created.clone().into())?;
        copy.write(world.run_started())?;
        copy.write(self.forked.clone().into())?;
        for event in &self.events {
            copy.write(event.clone())?;
        }
        copy.end()?;
        Ok(copy)
    }
}
