//! Opens databases, with the settings that make a commit durable, and converts SQLite's errors into
//! ours. No other module does either.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use segno_core::store::Error;

/// Earlier versions could damage a database if the WAL was reset at the wrong time.
const OLDEST: i32 = 3_051_003;

/// How long a writer waits for a writer of another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// Opens a connection that only reads. The database must exist; an empty one is `None`, because its
/// creation is not committed.
///
/// A home that cannot be written is read without locks and without new files of SQLite: nobody else
/// can write to it either.
pub(super) fn open_reader(path: &Path, patience: Duration) -> Result<Option<Connection>, Error> {
    let to_error = |error: rusqlite::Error| database_error(path, &error);
    let connection = open_as(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(patience).map_err(to_error)?;
    let opened = super::schema::format(&connection, path);
    let (connection, format) = match opened {
        Err(Error::Unavailable { .. }) if is_unwritable(path) => {
            let connection = open_unwritable(path)?;
            let format = super::schema::format(&connection, path)?;
            (connection, format)
        }
        other => (connection, other?),
    };
    if format == 0 {
        return Ok(None);
    }
    super::schema::verify(&connection, path)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0")
        .map_err(to_error)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(Some(connection))
}

/// Opens a connection that writes, and makes every commit durable. It does not wait for writers of
/// other processes: its user does, and not inside SQLite. Fails if the database does not exist.
pub(super) fn open_writer(path: &Path) -> Result<Connection, Error> {
    let connection = open_as(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Before any setting is changed: a database of another program is left as it is.
    super::schema::format(&connection, path)?;
    configure(&connection, path)?;
    connection
        .busy_timeout(Duration::ZERO)
        .map_err(|error| database_error(path, &error))?;
    Ok(connection)
}

/// Opens the one database of version 0.1.0.
pub(super) fn open_shared(path: &Path) -> Result<Connection, Error> {
    let connection = open_as(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection
        .busy_timeout(Duration::from_secs(2))
        .map_err(|error| database_error(path, &error))?;
    Ok(connection)
}

/// Keeps every other process away from a database, and puts all of it into one file.
pub(super) fn make_exclusive(connection: &Connection, path: &Path) -> Result<(), Error> {
    let mode = connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0));
    let mode: String = match mode {
        Err(error) if is_busy(&error) => "wal".into(),
        other => other.map_err(|error| database_error(path, &error))?,
    };
    if mode != "delete" {
        return Err(Error::Unavailable {
            place: format!("the database {}", path.display()),
            reason:
                "a process of an earlier version of Segno still uses it; end that process first"
                    .into(),
        });
    }
    connection
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        .map_err(|error| database_error(path, &error))
}

/// Whether this process may not create files beside the database.
fn is_unwritable(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err()
}

/// Opens a database of a folder that cannot be written: without locks, with SQLite's index of the
/// log in memory, and with a log that a killed process left.
fn open_unwritable(path: &Path) -> Result<Connection, Error> {
    use std::fmt::Write;
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                address.push(char::from(*byte));
            }
            other => {
                let _ = write!(address, "%{other:02x}");
            }
        }
    }
    address.push_str("?vfs=unix-none");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = open_as(Path::new(&address), flags)?;
    connection
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE")
        .map_err(|error| database_error(path, &error))?;
    Ok(connection)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the implementation that the lint points to"
)]
fn open_as(path: &Path, mode: OpenFlags) -> Result<Connection, Error> {
    let found = rusqlite::version_number();
    if found < OLDEST {
        let reason = format!(
            "SQLite {} can corrupt it; 3.51.3 or later is required",
            rusqlite::version()
        );
        return Err(Error::Unavailable {
            place: path.display().to_string(),
            reason,
        });
    }
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(path, flags).map_err(|error| database_error(path, &error))
}

fn configure(connection: &Connection, path: &Path) -> Result<(), Error> {
    let to_error = |error: rusqlite::Error| database_error(path, &error);
    let mode: String =
        retried(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
            .map_err(to_error)?;
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0").map_err(to_error)?;
    // P1: read back, because SQLite does not report a refused setting as an error.
    let synchronous: i64 = connection
        .query_row("PRAGMA synchronous", [], |row| row.get(0))
        .map_err(to_error)?;
    if mode != "wal" || synchronous != 2 {
        let reason =
            format!("commits would not be durable (journal {mode}, synchronous {synchronous})");
        return Err(Error::Unavailable {
            place: path.display().to_string(),
            reason,
        });
    }
    if connection.is_readonly("main").map_err(to_error)? {
        let reason = "it is read-only: its file or its header forbids writing".into();
        return Err(Error::Unavailable {
            place: path.display().to_string(),
            reason,
        });
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Switching a new database to WAL needs exclusive access, and SQLite does not wait for that by
/// itself.
fn retried<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    for _ in 0..200 {
        match attempt() {
            Err(error) if is_busy(&error) => {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    attempt()
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Converts an error of SQLite, where no session is known.
pub(super) fn database_error(path: &Path, error: &rusqlite::Error) -> Error {
    classify(format!("the database {}", path.display()), error)
}

/// Converts an error of SQLite that concerns `object`.
pub(super) fn classify(object: String, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::DiskFull { place: object },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Unavailable {
            place: object,
            reason: format!(
                "another process has been writing for more than {} s",
                BUSY_TIMEOUT.as_secs()
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
