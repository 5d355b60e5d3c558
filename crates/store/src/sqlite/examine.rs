//! Finds damage that reading one session does not show: in SQLite's own structure, in caches, ack
//! markers, names, the trash, and in files that do not belong here.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rusqlite::Connection;
use segno_core::id::SessionId;
use segno_core::store::{Error, Filter, Finding, Severity};

use super::connection::classify;
use super::read::{Reader, message};
use super::{Sqlite, trash_mark};
use crate::ack_marker::AckMarker;
use crate::home::Home;

pub(super) fn sessions(store: &Sqlite) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (folders, others) = folders(&store.home);
    let (marked, unknown_markers) = store.ack_markers.list();
    let mut all: BTreeSet<SessionId> = folders.iter().copied().collect();
    all.extend(&marked);
    for session in all {
        let found = session_findings(store, session, marked.contains(&session));
        findings.extend(found);
    }
    let (trashed, unknown_marks) = trash_mark::list(&store.home);
    for session in trashed {
        if let Err(error) = trash_mark::read(&store.home, session) {
            findings.push(damage(Some(session), "the trash", &error));
        }
    }
    let unknown_names = names(store, &mut findings);
    for unknown in [others, unknown_markers, unknown_marks, unknown_names].concat() {
        findings.push(stray(&unknown));
    }
    findings
}

/// The sessions that have a folder, and what else is among the folders.
fn folders(home: &Home) -> (Vec<SessionId>, Vec<PathBuf>) {
    let (mut sessions, mut others) = (Vec::new(), Vec::new());
    for path in home.disk().list(&home.sessions()).unwrap_or_default() {
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| name.parse().ok()) {
            Some(session) if home.session_folder(session) == path => sessions.push(session),
            _ if name == Some(".migrating") => {}
            _ => others.push(path),
        }
    }
    (sessions, others)
}

fn session_findings(store: &Sqlite, session: SessionId, is_marked: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let marker = store.ack_markers.read(session);
    match store.database(session) {
        Err(Error::NoSession(_)) => match marker {
            AckMarker::Unreadable => {}
            _ => findings.push(notice(
                Some(session),
                store.home.session_folder(session).display().to_string(),
                "belongs to a session that was never finished creating; it can be removed",
            )),
        },
        Err(error) => findings.push(damage(Some(session), "its database", &error)),
        Ok(database) => {
            let connection = database.reader();
            findings.extend(structure(session, &connection));
            let reader = Reader {
                session,
                connection: &connection,
                ack_markers: &store.ack_markers,
                lost: std::cell::Cell::default(),
            };
            findings.extend(caches(&reader));
            // Reading the journal reports rows that cannot be read.
            if !is_marked {
                let object = "its marker in heads/".to_owned();
                findings.push(notice(
                    Some(session),
                    object,
                    "is missing; the next run rewrites it",
                ));
            }
        }
    }
    if marker == AckMarker::Unreadable {
        let problem = "cannot be read; the next run rewrites it";
        findings.push(damage(Some(session), "its marker in heads/", &problem));
    }
    findings
}

fn structure(session: SessionId, connection: &Connection) -> Vec<Finding> {
    let check = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
        let lines = statement.query_map([], |row| row.get(0))?;
        lines.collect()
    };
    match check() {
        Ok(lines) => lines
            .iter()
            .filter(|line| *line != "ok")
            .map(|line| damage(Some(session), "its database", line))
            .collect(),
        Err(error) => vec![damage(Some(session), "its database", &error)],
    }
}

fn caches(reader: &Reader<'_>) -> Vec<Finding> {
    let session = Some(reader.session);
    let mut findings = Vec::new();
    let count = |query: &str| -> rusqlite::Result<i64> {
        reader.connection.query_row(query, [], |row| row.get(0))
    };
    if count("SELECT count(*) FROM folded").is_ok_and(|count| count > 0)
        && reader.folded().is_none()
    {
        let problem = "does not match its checksum; it is only a cache and is not used";
        findings.push(damage(session, "its folded state", &problem));
    }
    match damaged_messages(reader) {
        Ok(0) => {}
        Ok(_) => {
            let problem = "has a message that does not match its checksum";
            findings.push(damage(session, "its inbox", &problem));
        }
        Err(error) => findings.push(damage(session, "its inbox", &error)),
    }
    findings
}

fn damaged_messages(reader: &Reader<'_>) -> Result<usize, Error> {
    let object = || format!("the inbox of session {}", reader.session);
    let to_error = |error: rusqlite::Error| classify(object(), &error);
    let mut statement = reader
        .connection
        .prepare("SELECT id, at, body, row_check FROM inbox")
        .map_err(to_error)?;
    let mut rows = statement.query([]).map_err(to_error)?;
    let mut damaged = 0;
    while let Some(row) = rows.next().map_err(to_error)? {
        let is_intact = message(reader.session, row).map_err(to_error)?.is_some();
        damaged += usize::from(!is_intact);
    }
    Ok(damaged)
}

/// Compares the links with the names of the sessions. Returns what is no link.
fn names(store: &Sqlite, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let (links, others) = store.names.list();
    for summary in store.list_now(&Filter::default()).into_iter().flatten() {
        let link = links.iter().find(|(name, _)| *name == summary.name);
        if link.is_none_or(|(_, holder)| *holder != summary.id) {
            let object = format!("its name `{}`", summary.name);
            let folder = store.home.names();
            let problem = format!(
                "does not lead to it; without {}, the next command links all names again",
                folder.display()
            );
            findings.push(damage(Some(summary.id), &object, &problem));
        }
    }
    others
}

fn damage(
    session: Option<SessionId>,
    object: &str,
    problem: &(impl std::fmt::Display + ?Sized),
) -> Finding {
    Finding {
        session,
        object: object.to_owned(),
        problem: problem.to_string(),
        severity: Severity::Damage,
    }
}

fn notice(session: Option<SessionId>, object: String, problem: &str) -> Finding {
    Finding {
        session,
        object,
        problem: problem.to_owned(),
        severity: Severity::Notice,
    }
}

fn stray(path: &std::path::Path) -> Finding {
    notice(None, path.display().to_string(), "does not belong here")
}

/// Files in the home folder that Segno did not put there.
pub(super) fn home(home: &Home) -> Vec<Finding> {
    const OURS: &[&str] = &[
        "sessions",
        "names",
        "trash",
        "index",
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
        "notices",
        "previews",
        "server",
        "spool",
        "watch.lock",
        "workers",
    ];
    let entries = home.disk().list(home.root()).unwrap_or_default();
    let unknown = entries.into_iter().filter(|entry| {
        let name = entry.file_name().and_then(|name| name.to_str());
        name.is_none_or(|name| !OURS.contains(&name))
    });
    let mut findings: Vec<_> = unknown.map(|entry| stray(&entry)).collect();
    if !home.has_reserve() {
        let problem = "is not allocated: the disk is or was full";
        findings.push(notice(None, "the reserve".into(), problem));
    }
    findings
}
