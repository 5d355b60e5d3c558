//! Deleting sessions so that they can be had back, and destroying them for good (P8).

use std::collections::BTreeSet;
use std::time::Duration;

use segno_core::error::{Diagnose, Kind};
use segno_core::id::{self, Name, SessionId, Unresolved};
use segno_core::journal::{Head, Text};
use segno_core::lease::{Liveness, Verdict};
use segno_core::session::{Status, Summary};
use segno_core::store::{Discarded, Error as StoreError, Swept};
use segno_core::time::Timestamp;

use crate::error::Error;
use crate::world::World;
use crate::{claim, history, sessions};

/// A blob that was put this recently is never swept: someone may be about to refer to it.
const GRACE: Duration = Duration::from_hours(24);

/// What a person wants gone.
#[derive(Debug, Clone)]
pub enum Target {
    /// A session.
    Sound(Summary),
    /// A session that cannot be read, and why.
    Damaged(SessionId, StoreError),
}

impl Target {
    /// The session.
    pub fn id(&self) -> SessionId {
        match self {
            Target::Sound(summary) => summary.id,
            Target::Damaged(session, _) => *session,
        }
    }

    /// What it is called, if that can be read.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Target::Sound(summary) => Some(&summary.name),
            Target::Damaged(..) => None,
        }
    }
}

/// The session that a person wants gone. A damaged one is found by its whole id.
pub async fn target(world: &World, reference: &str) -> Result<Target, Error> {
    match (sessions::find(world, reference).await, reference.parse()) {
        (Ok(summary), _) => Ok(Target::Sound(summary)),
        (Err(Error::Store(error)), Ok(session)) if error.kind() == Kind::Damaged => {
            Ok(Target::Damaged(session, error))
        }
        (Err(error), _) => Err(error),
    }
}

/// Moves a session that nobody runs into the trash.
pub async fn discard(world: &World, target: &Target) -> Result<(), Error> {
    let session = target.id();
    let seen = match world.store.lease(session).await {
        Ok(lease) => Some(lease),
        Err(error) if error.kind() == Kind::Damaged => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(lease) = &seen
        && claim::verdict(world, lease) == Verdict::Held
    {
        let name = target.name().cloned();
        return Err(Error::InUse {
            session,
            name: name.unwrap_or_else(|| Name::like(&session.to_string())),
        });
    }
    Ok(world.store.discard(session, seen).await?)
}

/// A session in the trash, as a list shows it.
#[derive(Debug, Clone)]
pub struct Thrown {
    /// Which, and since when.
    pub discarded: Discarded,
    /// What its rows say, if they can be read.
    pub summary: Option<Summary>,
}

impl Thrown {
    /// What people call it.
    pub fn name(&self) -> Name {
        name(&self.discarded)
    }
}

/// What a session in the trash is called: like its id, if its name could not be read.
pub(crate) fn name(discarded: &Discarded) -> Name {
    let like_id = || Name::like(&discarded.session.to_string());
    discarded.name.clone().unwrap_or_else(like_id)
}

/// What is in the trash, newest first, and what is wrong with those that cannot be shown.
pub async fn list(world: &World) -> Result<(Vec<Thrown>, Vec<StoreError>), Error> {
    let (mut thrown, mut damaged) = (Vec::new(), Vec::new());
    for found in world.store.discarded().await? {
        match found {
            Ok(discarded) => {
                let mut summary = world.store.summary(discarded.session).await.ok();
                if let Some(summary) = &mut summary
                    && summary.status == Status::Running
                {
                    // Nobody runs what is in the trash.
                    summary.status = Status::Interrupted;
                }
                thrown.push(Thrown { discarded, summary });
            }
            Err(error) => damaged.push(error),
        }
    }
    Ok((thrown, damaged))
}

/// The session in the trash that a person means.
pub async fn find(world: &World, reference: &str) -> Result<Discarded, Error> {
    let all: Vec<Discarded> = world
        .store
        .discarded()
        .await?
        .into_iter()
        .flatten()
        .collect();
    let names: Vec<_> = all
        .iter()
        .map(|discarded| (discarded.session, name(discarded)))
        .collect();
    match id::resolve(reference, &names) {
        Ok((session, _)) => Ok(all
            .into_iter()
            .find(|discarded| discarded.session == session)
            .expect("it was just found")),
        Err(Unresolved::Unknown) => Err(Error::NotInTrash {
            reference: reference.to_owned(),
        }),
        Err(Unresolved::Ambiguous(candidates)) => Err(Error::Ambiguous {
            reference: reference.to_owned(),
            candidates,
        }),
    }
}

/// Takes a session out of the trash, and returns what it is called now. A name that nobody asked
/// for is numbered until it is free.
pub async fn restore(
    world: &World,
    discarded: &Discarded,
    wanted: Option<Name>,
) -> Result<Name, Error> {
    let family = wanted.clone().unwrap_or_else(|| name(discarded));
    for number in 1.. {
        let name = family.numbered(number);
        match world
            .store
            .restore(discarded.session, Some(name.clone()))
            .await
        {
            Err(StoreError::NameTaken(_)) if wanted.is_none() => {}
            other => return Ok(other.map(|()| name)?),
        }
    }
    unreachable!("there are more numbers than sessions")
}

/// What has been in the trash for longer than `keep`.
pub async fn expired(world: &World, keep: Duration) -> Result<Vec<Thrown>, Error> {
    let now = world.clock.now();
    let (mut thrown, _) = list(world).await?;
    thrown.retain(|thrown| now.since(thrown.discarded.at) >= keep);
    Ok(thrown)
}

/// What came of a sweep.
#[derive(Debug)]
pub enum Sweep {
    /// It removed this much.
    Done(Swept),
    /// It removed nothing: who refers to what is only known if every journal can be read.
    Blind(Error),
}

/// Removes blobs that no session refers to, those in the trash included.
pub async fn sweep(world: &World) -> Result<Sweep, Error> {
    let mut before = world.clock.now().before(GRACE);
    let mut sessions = Vec::new();
    for found in world.store.list().await? {
        match found {
            Ok(summary) => sessions.push(summary.id),
            Err(error) => return Ok(Sweep::Blind(error.into())),
        }
    }
    for found in world.store.discarded().await? {
        match found {
            Ok(discarded) => sessions.push(discarded.session),
            Err(error) => return Ok(Sweep::Blind(error.into())),
        }
    }
    let mut kept = BTreeSet::new();
    for session in sessions {
        match refer(world, session, &mut kept).await {
            Ok(Some(since)) => before = before.min(since),
            Ok(None) => {}
            Err(error) if matches!(error.kind(), Kind::Damaged | Kind::Invalid) => {
                return Ok(Sweep::Blind(error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Sweep::Done(world.store.sweep(kept, before).await?))
}

/// Adds the blobs that a session refers to. Returns since when its owner may be at work: what it put
/// meanwhile it may be about to refer to, however long that takes (P15).
async fn refer(
    world: &World,
    session: SessionId,
    kept: &mut BTreeSet<segno_core::digest::Digest>,
) -> Result<Option<Timestamp>, Error> {
    let lease = world.store.lease(session).await?;
    history::follow(world, session, Head::genesis(session), |entry| {
        if let Some(Text::Blob { blob, .. }) = entry.event.text() {
            kept.insert(*blob);
        }
        Ok(())
    })
    .await?;
    let lives = |owner| world.processes.liveness(owner) != Liveness::Gone;
    Ok(lease
        .owner
        .as_ref()
        .is_some_and(lives)
        .then_some(lease.since))
}
