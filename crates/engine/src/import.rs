//! A session out of a file that was exported elsewhere.
//!
//! Everything is verified before anything is written. Then the long texts are kept, which nobody
//! sees, and the session is made with all its records in one transaction: a kill leaves nothing or
//! all of it.

use segno_core::bundle::{self, Bundle};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Head, Record};
use segno_core::session::Status;
use segno_core::store::{Batch, Error as StoreError, Hold, New};

use crate::error::Error;
use crate::pen;
use crate::world::World;

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
