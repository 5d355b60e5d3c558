//! The audit log: who changed what, and who was refused.
//!
//! One line for each request that may have changed something or was refused for its credentials,
//! durable before its answer leaves. Of refused requests at most [`MAX_REFUSED`] a minute have a line,
//! so that a flood of them does not push the others out; the next line says how many have none. The
//! newest lines are in `audit.jsonl`, older ones in `audit.1.jsonl` and so on, at most
//! [`FILES`] × [`MAX_BYTES`] (P10).

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::{Access, Clock, Disk};
use serde_json::{Map, Value};

/// How long a file becomes.
const MAX_BYTES: u64 = 8 << 20;
/// How many files are kept.
const FILES: usize = 5;
/// How many refused requests have a line, in a minute.
const MAX_REFUSED: u64 = 100;
const MINUTE: Duration = Duration::from_mins(1);

/// The audit log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used: {reason}", .path.display())]
pub struct Error {
    path: PathBuf,
    reason: io::Error,
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Unavailable, "F0201")
    }
}

/// The audit log of a home. Clones share it.
#[derive(Clone)]
pub struct Audit {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// How long the newest file is; absent before the first line.
    bytes: Option<u64>,
    /// When the minute began in which refused requests are counted.
    since: Duration,
    refused: u64,
    omitted: u64,
}

impl Audit {
    /// The log below `folder`, the server's folder in the home.
    pub fn new(folder: PathBuf, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Self {
        Self {
            folder,
            disk,
            clock,
            state: Arc::default(),
        }
    }

    /// The newest `limit` lines, oldest first. Skips lines that a kill cut off.
    pub fn read(&self, limit: usize) -> Result<Vec<Map<String, Value>>, Error> {
        let mut lines: Vec<Map<String, Value>> = Vec::new();
        for number in 0..FILES {
            if lines.len() >= limit {
                break;
            }
            let body = self.read_file(number)?;
            let text = String::from_utf8_lossy(&body);
            let older = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            let older: Vec<_> = older.collect();
            let wanted = limit - lines.len();
            let skipped = older.len().saturating_sub(wanted);
            lines.splice(0..0, older.into_iter().skip(skipped));
        }
        Ok(lines)
    }

    /// Adds a line. Durable when it returns.
    pub(super) fn append(
        &self,
        mut line: Map<String, Value>,
        is_refused: bool,
    ) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if is_refused && !state.counts(self.clock.elapsed()) {
            return Ok(());
        }
        if state.omitted > 0 {
            line.insert("omitted".to_owned(), state.omitted.into());
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        let bytes = if let Some(bytes) = state.bytes {
            bytes
        } else {
            let body = self.read_file(0)?;
            if !body.is_empty() && !body.ends_with(b"\n") {
                // A kill cut the last line off.
                text.insert(0, '\n');
            }
            body.len() as u64
        };
        let added = text.len() as u64;
        let bytes = if bytes > 0 && bytes.saturating_add(added) > MAX_BYTES {
            self.rotate()?;
            0
        } else {
            bytes
        };
        let path = self.file(0);
        // Its length is read again if it is not known what was written.
        state.bytes = None;
        let appended = self.disk.append(&path, text.as_bytes(), Access::Private);
        appended.map_err(|reason| Error { path, reason })?;
        state.bytes = Some(bytes.saturating_add(added));
        state.omitted = 0;
        Ok(())
    }

    fn rotate(&self) -> Result<(), Error> {
        for number in (0..FILES - 1).rev() {
            let (from, to) = (self.file(number), self.file(number + 1));
            match self.disk.rename(&from, &to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(|reason| Error { path: from, reason })?,
            }
        }
        Ok(())
    }

    fn read_file(&self, number: usize) -> Result<Vec<u8>, Error> {
        let path = self.file(number);
        match self.disk.read(&path, 2 * MAX_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(|reason| Error { path, reason }),
        }
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.join(match number {
            0 => "audit.jsonl".to_owned(),
            number => format!("audit.{number}.jsonl"),
        })
    }
}

impl State {
    /// Whether a refused request has a line.
    fn counts(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= MINUTE {
            (self.since, self.refused) = (now, 0);
        }
        self.refused += 1;
        let counts = self.refused <= MAX_REFUSED;
        self.omitted += u64::from(!counts);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_disk::{MemoryDisk, StandingClock};

    fn line(number: usize) -> Map<String, Value> {
        let text = "x".repeat(64 << 10);
        Map::from_iter([
            ("number".to_owned(), number.into()),
            ("text".to_owned(), text.into()),
        ])
    }

    #[test]
    fn files_rotate_and_the_newest_lines_stay() {
        let (disk, clock) = (Arc::new(MemoryDisk::default()), StandingClock::default());
        let audit = Audit::new("/server".into(), disk.clone(), Arc::new(clock));
        let lines = 1000;
        (0..lines).for_each(|number| audit.append(line(number), false).unwrap());
        assert_eq!(disk.names().len(), FILES);
        for name in disk.names() {
            let body = disk.read(name.as_ref(), 0).unwrap();
            assert!(body.len() as u64 <= MAX_BYTES, "{name}");
        }
        let numbers: Vec<_> = audit.read(300).unwrap();
        let numbers = numbers.iter().map(|it| it["number"].as_u64().unwrap());
        assert!(numbers.eq(700..1000));
    }
}
