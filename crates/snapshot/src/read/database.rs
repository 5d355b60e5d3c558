//! Databases that keep their newest changes in a log file, as `SQLite` does.
//!
//! A database and its log are consistent only if both are from the same instant. So the database is
//! read, then its log; then the log and finally the database must still equal what was read. Hence
//! there was an instant in between at which both had the content that was stored. A log that only
//! grew is complete: what was appended belongs to a later instant, and the database would show it
//! if anything had built upon it.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::entry::Why;
use crate::error::Error;
use crate::machine::sleep;
use crate::openat::{self, Facts};
use crate::read::{Attempt, PAUSES, Reader, Reading, StoredFile};

/// The first bytes of an `SQLite` database.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// The suffixes that the names of logs append to the name of their database.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// The database that a log belongs to, judging by its name.
pub(crate) fn database_of(log: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = log.as_os_str().as_bytes();
    if !LOGS.iter().any(|suffix| path.ends_with(suffix.as_bytes())) {
        return None;
    }
    let name = log.file_name()?.as_bytes();
    let mut names = LOGS
        .iter()
        .filter_map(|suffix| name.strip_suffix(suffix.as_bytes()));
    let name = names.find(|name| !name.is_empty())?;
    Some(log.with_file_name(std::ffi::OsStr::from_bytes(name)))
}

impl<'a> Reader<'a, '_> {
    /// Reads and stores a file and then its logs, if it has any.
    pub(crate) fn read_with_logs(
        &mut self,
        path: &'a Path,
        logs: &[&'a Path],
    ) -> Result<Vec<Reading>, Error> {
        if logs.is_empty() {
            let reading = self.read(path)?;
            if !matches!(&reading, Reading::Stored(stored) if stored.is_database) {
                return Ok(vec![reading]);
            }
        }
        let mut pauses = PAUSES.iter();
        loop {
            let mut attempts = vec![self.attempt_at(path)?];
            for log in logs {
                attempts.push(self.attempt_at(log)?);
            }
            // Backwards: each file is known to be the same when those after it were read.
            let mut still = true;
            for (at, attempt) in attempts.iter_mut().enumerate().rev() {
                still = still && self.is_unmodified(attempt, at == 0)?;
            }
            let whole = still && !self.has_unknown_log(path, logs);
            let next = pauses.next().filter(|_| !whole);
            let Some(&millis) = next else {
                let readings = attempts.into_iter().map(|attempt| reading(attempt, whole));
                return Ok(readings.collect());
            };
            sleep(Duration::from_millis(millis));
        }
    }

    fn attempt_at(&mut self, path: &'a Path) -> Result<Result<Attempt, Why>, Error> {
        (self.path, self.is_database) = (path, false);
        self.read_once(path)
    }

    /// Whether a file is still as it was read. Logs may have become longer.
    fn is_unmodified(
        &mut self,
        attempt: &mut Result<Attempt, Why>,
        is_main: bool,
    ) -> Result<bool, Error> {
        let Ok(Attempt {
            file,
            before,
            stored,
            ..
        }) = attempt
        else {
            return Ok(true);
        };
        let now = Facts::of(&*file).unwrap_or(*before);
        if stored.trusted && now == *before {
            return Ok(true);
        }
        // The timestamps of a recently changed file prove nothing; its content does.
        let fits = stored.facts.size == before.size && (!is_main || now.size == before.size);
        Ok(fits && self.is_same(file, before.size, &stored.content)?)
    }

    /// Whether there is a log that was unknown when the walk listed the files.
    fn has_unknown_log(&self, path: &Path, logs: &[&Path]) -> bool {
        LOGS.iter().any(|suffix| {
            let mut log = OsString::from(path);
            log.push(suffix);
            let log = Path::new(&log);
            !logs.contains(&log) && openat::file(self.root.as_fd(), log).is_ok()
        })
    }
}

fn reading(attempt: Result<Attempt, Why>, whole: bool) -> Reading {
    match attempt {
        Ok(attempt) => Reading::Stored(StoredFile {
            unstable: !whole,
            ..attempt.stored
        }),
        Err(why) => Reading::Excluded(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_name_gives_its_database() {
        let database = |log: &str| database_of(Path::new(log));
        assert_eq!(database("a/b.db-wal"), Some(PathBuf::from("a/b.db")));
        assert_eq!(database("b-journal"), Some(PathBuf::from("b")));
        assert_eq!(database("a/-wal"), None);
        assert_eq!(database("a-wal/b"), None);
    }
}
