//! The one place that opens databases, with the settings that make a commit durable, and the one
//! place that turns SQLite's errors into ours.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use segno_core::store::Error;

/// Before this version, a WAL reset at the wrong moment could damage a database.
const OLDEST: i32 = 3_051_003;

/// How long a writer waits for a writer of another process.
const PATIENCE: Duration = Duration::from_secs(15);

/// Opens a database, making it if it is not there.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    open_as(path, OpenFlags::SQLITE_OPEN_CREATE)
}

/// Opens a database once more. If it is gone by now, nothing takes its place.
pub(super) fn reopen(path: &Path) -> Result<Connection, Error> {
    open_as(path, OpenFlags::empty())
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door that the lint points to"
)]
fn open_as(path: &Path, more: OpenFlags) -> Result<Connection, Error> {
    let found = rusqlite::version_number();
    if found < OLDEST {
        let reason = format!(
            "SQLite {} can damage it; 3.51.3 is needed",
            rusqlite::version()
        );
        return Err(Error::Unavailable {
            place: path.display().to_string(),
            reason,
        });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | more;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| trouble(path, &error))?;
    connection
        .busy_timeout(PATIENCE)
        .map_err(|error| trouble(path, &error))?;
    // Before anything is set: a database of another program is left as it is.
    super::schema::recognise(&connection, path)?;
    settle(&connection, path)?;
    Ok(connection)
}

fn settle(connection: &Connection, path: &Path) -> Result<(), Error> {
    let trouble = |error: rusqlite::Error| trouble(path, &error);
    let mode: String =
        retried(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
            .map_err(trouble)?;
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0").map_err(trouble)?;
    // P1: read back, because a setting that was refused is not an error in SQLite.
    let synchronous: i64 = connection
        .query_row("PRAGMA synchronous", [], |row| row.get(0))
        .map_err(trouble)?;
    if mode != "wal" || synchronous != 2 {
        let reason =
            format!("commits would not be durable (journal {mode}, synchronous {synchronous})");
        return Err(Error::Unavailable {
            place: path.display().to_string(),
            reason,
        });
    }
    if connection.is_readonly("main").map_err(trouble)? {
        let reason = "it can only be read: its file, or its header, forbids writing".into();
        return Err(Error::Unavailable {
            place: path.display().to_string(),
            reason,
        });
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Turning a new database to WAL needs it alone, and SQLite does not wait for that by itself.
fn retried<T>(mut turn: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    for _ in 0..200 {
        match turn() {
            Err(error) if is_busy(&error) => {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    turn()
}

pub(super) fn only_read(connection: &Connection, path: &Path) -> Result<(), Error> {
    connection
        .execute_batch("PRAGMA query_only = ON")
        .map_err(|error| trouble(path, &error))
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// What an error of SQLite means, where no session is known.
pub(super) fn trouble(path: &Path, error: &rusqlite::Error) -> Error {
    classify(format!("the database {}", path.display()), error)
}

/// What an error of SQLite means for `object`.
pub(super) fn classify(object: String, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full { place: object },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Unavailable {
            place: object,
            reason: format!(
                "another process has been writing for more than {} s",
                PATIENCE.as_secs()
            ),
        },
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::NoLargeFileSupport,
        ) => Error::Unavailable {
            place: object,
            reason: error.to_string(),
        },
        // Everything else is a row or a page that our own statements cannot have written.
        _ => Error::Damaged {
            object,
            reason: error.to_string(),
        },
    }
}
