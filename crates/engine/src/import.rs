//! A session out of a file that was exported elsewhere.
//!
//! Everything is verified before anything is written. Then the long texts are kept, which nobody
//! sees, and the session is made with all its records in one transaction: a kill leaves nothing or
//! all of it.

use std::path::{Path, PathBuf};

use segno_core::bundle::{self, Bundle};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Head, Record};
use segno_core::session::{Status, Summary};
use segno_core::store::{Batch, Error as StoreError, Hold, New};

use crate::error::Error;
use crate::world::World;
use crate::{claim, pen, relocate, start};

/// A session that was imported.
#[derive(Debug)]
pub struct Imported {
    /// The session.
    pub session: SessionId,
    /// What it is called here.
    pub name: Name,
    /// Where it stands.
    pub status: Status,
    /// The folder it works in.
    pub workspace: String,
    /// How many journal entries it has.
    pub records: u64,
    /// How many long texts.
    pub texts: u64,
    /// Whether it was being run when it was exported.
    pub running: bool,
}

/// Reads a file and verifies all of it. `place` is what people call the file.
pub fn read(place: &str, bytes: &[u8]) -> Result<Bundle, Error> {
    bundle::read(bytes).map_err(|error| match error {
        bundle::Error::Newer(found) => Error::Store(StoreError::Newer {
            place: place.to_owned(),
            found,
            known: bundle::VERSION,
        }),
        error => Error::Unimportable {
            place: place.to_owned(),
            error,
        },
    })
}

/// Makes the session of a file that was read. A name that nobody asked for is numbered until it is
/// free. `progress` is told how many texts are kept, of how many.
pub async fn import(
    world: &World,
    bundle: Bundle,
    wanted: Option<Name>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Imported, Error> {
    let session = bundle.header.session;
    refuse(world, &bundle).await?;
    let Bundle {
        header,
        records,
        state,
        texts,
    } = bundle;
    let total = texts.len() as u64;
    for (done, (_, text)) in (1..).zip(texts) {
        world.store.put(text.into_bytes()).await?;
        progress(done, total);
    }
    let created = state
        .created
        .as_ref()
        .expect("a bundle that was read has a session that was created");
    let count = records.len() as u64;
    let batch = Batch {
        session,
        run: state.run,
        expected: Head::genesis(session),
        records,
        status: state.status,
        spec_digest: state.spec_digest,
        workspace: None,
        lease: Hold::Release,
        folded: Some(pen::fold(&state)),
        taken: Vec::new(),
    };
    let new = New {
        id: session,
        name: wanted.clone().unwrap_or(header.name),
        kind: created.kind,
        workspace: created.workspace.clone(),
        owner: world.processes.current(),
        ttl: world.ttl,
        batch,
    };
    let name = create(world, new, wanted.is_some()).await?;
    Ok(Imported {
        session,
        name,
        status: match state.status {
            // Whoever ran it is elsewhere.
            Status::Running => Status::Interrupted,
            status => status,
        },
        workspace: created.workspace.clone(),
        records: count,
        texts: total,
        running: header.running,
    })
}

/// The same for a session that goes on in a folder here, if one is given. An import that was killed in
/// between is finished.
pub async fn import_into(
    world: &World,
    bundle: Bundle,
    wanted: Option<Name>,
    into: Option<PathBuf>,
    progress: impl FnMut(u64, u64),
) -> Result<Imported, Error> {
    let Some(into) = into else {
        return import(world, bundle, wanted, progress).await;
    };
    let mut imported = match before(world, &bundle, Some(&into)).await? {
        Before::Nothing => import(world, bundle, wanted, progress).await?,
        Before::Came(summary) | Before::Moved(summary) => {
            let lease = world.store.lease(summary.id).await?;
            Imported {
                session: summary.id,
                status: claim::standing(world, &summary, &lease),
                name: summary.name,
                workspace: summary.workspace,
                records: summary.head.seq.0,
                texts: bundle.texts.len() as u64,
                running: bundle.header.running,
            }
        }
    };
    let summary = world.store.summary(imported.session).await?;
    relocate::relocate(world, &summary, &into).await?;
    imported.workspace = start::text_of(&into)?;
    Ok(imported)
}

/// Makes a session, and returns its name: the given one, or the first of its family that is free.
pub(crate) async fn create(world: &World, new: New, is_given: bool) -> Result<Name, Error> {
    let family = new.name.clone();
    for number in 1.. {
        let name = family.numbered(number);
        let new = New {
            name: name.clone(),
            ..new.clone()
        };
        match world.store.create(new).await {
            Err(StoreError::NameTaken(_)) if !is_given => {}
            other => return Ok(other.map(|_| name)?),
        }
    }
    unreachable!("there are more numbers than sessions")
}

/// How the session here stands to the one in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// They are the same.
    Same,
    /// The file goes on where the one here ends.
    Behind,
    /// The one here goes on where the file ends.
    Ahead,
    /// They went different ways.
    Apart,
    /// The one here is in the trash.
    InTrash,
}

