//! Checkpoints in a depot: a second home of what is kept here, which outlives this machine.
//!
//! The depot has the same files as the vault here, under names that say what is in them, and one
//! letter for each checkpoint. A letter is put there last, so whatever has one is whole (P4), and
//! the letters that are there are all that is true: there is no list that could be out of date.

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
pub use push::{Pushed, catch_up, push, push_all, withdraw};
pub use sweep::{Swept, sweep};

/// How many objects are on their way at the same time.
const LANES: usize = 4;

/// The folder of what will be deleted.
const TRASH: &str = "trash";

/// Where checkpoints are sent, and which.
#[derive(Clone)]
pub struct Storage {
    /// Where.
    pub depot: Arc<dyn Depot>,
    /// By themselves, only those with more bytes than this are sent.
    pub above: u64,
}

fn depot(world: &World) -> Result<&dyn Depot, Error> {
    let storage = world.storage.as_ref().ok_or(Error::NoStorage)?;
    Ok(&*storage.depot)
}

/// The checkpoints in the depot, oldest first; and what is wrong with those that cannot be shown.
pub async fn list(world: &World) -> Result<(Vec<Letter>, Vec<depot::Error>), Error> {
    let depot = depot(world)?;
    let names = letters(depot).await?;
    let reads: Vec<Boxed<'_, _>> = names.iter().map(|name| boxed(depot, name)).collect();
    let mut reads = futures_util::stream::iter(reads).buffer_unordered(2 * LANES);
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    while let Some(letter) = reads.next().await {
        match letter {
            Ok(Some(letter)) => found.push(letter),
            // It was withdrawn in the meantime.
            Ok(None) => {}
            Err(Error::Depot(error @ depot::Error::Damaged { .. })) => damaged.push(error),
            Err(error) => return Err(error),
        }
    }
    found.sort_by_key(|letter| letter.checkpoint.id);
    Ok((found, damaged))
}

/// The names of all letters.
async fn letters(depot: &dyn Depot) -> Result<Vec<String>, Error> {
    let objects = depot.list(FOLDER).await?;
    Ok(objects.into_iter().map(|object| object.name).collect())
}

fn boxed<'a>(depot: &'a dyn Depot, name: &'a str) -> Boxed<'a, Result<Option<Letter>, Error>> {
    Box::pin(read(depot, name))
}

/// Reads a letter; none if it is not there.
async fn read(depot: &dyn Depot, name: &str) -> Result<Option<Letter>, Error> {
    let mut wrong = None;
    // One that does not fit may have been changed on its way: then the second one does.
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

/// What is in a depot at one moment, as far as names tell.
struct Inventory {
    /// Parts, and how long they are.
    parts: HashMap<String, u64>,
    /// Parts that will be deleted.
    doomed: HashSet<String>,
    /// Letters.
    letters: HashSet<String>,
}

impl Inventory {
    async fn take(depot: &dyn Depot) -> Result<Self, Error> {
        let letters = letters(depot).await?.into_iter().collect();
        let mut parts = HashMap::new();
        for folder in ["packs", "manifests"] {
            let found = depot.list(folder).await?;
            parts.extend(found.into_iter().map(|object| (object.name, object.length)));
        }
        let mut doomed = HashSet::new();
        for object in depot.list(TRASH).await? {
            doomed.extend(object.name.strip_prefix("trash/").map(str::to_owned));
        }
        Ok(Self {
            parts,
            doomed,
            letters,
        })
    }

    /// Whether everything that a letter names is there, and stays.
    fn has_all(&self, letter: &Letter) -> bool {
        letter.parts.iter().all(|part| {
            let object = part.object();
            self.parts.get(&object) == Some(&part.bytes) && !self.doomed.contains(&object)
        })
    }
}

/// What the letter of a checkpoint is called.
fn name_of(manifest: &Manifest) -> String {
    Letter::object(manifest.session, manifest.id)
}
