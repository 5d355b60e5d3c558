//! Checkpoints in a remote: a second copy of the snapshot store that survives the loss of this
//! machine.
//!
//! The remote has the same files as the local snapshot store, and one announcement per checkpoint.
//! The announcement is put last, so a checkpoint with an announcement is complete (P4). The
//! announcements are the only index: there is no list that could be outdated.

mod pull;
mod push;
mod sweep;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use segno_core::checkpoint::Manifest;
use segno_core::depot::{self, Depot};
use segno_core::letter::{Broken, FOLDER, LONGEST, Letter, VERSION};
use segno_core::ports::Boxed;
use segno_core::store::Error as StoreError;

use crate::error::Error;
use crate::world::World;

pub use pull::{Arrival, Pulled, pull};
pub use push::{Pushed, catch_up, delete_announcement, push, push_all};
pub use sweep::{Swept, sweep};

/// How many objects are transferred at the same time.
const CONCURRENT_TRANSFERS: usize = 4;

/// The folder of deletion marks.
const TRASH: &str = "trash";

/// Where checkpoints are pushed to, and which ones.
#[derive(Clone)]
pub struct Storage {
    pub depot: Arc<dyn Depot>,
    /// Only checkpoints with more bytes than this are pushed automatically.
    pub above: u64,
}

fn depot(world: &World) -> Result<&dyn Depot, Error> {
    let storage = world.storage.as_ref().ok_or(Error::NoStorage)?;
    Ok(&*storage.depot)
}

/// The checkpoints in the remote, oldest first; and the errors of unreadable ones.
pub async fn list(world: &World) -> Result<(Vec<Letter>, Vec<depot::Error>), Error> {
    let depot = depot(world)?;
    let names = announcements(depot).await?;
    let reads: Vec<Boxed<'_, _>> = names.iter().map(|name| boxed(depot, name)).collect();
    let mut reads = futures_util::stream::iter(reads).buffer_unordered(2 * CONCURRENT_TRANSFERS);
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    while let Some(letter) = reads.next().await {
        match letter {
            Ok(Some(letter)) => found.push(letter),
            // It was withdrawn meanwhile.
            Ok(None) => {}
            Err(Error::Depot(error @ depot::Error::Damaged { .. })) => damaged.push(error),
            Err(error) => return Err(error),
        }
    }
    found.sort_by_key(|letter| letter.checkpoint.id);
    Ok((found, damaged))
}

/// The names of all announcements.
async fn announcements(depot: &dyn Depot) -> Result<Vec<String>, Error> {
    let objects = depot.list(FOLDER).await?;
    Ok(objects.into_iter().map(|object| object.name).collect())
}

fn boxed<'a>(depot: &'a dyn Depot, name: &'a str) -> Boxed<'a, Result<Option<Letter>, Error>> {
    Box::pin(read(depot, name))
}

/// Reads an announcement; `None` if it is absent.
async fn read(depot: &dyn Depot, name: &str) -> Result<Option<Letter>, Error> {
    let mut wrong = None;
    // A mismatch may be a transfer error, so the object is read a second time.
    for _ in 0..2 {
        let bytes = match depot.read(name, LONGEST).await {
            Err(depot::Error::Missing { .. }) => return Ok(None),
            other => other?,
        };
        match Letter::from_bytes(name, &bytes) {
            Ok(letter) => return Ok(Some(letter)),
            Err(Broken::Newer(found)) => {
                return Err(Error::Store(StoreError::Newer {
                    place: format!("{name} in storage {}", depot.url()),
                    found,
                    known: VERSION,
                }));
            }
            Err(broken) => wrong = Some(broken),
        }
    }
    let reason = wrong.map_or_else(String::new, |broken| broken.to_string());
    Err(Error::Depot(depot::Error::Damaged {
        place: depot.url().to_owned(),
        object: name.to_owned(),
        reason,
    }))
}

/// The objects in a remote at one point in time, by name.
struct Inventory {
    /// Sizes by object name.
    parts: HashMap<String, u64>,
    /// Objects that are marked for deletion.
    marked: HashSet<String>,
    announcements: HashSet<String>,
}

impl Inventory {
    async fn read(depot: &dyn Depot) -> Result<Self, Error> {
        let announcements = announcements(depot).await?.into_iter().collect();
        let mut parts = HashMap::new();
        for folder in ["packs", "manifests"] {
            let found = depot.list(folder).await?;
            parts.extend(found.into_iter().map(|object| (object.name, object.length)));
        }
        let mut marked = HashSet::new();
        for object in depot.list(TRASH).await? {
            marked.extend(object.name.strip_prefix("trash/").map(str::to_owned));
        }
        Ok(Self {
            parts,
            marked,
            announcements,
        })
    }

    /// Whether every object of an announcement exists and is not marked for deletion.
    fn has_all(&self, letter: &Letter) -> bool {
        letter.parts.iter().all(|part| {
            let object = part.object();
            self.parts.get(&object) == Some(&part.bytes) && !self.marked.contains(&object)
        })
    }
}

/// The object name of a checkpoint's announcement.
fn name_of(manifest: &Manifest) -> String {
    Letter::object(manifest.session, manifest.id)
}
