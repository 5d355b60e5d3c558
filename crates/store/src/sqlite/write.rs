//! Write transactions. Each function runs inside a transaction that holds the write lock, so that
//! reading and then writing is atomic.

use std::ops::Deref;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Record, Run};
use segno_core::lease::{Lease, Owner, OwnerLock};
use segno_core::store::{Batch, CachedState, Error, InboxMessage, LeaseUpdate, NewSession};
use segno_core::time::Timestamp;

use super::connection::classify;
use super::row::{self, LeaseRow, SessionRow};
use super::schema;

/// A transaction, and the lease row as this process last wrote it.
pub(super) struct Tx<'a> {
    pub(super) connection: &'a Connection,
    pub(super) lease: &'a mut Option<CachedLease>,
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

/// The lease row as this process last wrote it, with its checksum. The statement that uses it checks
/// whether it is still current, so a stale one costs one more query and nothing else.
pub(super) type CachedLease = (LeaseRow, Value);

pub(super) fn session_error(session: SessionId) -> impl Fn(rusqlite::Error) -> Error {
    move |error| classify(format!("session {session}"), &error)
}

pub(super) fn create(tx: &mut Tx<'_>, new: &NewSession, now: Timestamp) -> Result<Lease, Error> {
    let first = new.batch.records.first();
    let row = SessionRow {
        id: new.id,
        name: new.name.clone(),
        kind: new.kind,
        workspace: new.workspace.clone(),
        created_at: first.map_or(now, |record| record.at),
    };
    schema::create(tx).map_err(session_error(new.id))?;
    let insert = format!(
        "INSERT INTO session ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        SessionRow::COLUMNS
    );
    tx.execute(
        &insert,
        params![
            row.id.to_string(),
            row.name.as_str(),
            row.kind.as_str(),
            row.workspace,
            row.created_at.0,
            row.check()
        ],
    )
    .map_err(session_error(new.id))?;
    let lease = LeaseRow {
        session: new.id,
        run: new.batch.run,
        owner: Some(new.owner.clone()),
        since: now,
        until: now.after(new.ttl),
        status: new.batch.status,
        spec_digest: new.batch.spec_digest,
        head: new.batch.expected,
        updated_at: now,
    };
    let insert = format!(
        "INSERT INTO lease ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        LeaseRow::COLUMNS
    );
    tx.execute(&insert, params_from_iter(lease.values()))
        .map_err(session_error(new.id))?;
    append(tx, &new.batch, now)?;
    Ok(lease.lease(now, OwnerLock::Held))
}

pub(super) fn append(tx: &mut Tx<'_>, batch: &Batch, now: Timestamp) -> Result<(), Error> {
    let known = tx.lease.take();
    let known = known.filter(|(row, _)| row.run == batch.run && row.head == batch.expected);
    let moved = match known {
        Some((before, check)) => advance(tx, before, check, batch, now)?,
        None => false,
    };
    if !moved {
        let before = load_lease(tx, batch.session)?;
        // P3: the run is compared in the transaction of the write.
        if before.run != batch.run {
            return Err(Error::Fenced {
                session: batch.session,
                run: batch.run,
                newest: before.run,
            });
        }
        // The same batch again, because its writer did not learn the outcome of the first attempt.
        if before.head == batch.head() && !batch.records.is_empty() {
            return Ok(());
        }
        if before.head != batch.expected {
            return Err(Error::WrongHead {
                session: batch.session,
                expected: batch.expected.seq,
                found: before.head.seq,
            });
        }
        let check = before.check().into();
        if !advance(tx, before, check, batch, now)? {
            return Err(missing_row(batch.session, "lease"));
        }
    }
    for record in &batch.records {
        insert_record(tx, batch.session, record)?;
    }
    if let Some(workspace) = &batch.workspace {
        set_workspace(tx, batch.session, workspace)?;
    }
    for message in &batch.handled_messages {
        tx.prepare_cached("DELETE FROM inbox WHERE id = ?1")
            .and_then(|mut statement| statement.execute([message.cast_signed()]))
            .map_err(session_error(batch.session))?;
    }
    match &batch.cached_state {
        Some(folded) => put_folded(tx, batch.session, folded),
        None => Ok(()),
    }
}

