//! Finds damage that reading one session does not show: in SQLite's own structure, in rows without
//! a session, in caches, acknowledgement markers and files.

use std::collections::BTreeSet;

use rusqlite::params;
use segno_core::id::SessionId;
use segno_core::store::{Error, Finding, Severity};

use super::connection::classify;
use super::read::{Reader, message};
use crate::ack_marker::AckMarker;
use crate::home::Home;

pub(super) fn database(reader: &Reader<'_>) -> Result<Vec<Finding>, Error> {
    let mut findings = structure(reader)?;
    let sessions = ids(reader, "SELECT id FROM session")?;
    for (table, column) in [
        ("lease", "session_id"),
        ("journal", "session_id"),
        ("folded", "session_id"),
        ("inbox", "session_id"),
    ] {
        for id in ids(reader, &format!("SELECT DISTINCT {column} FROM {table}"))? {
            if !sessions.contains(&id) {
                findings.push(damage(
                    &id,
                    format!("table {table}"),
                    "has rows of a session that does not exist".into(),
                ));
            }
        }
    }
    caches(reader, &mut findings)?;
    markers(reader, &sessions, &mut findings);
    Ok(findings)
}

fn damage(session: &str, object: String, problem: String) -> Finding {
    Finding {
        session: session.parse().ok(),
        object,
        problem,
        severity: Severity::Damage,
    }
}

fn structure(reader: &Reader<'_>) -> Result<Vec<Finding>, Error> {
    let to_error = |error: rusqlite::Error| classify("the database".into(), &error);
    let mut statement = reader
        .connection
        .prepare("PRAGMA integrity_check(20)")
        .map_err(to_error)?;
    let lines = statement
        .query_map([], |row| row.get::<_, String>(0))
        .map_err(to_error)?;
    let mut findings = Vec::new();
    for line in lines {
        match line {
            Ok(line) if line == "ok" => {}
            Ok(line) => findings.push(damage("", "the database".into(), line)),
            Err(error) => findings.push(damage("", "the database".into(), error.to_string())),
        }
    }
    Ok(findings)
}

fn ids(reader: &Reader<'_>, query: &str) -> Result<BTreeSet<String>, Error> {
    let to_error = |error: rusqlite::Error| classify("the database".into(), &error);
    let mut statement = reader.connection.prepare(query).map_err(to_error)?;
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .map_err(to_error)?;
    rows.map(|row| row.map_err(to_error)).collect()
}

fn caches(reader: &Reader<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let to_error = |error: rusqlite::Error| classify("the database".into(), &error);
    for id in ids(reader, "SELECT session_id FROM folded")? {
        if let Ok(session) = id.parse::<SessionId>()
            && reader.folded(session).is_none()
        {
            findings.push(damage(
                &id,
                "its folded state".into(),
                "does not match its checksum; it is only a cache and is not used".into(),
            ));
        }
    }
    for discarded in reader.discarded()? {
        if let Err(error) = discarded {
            findings.push(damage("", "the trash".into(), error.to_string()));
        }
    }
    let mut statement = reader
        .connection
        .prepare("SELECT id, at, body, row_check, session_id FROM inbox")
        .map_err(to_error)?;
    let mut rows = statement.query(params![]).map_err(to_error)?;
    while let Some(row) = rows.next().map_err(to_error)? {
        let id: String = row.get(4).map_err(to_error)?;
        let sound = match id.parse() {
            Ok(session) => message(session, row).map_err(to_error)?.is_some(),
            Err(_) => false,
        };
        if !sound {
            findings.push(damage(
                &id,
                "its inbox".into(),
                "has a message that does not match its checksum".into(),
            ));
        }
    }
    Ok(())
}

fn markers(reader: &Reader<'_>, sessions: &BTreeSet<String>, findings: &mut Vec<Finding>) {
    let (marked, unknown_files) = reader.ack_markers.list();
    for session in &marked {
        let id = session.to_string();
        match reader.ack_markers.read(*session) {
            AckMarker::Unreadable => findings.push(damage(
                &id,
                "its marker in heads/".into(),
                "cannot be read; the next run rewrites it".into(),
            )),
            AckMarker::Acknowledged(_) if !sessions.contains(&id) => {
                findings.push(damage(
                    &id,
                    "the database".into(),
                    "has lost this session or is an older copy".into(),
                ));
            }
            _ => {}
        }
    }
    for id in sessions {
        if id
            .parse()
            .is_ok_and(|session: SessionId| !marked.contains(&session))
        {
            findings.push(Finding {
                severity: Severity::Notice,
                ..damage(
                    id,
                    "its marker in heads/".into(),
                    "is missing; the next run rewrites it".into(),
                )
            });
        }
    }
    for unknown_file in unknown_files {
        findings.push(Finding {
            severity: Severity::Notice,
            ..damage(
                "",
                unknown_file.display().to_string(),
                "does not belong here".into(),
            )
        });
    }
}

/// Files in the home folder that Segno did not put there.
pub(super) fn folder(home: &Home) -> Vec<Finding> {
    const OURS: &[&str] = &[
        "segno.db",
        "segno.db-wal",
        "segno.db-shm",
        "blobs",
        "heads",
        "backups",
        "checkpoints",
        "snapshots",
        "seal.key",
        "reserve",
        "cleaned",
        "config.toml",
        "hooks",
        "spool",
        "watch.lock",
    ];
    let entries = home.disk().list(home.root()).unwrap_or_default();
    let unknown = entries.into_iter().filter(|entry| {
        entry
            .file_name()
            .and_then(|name| name.to_str())
            .is_none_or(|name| !OURS.contains(&name))
    });
    let reserve = (!home.has_reserve()).then(|| Finding {
        severity: Severity::Notice,
        ..damage(
            "",
            "the reserve".into(),
            "is not allocated: the disk is or was full".into(),
        )
    });
    unknown
        .map(|entry| Finding {
            severity: Severity::Notice,
            ..damage(
                "",
                entry.display().to_string(),
                "does not belong here".into(),
            )
        })
        .chain(reserve)
        .collect()
}
