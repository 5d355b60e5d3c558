//! Reads opencode's database.
#![expect(
    clippy::disallowed_methods,
    reason = "the database belongs to opencode: it is opened read-only, and nothing of it must be durable"
)]

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};

use super::is_session_id;

/// How long to wait for opencode to release a lock.
const BUSY: Duration = Duration::from_secs(2);

/// The longest message or part that is read, in bytes.
pub(super) const MAX_DATA: i64 = 16 << 20;

/// opencode's database. It is opened for each question, so that nothing of it is held in between.
#[derive(Debug, Clone)]
pub struct Database {
    path: PathBuf,
}

/// A conversation in the database, without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub id: String,
    /// In milliseconds since 1970.
    pub created: i64,
    /// When it or one of its messages changed last, in milliseconds since 1970.
    pub updated: i64,
    /// The number of its messages.
    pub messages: u64,
    pub folder: String,
}

/// A message or a part of one.
pub(super) struct Stored {
    pub(super) id: String,
    pub(super) created: i64,
    /// `None` if it is too long.
    pub(super) data: Option<String>,
}

impl Database {
    /// The database in opencode's data folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join("opencode.db"),
        }
    }

    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The conversations with the user, without those of sub-agents, by id. None if there is no
    /// database.
    pub fn conversations(&self) -> io::Result<Vec<Conversation>> {
        if !self.path.is_file() {
            return Ok(Vec::new());
        }
        self.read(|reading| {
            let mut statement = reading.prepare(
                "SELECT session.id, session.time_created, session.directory, \
                 max(session.time_updated, coalesce((SELECT max(time_updated) FROM message WHERE session_id = session.id), 0)), \
                 (SELECT count(*) FROM message WHERE session_id = session.id) \
                 FROM session WHERE parent_id IS NULL ORDER BY session.id",
            )?;
            let rows = statement.query_map([], conversation)?;
            let rows = rows.filter(|row| row.as_ref().map_or(true, |row| is_session_id(&row.id)));
            rows.collect()
        })
    }

    /// Calls `with` for a conversation with all that it has at one moment.
    pub(super) fn with_conversation<T>(
        &self,
        id: &str,
        with: impl FnOnce(&Connection, Conversation) -> rusqlite::Result<T>,
    ) -> io::Result<Option<T>> {
        self.read(|reading| {
            let found = reading
                .query_row(
                    "SELECT id, time_created, directory, time_updated, 0 FROM session WHERE id = ?1",
                    [id],
                    conversation,
                )
                .optional()?;
            found.map(|found| with(reading, found)).transpose()
        })
    }

    /// Reads in one transaction. Nothing is written: not to the database, and no checkpoint of its
    /// log. Without a log, opencode is not running, and the file is read as it is.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> io::Result<T> {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let mode = if Path::new(&log).exists() {
            "mode=ro"
        } else {
            "immutable=1"
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let reading = Connection::open_with_flags(uri(&self.path, mode)?, flags).and_then(|open| {
            open.busy_timeout(BUSY)?;
            open.pragma_update(None, "query_only", true)?;
            Ok(open)
        });
        let result = reading.and_then(|open| {
            let transaction = open.unchecked_transaction()?;
            read(&transaction)
        });
        result.map_err(|error| {
            io::Error::other(format!("opencode's database cannot be read: {error}"))
        })
    }
}

fn conversation(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        id: row.get(0)?,
        created: row.get(1)?,
        folder: row.get(2)?,
        updated: row.get(3)?,
        messages: row.get::<_, i64>(4)?.unsigned_abs(),
    })
}

/// The messages of a conversation, in their order.
pub(super) const MESSAGES: &str = "SELECT id, time_created, CASE WHEN length(data) <= ?2 THEN data END FROM message WHERE session_id = ?1 ORDER BY time_created, id";

/// The parts of a message, in their order.
pub(super) const PARTS: &str = "SELECT id, time_created, CASE WHEN length(data) <= ?2 THEN data END FROM part WHERE message_id = ?1 ORDER BY id";

pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        id: row.get(0)?,
        created: row.get(1)?,
        data: row.get(2)?,
    })
}

/// The path as a URI, in which SQLite takes `?`, `#` and `%` as syntax.
fn uri(path: &Path, mode: &str) -> io::Result<String> {
    let not_text = || io::Error::other("the path of opencode's database is not UTF-8");
    let path = path.to_str().ok_or_else(not_text)?;
    let escape = |character: char| match character {
        '?' | '#' | '%' => format!("%{:02X}", u32::from(character)),
        other => other.to_string(),
    };
    let path: String = path.chars().map(escape).collect();
    Ok(format!("file:{path}?{mode}"))
}