/// How far an import came that was killed, or was done before.
#[derive(Debug)]
pub enum Before {
    /// Nothing of it is here.
    Nothing,
    /// The session is here, as the file has it.
    Came(Summary),
    /// The session is here, as the file has it, and was given the folder.
    Moved(Summary),
}

/// How far the import of a session came before. One that is here and went on, or went another way, is
/// refused.
pub async fn before(world: &World, bundle: &Bundle, into: Option<&Path>) -> Result<Before, Error> {
    let session = bundle.header.session;
    match refuse(world, bundle).await {
        Ok(()) => Ok(Before::Nothing),
        Err(Error::Exists {
            relation: Relation::Same,
            ..
        }) => Ok(Before::Came(world.store.summary(session).await?)),
        Err(
            error @ Error::Exists {
                relation: Relation::Ahead,
                ..
            },
        ) => {
            let summary = world.store.summary(session).await?;
            let end = bundle.records.len() as u64;
            let into = into.and_then(|into| into.canonicalize().ok());
            if into != Some(PathBuf::from(&summary.workspace)) || summary.head.seq.0 != end + 1 {
                return Err(error);
            }
            match world.store.entry(session, summary.head.seq).await?.event {
                Event::SessionMoved(_) => Ok(Before::Moved(summary)),
                _ => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Refuses a session whose id is in use here, and says how the two are related.
pub(crate) async fn refuse(world: &World, bundle: &Bundle) -> Result<(), Error> {
    let session = bundle.header.session;
    let thrown = world.store.discarded().await?;
    let thrown = thrown.into_iter().flatten();
    let discarded = thrown.into_iter().any(|thrown| thrown.session == session);
    let (name, relation, here) = match world.store.summary(session).await {
        Err(StoreError::NoSession(_)) if !discarded => return Ok(()),
        Err(StoreError::NoSession(_)) => (bundle.header.name.clone(), Relation::InTrash, 0),
        Ok(summary) if discarded => {
            let name = bundle.header.name.clone();
            (name, Relation::InTrash, summary.head.seq.0)
        }
        Ok(summary) => {
            let relation = relate(world, session, summary.head, &bundle.records).await?;
            (summary.name, relation, summary.head.seq.0)
        }
        Err(error) => return Err(error.into()),
    };
    Err(Error::Exists {
        session,
        name,
        relation,
        here,
        there: bundle.records.len() as u64,
    })
}

async fn relate(
    world: &World,
    session: SessionId,
    here: Head,
    there: &[Record],
) -> Result<Relation, Error> {
    let end = there.last().map_or(Head::genesis(session), Record::head);
    if here == end {
        return Ok(Relation::Same);
    }
    if here.seq < end.seq {
        let index = usize::try_from(here.seq.0).unwrap_or(usize::MAX);
        let same = index.checked_sub(1).and_then(|index| there.get(index));
        let is_prefix = same.is_some_and(|record| record.head() == here);
        return Ok(if is_prefix {
            Relation::Behind
        } else {
            Relation::Apart
        });
    }
    let entry = world.store.entry(session, end.seq).await?;
    Ok(if entry.head() == end {
        Relation::Ahead
    } else {
        Relation::Apart
    })
}