/// Updates the lease row from `before` to the end of the batch, if its checksum is still that of
/// `before`. P3: this condition is the fence, in the statement that writes.
fn advance(
    tx: &mut Tx<'_>,
    before: LeaseRow,
    check: Value,
    batch: &Batch,
    now: Timestamp,
) -> Result<bool, Error> {
    let (owner, until) = match batch.lease {
        LeaseUpdate::Renew(ttl) => (before.owner, now.after(ttl)),
        LeaseUpdate::Release => (None, now),
    };
    let after = LeaseRow {
        owner,
        until,
        status: batch.status,
        spec_digest: batch.spec_digest,
        head: batch.head(),
        updated_at: batch.records.last().map_or(now, |record| record.at),
        ..before
    };
    let values = after.values();
    let new_check = values[10].clone();
    let moved = tx
        .prepare_cached(
            "UPDATE lease SET run = ?2, owner = ?3, since = ?4, until = ?5, status = ?6, spec_digest = ?7, head_seq = ?8, head_hash = ?9, updated_at = ?10, row_check = ?11 WHERE session_id = ?1 AND row_check = ?12",
        )
        .and_then(|mut statement| {
            statement.execute(params_from_iter(values.into_iter().chain([check])))
        })
        .map_err(session_error(batch.session))?;
    if moved == 1 {
        *tx.lease = Some((after, new_check));
    }
    Ok(moved == 1)
}

/// Changes the workspace of a session.
fn set_workspace(tx: &Connection, session: SessionId, workspace: &str) -> Result<(), Error> {
    let row = session_row(tx, session).map_err(|error| of_session(session, error))?;
    let row = row.ok_or(Error::NoSession(session))?;
    let row = SessionRow {
        workspace: workspace.to_owned(),
        ..row
    };
    tx.execute(
        "UPDATE session SET workspace = ?2, row_check = ?3 WHERE id = ?1",
        params![row.id.to_string(), row.workspace, row.check()],
    )
    .map_err(session_error(session))?;
    Ok(())
}

fn put_folded(tx: &Connection, id: SessionId, folded: &CachedState) -> Result<(), Error> {
    let (session, seq) = (id.to_string(), folded.head.seq.0.cast_signed());
    let hash = folded.head.hash.as_bytes().as_slice();
    let check = row::check(params![session, seq, hash, folded.version, folded.body]);
    tx.prepare_cached("INSERT OR REPLACE INTO folded (one, session_id, head_seq, head_hash, version, body, row_check) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)")
        .and_then(|mut statement| {
            statement.execute(params![session, seq, hash, folded.version, folded.body, check])
        })
        .map_err(session_error(id))?;
    Ok(())
}

