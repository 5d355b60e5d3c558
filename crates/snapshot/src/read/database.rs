//! Databases that keep their newest changes in a file beside them, as `SQLite` does.
//!
//! A database and its log mean something only as they were at one moment. The database is read,
//! then its log; then the log and at last the database must still be what was read. So there was a
//! moment between at which both were as they were kept. A log that only grew is whole: what was
//! appended belongs to a later moment, and the database would show if anything had built upon it.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::beneath::{self, Facts};
use crate::entry::Why;
use crate::error::Error;
use crate::machine::pause;
use crate::read::{Glance, Kept, PAUSES, Reader, Reading};

/// How a database of `SQLite` begins.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// What follows the name of a database in the names of its logs.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// The database that a file is the log of, going by its name.
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
    /// Reads and keeps a file and its logs, if it has any: in this order.
    pub(crate) fn read_with_logs(
        &mut self,
        path: &'a Path,
        logs: &[&'a Path],
    ) -> Result<Vec<Reading>, Error> {
        if logs.is_empty() {
            let reading = self.read(path)?;
            if !matches!(&reading, Reading::Kept(kept) if kept.is_database) {
                return Ok(vec![reading]);
            }
        }
        let mut pauses = PAUSES.iter();
        loop {
            let mut glances = vec![self.glance_at(path)?];
            for log in logs {
                glances.push(self.glance_at(log)?);
            }
            // Backwards: each file is known to be the same when those after it were read.
            let mut still = true;
            for (at, glance) in glances.iter_mut().enumerate().rev() {
                still = still && self.is_still(glance, at == 0)?;
            }
            let whole = still && !self.has_another_log(path, logs);
            let next = pauses.next().filter(|_| !whole);
            let Some(&millis) = next else {
                let readings = glances.into_iter().map(|glance| reading(glance, whole));
                return Ok(readings.collect());
            };
            pause(Duration::from_millis(millis));
        }
    }

    fn glance_at(&mut self, path: &'a Path) -> Result<Result<Glance, Why>, Error> {
        (self.path, self.is_database) = (path, false);
        self.glance(path)
    }

    /// Whether a file is as it was read. Logs may have become longer.
    fn is_still(&mut self, glance: &mut Result<Glance, Why>, is_main: bool) -> Result<bool, Error> {
        let Ok(Glance {
            file, before, kept, ..
        }) = glance
        else {
            return Ok(true);
        };
        let now = Facts::of(&*file).unwrap_or(*before);
        if kept.settled && now == *before {
            return Ok(true);
        }
        // Stamps of a young file say nothing; its content does.
        let fits = kept.facts.size == before.size && (!is_main || now.size == before.size);
        Ok(fits && self.is_same(file, before.size, &kept.content)?)
    }

    /// Whether there is a log that nobody knew of when the files were looked at.
    fn has_another_log(&self, path: &Path, logs: &[&Path]) -> bool {
        LOGS.iter().any(|suffix| {
            let mut log = OsString::from(path);
            log.push(suffix);
            let log = Path::new(&log);
            !logs.contains(&log) && beneath::file(self.root.as_fd(), log).is_ok()
        })
    }
}

fn reading(glance: Result<Glance, Why>, whole: bool) -> Reading {
    match glance {
        Ok(glance) => Reading::Kept(Kept {
            unstable: !whole,
            ..glance.kept
        }),
        Err(why) => Reading::Left(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_names_its_database() {
        let database = |log: &str| database_of(Path::new(log));
        assert_eq!(database("a/b.db-wal"), Some(PathBuf::from("a/b.db")));
        assert_eq!(database("b-journal"), Some(PathBuf::from("b")));
        assert_eq!(database("a/-wal"), None);
        assert_eq!(database("a-wal/b"), None);
    }
}
