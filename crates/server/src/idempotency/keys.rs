//! What is stored about each key, one or two files each.
//!
//! `requests/GENERATION/KEY.json` is the intent, written before the effect; `KEY.done` is the
//! outcome, written after it. Both are complete and durable, or absent. A generation is a folder
//! with at most [`MAX_KEYS`] keys, in use for at most [`AGE`]; the newest two are kept. So a key is
//! remembered for at least a day, unless more than [`MAX_KEYS`] newer ones came.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use segno_core::checkpoint::Position;
use segno_core::digest::Digest;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::SessionId;
use segno_core::ports::{Access, Clock, Disk, replace_file};
use segno_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How many keys a generation has.
const MAX_KEYS: usize = 10_000;
/// How long new keys are added to a generation.
const AGE: Duration = Duration::from_hours(24);
/// How many generations are kept.
const GENERATIONS: usize = 2;
/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// Why keys cannot be stored.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used: {reason}", .path.display())]
pub(crate) struct Error {
    path: PathBuf,
    reason: io::Error,
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Unavailable, "F0201")
    }
}

/// What the sender of a key asked for, written before the effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Intent {
    pub(super) v: u32,
    pub(super) route: String,
    /// The digest of the address and the body.
    pub(super) fingerprint: Digest,
    /// The mark that the effect carries.
    pub(super) operation: String,
    /// Milliseconds since 1970.
    pub(super) at_ms: i64,
    /// The session of the request, and where its journal ended.
    pub(super) session: Option<(SessionId, Position)>,
}

/// What was answered, written after the effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outcome {
    pub(super) v: u32,
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) location: Option<String>,
    pub(super) body: String,
}

/// What is known about a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// The effect may have happened.
    Intent(Intent),
    Outcome(Intent, Outcome),
    /// There is an intent that cannot be read.
    Damaged,
}

/// The keys of a home.
pub(super) struct Keys {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    /// The generations, oldest first, and how many keys the newest one has.
    generations: Mutex<Option<Generations>>,
}

struct Generations {
    folders: Vec<(i64, PathBuf)>,
    newest_keys: usize,
}