fn insert_record(tx: &Connection, session: SessionId, record: &Record) -> Result<(), Error> {
    let inserted = tx
        .prepare_cached("INSERT INTO journal (seq, run, at, version, kind, path, revision, hash, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
        .and_then(|mut statement| {
            statement.execute(params![
                record.seq.0.cast_signed(),
                record.run.0.cast_signed(),
                record.at.0,
                record.version,
                record.kind,
                record.path,
                record.revision,
                record.hash.as_bytes().as_slice(),
                record.body,
            ])
        });
    match inserted {
        Ok(_) => Ok(()),
        // P7: "never twice" is a constraint of the table, whatever the code above it assumes.
        Err(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
                && record.kind == "step_finished" =>
        {
            Err(Error::FinishedTwice(session))
        }
        Err(error) => Err(session_error(session)(error)),
    }
}

pub(super) fn acquire(
    tx: &Connection,
    seen: &Lease,
    owner: &Owner,
    now: Timestamp,
    ttl: Duration,
) -> Result<Lease, Error> {
    let before = load_lease(tx, seen.session)?;
    if !matches_lease(&before, seen) {
        return Err(Error::LeaseChanged(seen.session));
    }
    let granted = LeaseRow {
        run: before.run.next(),
        owner: Some(owner.clone()),
        since: now,
        until: now.after(ttl),
        ..before
    };
    update_lease(tx, &granted)?;
    Ok(granted.lease(now, OwnerLock::Held))
}

pub(super) fn heartbeat(
    tx: &Connection,
    session: SessionId,
    run: Run,
    now: Timestamp,
    ttl: Duration,
) -> Result<(), Error> {
    let before = load_lease(tx, session)?;
    if before.run != run {
        return Err(Error::Fenced {
            session,
            run,
            newest: before.run,
        });
    }
    update_lease(
        tx,
        &LeaseRow {
            until: now.after(ttl),
            ..before
        },
    )
}

pub(super) fn release(tx: &Connection, session: SessionId, run: Run) -> Result<(), Error> {
    let before = load_lease(tx, session)?;
    if before.run == run {
        update_lease(
            tx,
            &LeaseRow {
                owner: None,
                ..before
            },
        )?;
    }
    Ok(())
}

pub(super) fn post(
    tx: &Connection,
    session: SessionId,
    at: Timestamp,
    message: &InboxMessage,
) -> Result<(), Error> {
    load_lease(tx, session)?;
    let body = serde_json::to_string(message).expect("a message serializes to JSON");
    let id = session.to_string();
    let check = row::check(params![id, at.0, body]);
    tx.execute(
        "INSERT INTO inbox (at, body, row_check) VALUES (?1, ?2, ?3)",
        params![at.0, body, check],
    )
    .map_err(session_error(session))?;
    Ok(())
}

/// Increments the run number, so that the owner of the lease can no longer write (P3).
pub(super) fn fence(
    tx: &Connection,
    session: SessionId,
    seen: Option<&Lease>,
) -> Result<(), Error> {
    let before = load_lease(tx, session)?;
    if seen.is_some_and(|seen| !matches_lease(&before, seen)) {
        return Err(Error::LeaseChanged(session));
    }
    update_lease(
        tx,
        &LeaseRow {
            run: before.run.next(),
            owner: None,
            ..before
        },
    )
}

/// Fences the owner of a damaged lease row: an owner may remember the row by its checksum, and the
/// cleared checksum cannot match that.
pub(super) fn fence_damaged(tx: &Connection, session: SessionId) -> Result<(), Error> {
    tx.execute("UPDATE lease SET row_check = x''", [])
        .map_err(session_error(session))?;
    Ok(())
}

pub(super) fn session_row(
    tx: &Connection,
    session: SessionId,
) -> Result<Option<SessionRow>, Error> {
    let query = format!("SELECT {} FROM session WHERE id = ?1", SessionRow::COLUMNS);
    tx.query_row(&query, [session.to_string()], |row| {
        Ok(SessionRow::read(row))
    })
    .optional()
    .map_err(session_error(session))?
    .transpose()
}

pub(super) fn rename(tx: &Connection, session: SessionId, name: &Name) -> Result<(), Error> {
    let row = session_row(tx, session)?.ok_or(Error::NoSession(session))?;
    let row = SessionRow {
        name: name.clone(),
        ..row
    };
    tx.execute(
        "UPDATE session SET name = ?2, row_check = ?3 WHERE id = ?1",
        params![row.id.to_string(), row.name.as_str(), row.check()],
    )
    .map_err(session_error(session))?;
    Ok(())
}

pub(super) fn matches_lease(row: &LeaseRow, seen: &Lease) -> bool {
    (row.run, &row.owner, row.until) == (seen.run, &seen.owner, seen.until)
}

pub(super) fn load_lease(tx: &Connection, session: SessionId) -> Result<LeaseRow, Error> {
    static QUERY: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| format!("SELECT {} FROM lease", LeaseRow::COLUMNS));
    let row = tx
        .prepare_cached(&QUERY)
        .and_then(|mut statement| {
            statement
                .query_row([], |row| Ok(LeaseRow::read(row, 0)))
                .optional()
        })
        .map_err(session_error(session))?
        .ok_or_else(|| missing_row(session, "lease"))?;
    let row = row.map_err(|error| of_session(session, error))?;
    if row.session == session {
        Ok(row)
    } else {
        Err(foreign_row(session, row.session))
    }
}

/// The error for a session whose database lost one of its rows.
pub(super) fn missing_row(session: SessionId, table: &str) -> Error {
    Error::Damaged {
        object: format!("session {session}"),
        reason: format!("its row in table {table} is missing"),
    }
}

/// The error for a database that belongs to another session.
pub(super) fn foreign_row(session: SessionId, found: SessionId) -> Error {
    Error::Damaged {
        object: format!("session {session}"),
        reason: format!("its database is that of session {found}"),
    }
}

pub(super) fn update_lease(tx: &Connection, lease: &LeaseRow) -> Result<(), Error> {
    let updated = tx
        .prepare_cached(
            "UPDATE lease SET run = ?2, owner = ?3, since = ?4, until = ?5, status = ?6, spec_digest = ?7, head_seq = ?8, head_hash = ?9, updated_at = ?10, row_check = ?11 WHERE session_id = ?1",
        )
        .and_then(|mut statement| statement.execute(params_from_iter(lease.values())))
        .map_err(session_error(lease.session))?;
    if updated == 1 {
        Ok(())
    } else {
        Err(missing_row(lease.session, "lease"))
    }
}

/// Adds the session to the error for a damaged row.
pub(super) fn of_session(session: SessionId, error: Error) -> Error {
    match error {
        Error::Damaged { object, reason } => Error::Damaged {
            object: format!("session {session} ({object})"),
            reason,
        },
        other => other,
    }
}
