//! Moves the sessions of a home of version 0.1.0 out of its one shared database, into a database for
//! each.
//!
//! The shared database is only read. It stays in its place until every session has its own, and then
//! becomes a backup, so that a killed migration starts over: it skips the sessions that it has moved.
//! A session's folder appears complete, by a rename. Rows are copied as they are, damaged ones too;
//! an ack marker tells if a journal could not be read to its end (P9).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use rustix::fs::OFlags;
use segno_core::id::{Name, SessionId};
use segno_core::ports::Access;
use segno_core::store::{Error, TrashedSession};
use segno_core::time::Timestamp;

use super::connection::{self, database_error};
use super::names::Names;
use super::{schema, trash_mark};
use crate::home::{Home, io_error};

/// How many times, and how long each time, to wait for another process that migrates the home.
const ATTEMPTS: u32 = 1200;
const PAUSE: Duration = Duration::from_millis(50);

/// What is copied of a session: tables, their columns before and now.
const TABLES: [(&str, &str, &str); 5] = [
    (
        "session",
        "id",
        "id, name, kind, workspace, created_at, row_check",
    ),
    (
        "lease",
        "session_id",
        "session_id, run, owner, since, until, status, spec_digest, head_seq, head_hash, updated_at, row_check",
    ),
    (
        "folded",
        "session_id",
        "session_id, head_seq, head_hash, version, body, row_check",
    ),
    ("inbox", "session_id", "id, at, body, row_check"),
    (
        "journal",
        "session_id",
        "seq, run, at, version, kind, path, revision, hash, body",
    ),
];

pub(super) fn run(home: &Home) -> Result<(), Error> {
    let path = home.shared_database();
    if !home.has_shared_database() {
        return Ok(());
    }
    let _lock = lock(home)?;
    let length = match std::fs::symlink_metadata(&path) {
        // Another process has just done it.
        Err(_) => return Ok(()),
        Ok(found) => found.len(),
    };
    let disk = home.disk();
    let format = if length == 0 {
        0
    } else {
        let shared = connection::open_shared(&path)?;
        let format = schema::format(&shared, &path)?;
        if format > 0 {
            connection::make_exclusive(&shared, &path)?;
            move_sessions(home, &shared, format)?;
        }
        format
    };
    let failed = |error: io::Error| io_error(&path, &error);
    if format == 0 {
        // It never had a session.
        for suffix in ["", "-wal", "-shm"] {
            let mut file = path.clone().into_os_string();
            file.push(suffix);
            disk.remove(Path::new(&file)).map_err(failed)?;
        }
    } else {
        let backup = format!("format-{format}-{}.db", std::process::id());
        disk.rename(&path, &home.backups().join(backup))
            .map_err(failed)?;
        disk.sync_folder(&home.backups()).map_err(failed)?;
    }
    disk.sync_folder(home.root()).map_err(failed)
}

/// Waits until no other process migrates the home.
fn lock(home: &Home) -> Result<File, Error> {
    let path = home.sessions().join(".migrating");
    let failed = |error: &io::Error| io_error(&path, error);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(|error| failed(&error))?;
    for _ in 0..ATTEMPTS {
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        std::thread::park_timeout(PAUSE);
    }
    Err(Error::Unavailable {
        place: home.root().display().to_string(),
        reason: "another process has been moving its sessions to the new format for a minute"
            .into(),
    })
}

fn move_sessions(home: &Home, shared: &Connection, format: u32) -> Result<(), Error> {
    let names = Names::new(home);
    let trashed = if format >= 2 {
        trashed(shared)
    } else {
        Vec::new()
    };
    let mut ids = Vec::new();
    for query in ["SELECT id FROM session", "SELECT session_id FROM lease"] {
        ids.extend(
            column(shared, query)
                .map_err(|error| database_error(&home.shared_database(), &error))?,
        );
    }
    ids.extend(trashed.iter().map(|trashed| trashed.session.to_string()));
    ids.sort_unstable();
    ids.dedup();
    for id in ids.iter().filter_map(|id| id.parse::<SessionId>().ok()) {
        let mark = trashed.iter().find(|trashed| trashed.session == id);
        // First, so that the session is in the trash from the moment when it appears.
        if let Some(mark) = mark {
            trash_mark::write(home, mark).map_err(|error| io_error(&home.trash(), &error))?;
        }
        move_session(home, shared, id)?;
        if mark.is_none()
            && let Some(name) = name_of(shared, id)
        {
            names
                .reserve(&name, id)
                .map_err(|error| io_error(&home.names(), &error))?;
        }
    }
    Ok(())
}

fn move_session(home: &Home, shared: &Connection, session: SessionId) -> Result<(), Error> {
    let folder = home.session_folder(session);
    if std::fs::symlink_metadata(&folder).is_ok() {
        return Ok(());
    }
    let disk = home.disk();
    let draft = home.sessions().join(format!(".draft-{session}"));
    let path = draft.join("journal.db");
    let failed = |error: io::Error| io_error(&draft, &error);
    for file in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        disk.remove(&draft.join(file)).map_err(failed)?;
    }
    disk.create_folder(&draft, Access::Private)
        .map_err(failed)?;
    disk.create(&path, &[], Access::Private).map_err(failed)?;
    let new = connection::open_writer(&path)?;
    copy(shared, &new, session).map_err(|error| database_error(&path, &error))?;
    // Closing the only connection removes the log.
    new.close()
        .map_err(|(_, error)| database_error(&path, &error))?;
    disk.sync_folder(&draft).map_err(failed)?;
    disk.rename(&draft, &folder).map_err(failed)?;
    disk.sync_folder(&home.sessions()).map_err(failed)
}

fn copy(shared: &Connection, new: &Connection, session: SessionId) -> rusqlite::Result<()> {
    let transaction = new.unchecked_transaction()?;
    schema::create(&transaction)?;
    for (table, key, columns) in TABLES {
        let count = columns.split(", ").count();
        let places: Vec<_> = (1..=count).map(|number| format!("?{number}")).collect();
        let mut insert = transaction.prepare(&format!(
            "INSERT INTO {table} ({columns}) VALUES ({})",
            places.join(", ")
        ))?;
        let order = if table == "journal" {
            "ORDER BY seq"
        } else {
            ""
        };
        let query = format!("SELECT {columns} FROM {table} WHERE {key} = ?1 {order}");
        let mut select = shared.prepare(&query)?;
        let mut rows = select.query([session.to_string()])?;
        // A damaged page ends a table early: the rest cannot be read.
        while let Ok(Some(row)) = rows.next() {
            let values = (0..count).map(|index| row.get::<_, Value>(index));
            let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
            insert.execute(params_from_iter(values))?;
        }
    }
    transaction.commit()
}

fn column(connection: &Connection, query: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

fn name_of(shared: &Connection, session: SessionId) -> Option<Name> {
    let query = "SELECT name FROM session WHERE id = ?1";
    let name: String = shared
        .query_row(query, [session.to_string()], |row| row.get(0))
        .ok()?;
    Name::new(&name).ok()
}

fn trashed(shared: &Connection) -> Vec<TrashedSession> {
    let read = || -> rusqlite::Result<Vec<(String, i64, Option<String>)>> {
        let mut statement = shared.prepare("SELECT session_id, at, name FROM trash")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    };
    let rows = read().unwrap_or_default();
    let trashed = rows.into_iter().filter_map(|(session, at, name)| {
        Some(TrashedSession {
            session: session.parse().ok()?,
            name: name.and_then(|name| Name::new(&name).ok()),
            at: Timestamp(at),
        })
    });
    trashed.collect()
}
