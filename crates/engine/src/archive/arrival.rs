//! A session that comes from elsewhere with its files, and goes on in a folder here.
//!
//! Everything is verified first. Then, in this order, each step durable before the next: the files
//! become a snapshot that nobody names; the session is made, with all its records in one transaction;
//! the checkpoint is kept, with the records of its agents' conversations; the files are brought into
//! the folder, staged as every restore is; and one entry gives the session that folder. A kill between
//! two of these leaves what the same call finds and goes on from. Once the entry is written the same
//! call changes nothing, so that files which were worked on since are not replaced.

use std::path::PathBuf;

use segno_core::archive::{Keeping, Limits};
use segno_core::id::Name;
use segno_core::session::Summary;
use segno_core::snapshot::Progress;

use super::import::{Imported, Request, unpack};
use super::{names, parcel, refuse};
use crate::checkpoint::{self, Returned};
use crate::error::Error;
use crate::import::{self, Before};
use crate::world::World;
use crate::{claim, relocate};

/// What comes, and where to.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The folder that was exported.
    pub from: PathBuf,
    /// The folder that the session goes on in; without one its files stay in the checkpoint.
    pub into: Option<PathBuf>,
    /// Whether what could start programs is brought back as it was.
    pub trust: bool,
    /// What to call the session.
    pub name: Option<Name>,
    /// What the archive may ask for.
    pub limits: Limits,
}

/// A session that came.
#[derive(Debug)]
pub struct Arrived {
    /// The session, as it is here now.
    pub summary: Summary,
    /// What was imported; `None` if all of it was here already, in its folder.
    pub imported: Option<Imported>,
    /// What was brought into the folder.
    pub returned: Option<Returned>,
}

/// Makes a session and its checkpoint out of a folder, and lets the session go on in a folder here.
pub async fn arrive(
    world: &World,
    arrival: &Arrival,
    progress: &Progress,
) -> Result<Arrived, Error> {
    if let Some(into) = arrival.into.as_ref().filter(|into| into.exists()) {
        relocate::folder(into)?;
    }
    let parcel = parcel::read(world, &arrival.from)?;
    let Some(bundle) = &parcel.bundle else {
        let reason = format!("it has no {}: it is no session", names::SESSION);
        return Err(refuse(&arrival.from, reason));
    };
    let session = bundle.header.session;
    match import::before(world, bundle, arrival.into.as_deref()).await? {
        Before::Moved(summary) => {
            return Ok(Arrived {
                summary,
                imported: None,
                returned: None,
            });
        }
        Before::Came(summary) => claim::at_rest(world, &summary).await?,
        Before::Nothing => {}
    }
    let request = Request {
        from: arrival.from.clone(),
        limits: arrival.limits,
        keeping: Keeping::Keep,
        name: arrival.name.clone(),
    };
    let imported = unpack(world, parcel, &request, progress).await?;
    let mut returned = None;
    if let Some(into) = &arrival.into {
        let request = checkpoint::Request {
            into: Some(into.clone()),
            exact: false,
            dry: false,
            trust: arrival.trust,
        };
        let manifest = &imported.manifest;
        returned = Some(checkpoint::restore(world, manifest, request, progress).await?);
        let summary = world.store.summary(session).await?;
        relocate::relocate(world, &summary, into).await?;
    }
    Ok(Arrived {
        summary: world.store.summary(session).await?,
        imported: Some(imported),
        returned,
    })
}