impl Keys {
    pub(super) fn new(folder: PathBuf, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Self {
        Self {
            folder,
            disk,
            clock,
            generations: Mutex::new(None),
        }
    }

    pub(super) fn find(&self, key: &Digest) -> Result<Known, Error> {
        let mut generations = self.lock();
        let folders = self.load(&mut generations)?.folders.clone();
        drop(generations);
        for (_, folder) in folders.iter().rev() {
            let (intent, outcome) = files(folder, key);
            let Some(body) = self.read(&intent)? else {
                continue;
            };
            let Some(intent) = parse::<Intent>(&body).filter(|intent| intent.v == 1) else {
                return Ok(Known::Damaged);
            };
            let outcome = self.read(&outcome)?;
            // A damaged outcome is found again as one after a crash is.
            let outcome = outcome.and_then(|body| parse::<Outcome>(&body));
            return Ok(match outcome.filter(|outcome| outcome.v == 1) {
                Some(outcome) => Known::Outcome(intent, outcome),
                None => Known::Intent(intent),
            });
        }
        Ok(Known::Nothing)
    }

    /// Stores an intent. Durable when it returns.
    pub(super) fn begin(&self, key: &Digest, intent: &Intent) -> Result<(), Error> {
        let folder = self.newest()?;
        let body = serde_json::to_vec(intent).expect("an intent of plain values");
        self.write(&files(&folder, key).0, &body)
    }

    /// Stores an outcome beside its intent. Durable when it returns.
    pub(super) fn finish(&self, key: &Digest, outcome: &Outcome) -> Result<(), Error> {
        let body = serde_json::to_vec(outcome).expect("an outcome of plain values");
        match self.folder_of(key)? {
            Some(folder) => self.write(&files(&folder, key).1, &body),
            // It became too old meanwhile.
            None => Ok(()),
        }
    }

    /// Removes the intent of a request that was refused.
    pub(super) fn forget(&self, key: &Digest) -> Result<(), Error> {
        let Some(folder) = self.folder_of(key)? else {
            return Ok(());
        };
        let path = files(&folder, key).0;
        let removed = self.disk.remove(&path);
        removed.map_err(|reason| Error { path, reason })
    }

    fn folder_of(&self, key: &Digest) -> Result<Option<PathBuf>, Error> {
        let folders = self.load(&mut self.lock())?.folders.clone();
        for (_, folder) in folders.into_iter().rev() {
            if self.read(&files(&folder, key).0)?.is_some() {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    /// The folder for a new key. Starts a generation, and removes old ones, when it is time.
    fn newest(&self) -> Result<PathBuf, Error> {
        let mut guard = self.lock();
        let generations = self.load(&mut guard)?;
        let now = self.clock.now();
        let newest = generations.folders.last();
        let is_usable = newest.is_some_and(|(since, _)| now < Timestamp(*since).after(AGE));
        if !is_usable || generations.newest_keys >= MAX_KEYS {
            // The order of names is that of generations, whatever the clock does.
            let least = newest.map_or(i64::MIN, |(since, _)| since.saturating_add(1));
            let since = now.0.max(least);
            let folder = self.folder.join(format!("{since:015}"));
            let created = self.disk.create_folder(&folder, Access::Private);
            let synced = created.and_then(|()| self.disk.sync_folder(&self.folder));
            synced.map_err(|reason| Error {
                path: folder.clone(),
                reason,
            })?;
            generations.folders.push((since, folder));
            generations.newest_keys = 0;
            while generations.folders.len() > GENERATIONS {
                let (_, old) = generations.folders.remove(0);
                self.remove(&old);
            }
        }
        generations.newest_keys += 1;
        let newest = generations.folders.last();
        Ok(newest.expect("a generation was added").1.clone())
    }

    /// Removes a generation, as far as that works; the next sweep tries again.
    fn remove(&self, folder: &Path) {
        for file in self.disk.list(folder).unwrap_or_default() {
            let _ = self.disk.remove(&file);
        }
        let _ = self.disk.remove_folder(folder);
    }

    /// Reads which generations there are, once.
    fn load<'a>(
        &self,
        generations: &'a mut MutexGuard<'_, Option<Generations>>,
    ) -> Result<&'a mut Generations, Error> {
        if generations.is_none() {
            let unusable = |reason| Error {
                path: self.folder.clone(),
                reason,
            };
            let listed = self.disk.list(&self.folder).map_err(unusable)?;
            let mut folders: Vec<(i64, PathBuf)> = listed
                .into_iter()
                .filter_map(|folder| Some((folder.file_name()?.to_str()?.parse().ok()?, folder)))
                .collect();
            folders.sort();
            while folders.len() > GENERATIONS {
                let (_, old) = folders.remove(0);
                self.remove(&old);
            }
            let newest_keys = match folders.last() {
                None => 0,
                Some((_, newest)) => self.disk.list(newest).map_err(unusable)?.len(),
            };
            **generations = Some(Generations {
                folders,
                newest_keys,
            });
        }
        Ok(generations.as_mut().expect("it was loaded"))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Generations>> {
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        match self.disk.read(path, MAX_BYTES) {
            Ok(body) => Ok(Some(body)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(reason) => Err(Error {
                path: path.to_owned(),
                reason,
            }),
        }
    }

    fn write(&self, path: &Path, body: &[u8]) -> Result<(), Error> {
        let draft = path.with_extension("draft");
        let written = replace_file(&*self.disk, &draft, path, body, Access::Private, |_| {});
        written.map_err(|reason| Error {
            path: path.to_owned(),
            reason,
        })
    }
}

fn files(folder: &Path, key: &Digest) -> (PathBuf, PathBuf) {
    let file = |ending: &str| folder.join(format!("{key}.{ending}"));
    (file("json"), file("done"))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_disk::{MemoryDisk, StandingClock};

    const FOLDER: &str = "/server/requests";

    fn intent() -> Intent {
        Intent {
            v: 1,
            route: "/x".to_owned(),
            fingerprint: Digest::of(b"body"),
            operation: "0".repeat(16),
            at_ms: 0,
            session: None,
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            v: 1,
            status: 200,
            content_type: None,
            location: None,
            body: "{}".to_owned(),
        }
    }

    fn key(number: usize) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    struct Fixture {
        disk: Arc<MemoryDisk>,
        clock: Arc<StandingClock>,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                disk: Arc::default(),
                clock: Arc::default(),
            }
        }

        /// The keys, as a process has them that has just started.
        fn open(&self) -> Keys {
            let disk: Arc<dyn Disk> = self.disk.clone();
            Keys::new(FOLDER.into(), disk, self.clock.clone())
        }
    }

    #[test]
    fn keys_are_found_by_the_next_process() {
        let fixture = Fixture::new();
        let keys = fixture.open();
        assert_eq!(keys.find(&key(1)).unwrap(), Known::Nothing);
        keys.begin(&key(1), &intent()).unwrap();
        assert_eq!(
            fixture.open().find(&key(1)).unwrap(),
            Known::Intent(intent())
        );
        keys.finish(&key(1), &outcome()).unwrap();
        let known = Known::Outcome(intent(), outcome());
        assert_eq!(fixture.open().find(&key(1)).unwrap(), known);
        keys.begin(&key(2), &intent()).unwrap();
        keys.forget(&key(2)).unwrap();
        assert_eq!(keys.find(&key(2)).unwrap(), Known::Nothing);
    }

    #[test]
    fn damaged_files_are_never_taken_for_absent() {
        let fixture = Fixture::new();
        let keys = fixture.open();
        keys.begin(&key(1), &intent()).unwrap();
        keys.finish(&key(1), &outcome()).unwrap();
        let names = fixture.disk.names();
        for (name, known) in [
            (&names[0], Known::Intent(intent())),
            (&names[1], Known::Damaged),
        ] {
            let path = Path::new(name);
            fixture.disk.remove(path).unwrap();
            fixture.disk.create(path, b"{", Access::Private).unwrap();
            assert_eq!(keys.find(&key(1)).unwrap(), known);
        }
    }

    #[test]
    fn keys_are_bounded_in_number_and_age() {
        let fixture = Fixture::new();
        let mut keys = fixture.open();
        for number in 0..=2 * MAX_KEYS {
            keys.begin(&key(number), &intent()).unwrap();
            if number % 7000 == 0 {
                keys = fixture.open();
            }
        }
        assert_eq!(fixture.disk.names().len(), MAX_KEYS + 1);
        assert_eq!(keys.find(&key(0)).unwrap(), Known::Nothing);
        let newest = key(2 * MAX_KEYS);
        assert_eq!(keys.find(&newest).unwrap(), Known::Intent(intent()));
        // After a day, new keys are in a new generation, and after two the old ones are gone.
        fixture.clock.pass(AGE * 2);
        keys.begin(&key(1), &intent()).unwrap();
        assert_eq!(keys.find(&newest).unwrap(), Known::Intent(intent()));
        fixture.clock.pass(AGE * 2);
        keys.begin(&key(2), &intent()).unwrap();
        assert_eq!(keys.find(&newest).unwrap(), Known::Nothing);
        assert_eq!(fixture.disk.names().len(), 2);
    }
}
