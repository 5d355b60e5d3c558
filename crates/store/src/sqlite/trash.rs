//! Transactions on the trash. A session is in the trash if it has a row in a separate table, so
//! that damage to its other rows does not matter (P8).

use rusqlite::{Connection, OptionalExtension, params};
use segno_core::id::{Name, SessionId};
use segno_core::lease::Lease;
use segno_core::store::Error;
use segno_core::time::Timestamp;

use super::row::{LeaseRow, SessionRow, TrashRow};
use super::write::{Tx, is_taken, load_lease, matches_lease, session_error, update_lease};

pub(super) fn is_discarded(tx: &Connection, session: SessionId) -> Result<bool, Error> {
    tx.prepare_cached("SELECT EXISTS (SELECT 1 FROM trash WHERE session_id = ?1)")
        .and_then(|mut statement| statement.query_row([session.to_string()], |row| row.get(0)))
        .map_err(session_error(session))
}

/// Moves a session to the trash. `has_marker` says that it has an acknowledgement marker, whatever the
/// tables contain.
pub(super) fn discard(
    tx: &mut Tx<'_>,
    session: SessionId,
    seen: Option<&Lease>,
    has_marker: bool,
    now: Timestamp,
) -> Result<(), Error> {
    if is_discarded(tx, session)? || !(has_marker || is_known(tx, session)?) {
        return Err(Error::NoSession(session));
    }
    fence(tx, session, seen)?;
    let row = TrashRow {
        session,
        at: now,
        name: free_name(tx, session)?,
    };
    let insert = format!(
        "INSERT INTO trash ({}) VALUES (?1, ?2, ?3, ?4)",
        TrashRow::COLUMNS
    );
    let name = row.name.as_ref().map(Name::as_str);
    tx.execute(
        &insert,
        params![session.to_string(), now.0, name, row.check()],
    )
    .map_err(session_error(session))?;
    Ok(())
}

pub(super) fn is_known(tx: &Connection, session: SessionId) -> Result<bool, Error> {
    let query = "SELECT EXISTS (SELECT 1 FROM session WHERE id = ?1) OR EXISTS (SELECT 1 FROM lease WHERE session_id = ?1)";
    tx.prepare_cached(query)
        .and_then(|mut statement| statement.query_row([session.to_string()], |row| row.get(0)))
        .map_err(session_error(session))
}

/// Increments the run number, so that the owner of the lease can no longer write (P3).
fn fence(tx: &mut Tx<'_>, session: SessionId, seen: Option<&Lease>) -> Result<(), Error> {
    match load_lease(tx, session) {
        Ok(before) if seen.is_some_and(|seen| !matches_lease(&before, seen)) => {
            Err(Error::LeaseChanged(session))
        }
        Ok(before) => update_lease(
            tx,
            &LeaseRow {
                run: before.run.next(),
                owner: None,
                ..before
            },
        ),
        Err(Error::NoSession(_)) => Ok(()),
        // An owner may remember the row by its checksum; the cleared checksum cannot match that.
        Err(Error::Damaged { .. }) => {
            tx.execute(
                "UPDATE lease SET row_check = x'' WHERE session_id = ?1",
                [session.to_string()],
            )
            .map_err(session_error(session))?;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Frees a session's name and returns it: in the trash, the name of a session is its id.
fn free_name(tx: &Connection, session: SessionId) -> Result<Option<Name>, Error> {
    match session_row(tx, session) {
        Ok(Some(row)) => {
            let name = row.name.clone();
            rename(tx, row, Name::sanitized(&session.to_string()))?;
            Ok(Some(name))
        }
        Ok(None) => Ok(None),
        // A damaged row stays damaged, and frees its name if possible.
        Err(Error::Damaged { .. }) => {
            let _ = tx.execute(
                "UPDATE session SET name = id WHERE id = ?1",
                [session.to_string()],
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
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

fn rename(tx: &Connection, row: SessionRow, name: Name) -> Result<(), Error> {
    let row = SessionRow { name, ..row };
    tx.execute(
        "UPDATE session SET name = ?2, row_check = ?3 WHERE id = ?1",
        params![row.id.to_string(), row.name.as_str(), row.check()],
    )
    .map_err(session_error(row.id))?;
    Ok(())
}

pub(super) fn restore(
    tx: &Connection,
    session: SessionId,
    name: Option<&Name>,
) -> Result<(), Error> {
    let id = session.to_string();
    let query = format!(
        "SELECT {} FROM trash WHERE session_id = ?1",
        TrashRow::COLUMNS
    );
    let kept = tx
        .query_row(&query, [&id], |row| Ok(TrashRow::read(row)))
        .optional()
        .map_err(session_error(session))?
        .ok_or(Error::NoSession(session))?;
    let name = name.cloned().or(kept.ok().and_then(|kept| kept.name));
    // A damaged row gets no name and stays damaged.
    if let (Some(name), Ok(Some(row))) = (name, session_row(tx, session)) {
        if is_taken(tx, session, &name)? {
            return Err(Error::NameTaken(name));
        }
        rename(tx, row, name)?;
    }
    tx.execute("DELETE FROM trash WHERE session_id = ?1", [&id])
        .map_err(session_error(session))?;
    Ok(())
}

pub(super) fn destroy(tx: &Connection, session: SessionId) -> Result<(), Error> {
    // P8: checked in the transaction that deletes, because the session may have been restored
    // meanwhile.
    if !is_discarded(tx, session)? {
        return Err(Error::NoSession(session));
    }
    let id = session.to_string();
    for (table, key) in [
        ("journal", "session_id"),
        ("folded", "session_id"),
        ("inbox", "session_id"),
        ("lease", "session_id"),
        ("session", "id"),
        ("trash", "session_id"),
    ] {
        tx.execute(&format!("DELETE FROM {table} WHERE {key} = ?1"), [&id])
            .map_err(session_error(session))?;
    }
    Ok(())
}
