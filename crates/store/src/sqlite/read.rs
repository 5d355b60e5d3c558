//! Queries. Everything is verified before it is returned: records by their hash chain, rows by
//! their checksum, the end of the journal by its acknowledgement marker (P9).

use std::cell::Cell;

use rusqlite::{Connection, OptionalExtension, Row, params};
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Broken, Event, Head, JournalEvent, Record, Run, Seq};
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_core::store::{CachedState, Error, InboxMessage};
use segno_core::time::Timestamp;

use super::connection::classify;
use super::row::{self, LeaseRow, SessionRow};
use super::write::{foreign_row, missing_row, of_session, session_error};
use crate::ack_marker::{AckMarker, AckMarkers};

/// Reads one session.
pub(super) struct Reader<'a> {
    pub(super) session: SessionId,
    pub(super) connection: &'a Connection,
    pub(super) ack_markers: &'a AckMarkers,
    /// Set when acknowledged events are missing.
    pub(super) lost: Cell<bool>,
}

const RECORD: &str = "seq, run, at, version, kind, path, revision, hash, body";

impl Reader<'_> {
    pub(super) fn lease_row(&self) -> Result<LeaseRow, Error> {
        // Read before the row: a commit in between can then only be ahead of the marker.
        let marker = self.ack_markers.read(self.session);
        let query = format!("SELECT {} FROM lease", LeaseRow::COLUMNS);
        let row = self.one_row(&query, |row| LeaseRow::read(row, 0))?;
        let row = row.ok_or_else(|| missing_row(self.session, "lease"))?;
        let row = row.map_err(|error| of_session(self.session, error))?;
        if row.session != self.session {
            return Err(foreign_row(self.session, row.session));
        }
        check_acknowledged(&row, marker).inspect_err(|_| self.lost.set(true))?;
        Ok(row)
    }

    fn session_row(&self) -> Result<SessionRow, Error> {
        let query = format!("SELECT {} FROM session", SessionRow::COLUMNS);
        let row = self.one_row(&query, SessionRow::read)?;
        let row = row.ok_or_else(|| missing_row(self.session, "session"))?;
        let row = row.map_err(|error| of_session(self.session, error))?;
        if row.id != self.session {
            return Err(foreign_row(self.session, row.id));
        }
        Ok(row)
    }

    fn one_row<T>(
        &self,
        query: &str,
        read: impl FnOnce(&Row<'_>) -> T,
    ) -> Result<Option<T>, Error> {
        self.connection
            .prepare_cached(query)
            .and_then(|mut statement| statement.query_row([], |row| Ok(read(row))).optional())
            .map_err(session_error(self.session))
    }

    pub(super) fn summary(&self) -> Result<Summary, Error> {
        let lease = self.lease_row()?;
        Ok(row::summary(self.session_row()?, &lease))
    }

    /// Events, each converted by `wanted` together with its record.
    pub(super) fn entries<T>(
        &self,
        after: Head,
        limit: usize,
        wanted: fn(Record, JournalEvent) -> T,
    ) -> Result<Vec<T>, Error> {
        let session = self.session;
        let to_error =
            |error: rusqlite::Error| classify(format!("the journal of session {session}"), &error);
        // One read transaction, so that the rows and the end of the journal are consistent.
        let snapshot = self.connection.unchecked_transaction().map_err(to_error)?;
        let end = self.lease_row()?.head;
        let query = format!("SELECT {RECORD} FROM journal WHERE seq > ?1 ORDER BY seq LIMIT ?2");
        let mut statement = snapshot.prepare_cached(&query).map_err(to_error)?;
        let count = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement
            .query(params![after.seq.0.cast_signed(), count])
            .map_err(to_error)?;
        let mut entries = Vec::new();
        let mut head = after;
        while let Some(row) = rows.next().map_err(to_error)? {
            let record = record(row).map_err(to_error)?;
            let entry = head
                .open(&record)
                .map_err(|broken| record_error(session, &broken))?;
            head = entry.head();
            entries.push(wanted(record, entry));
        }
        if entries.len() < limit && head != end {
            let reason = format!(
                "it ends at event {} and should end at event {}",
                head.seq, end.seq
            );
            return Err(damaged(session, &reason));
        }
        Ok(entries)
    }

    pub(super) fn entry(&self, seq: Seq) -> Result<JournalEvent, Error> {
        let session = self.session;
        let to_error =
            |error: rusqlite::Error| classify(format!("the journal of session {session}"), &error);
        let query =
            format!("SELECT {RECORD} FROM journal WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq");
        let mut statement = self.connection.prepare_cached(&query).map_err(to_error)?;
        let before = seq.0.saturating_sub(1);
        let mut rows = statement
            .query(params![before.cast_signed(), seq.0.cast_signed()])
            .map_err(to_error)?;
        let mut head = Head::genesis(session);
        while let Some(row) = rows.next().map_err(to_error)? {
            let record = record(row).map_err(to_error)?;
            if record.seq == seq {
                return head
                    .open(&record)
                    .map_err(|broken| record_error(session, &broken));
            }
            head = record.head();
        }
        Err(damaged(session, &format!("event {seq} is missing")))
    }

    pub(super) fn finished(&self, path: &Path, revision: u32) -> Result<JournalEvent, Error> {
        let session = self.session;
        let to_error =
            |error: rusqlite::Error| classify(format!("the journal of session {session}"), &error);
        let query =
            "SELECT seq FROM journal WHERE path = ?1 AND revision = ?2 AND kind = 'step_finished'";
        let found: Option<i64> = self
            .connection
            .prepare_cached(query)
            .and_then(|mut statement| {
                let key = params![path.as_str(), revision];
                statement.query_row(key, |row| row.get(0)).optional()
            })
            .map_err(to_error)?;
        // The index only says where to look; the event is verified by its hash chain.
        match found {
            Some(seq) => self.entry(Seq(seq.cast_unsigned())),
            None => Err(damaged(
                session,
                &format!("the `step_finished` event of step {path} is missing"),
            )),
        }
    }

    pub(super) fn folded(&self) -> Option<CachedState> {
        let session = self.session;
        let found = self
            .connection
            .prepare_cached("SELECT head_seq, head_hash, version, body, row_check FROM folded")
            .and_then(|mut statement| {
                statement
                    .query_row([], |row| {
                        let (seq, hash): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
                        let (version, body): (u16, String) = (row.get(2)?, row.get(3)?);
                        let check =
                            row::check(params![session.to_string(), seq, hash, version, body]);
                        let sound = check == row.get::<_, Vec<u8>>(4)?;
                        let head = Digest::from_bytes(&hash).map(|hash| Head {
                            seq: Seq(seq.cast_unsigned()),
                            hash,
                        });
                        Ok(head.filter(|_| sound).map(|head| CachedState {
                            head,
                            version,
                            body,
                        }))
                    })
                    .optional()
            });
        // A cache that cannot be read counts as missing; `doctor` reports it.
        found.ok().flatten().flatten()
    }

    pub(super) fn pending(&self) -> Result<Vec<(u64, InboxMessage)>, Error> {
        let session = self.session;
        let to_error =
            |error: rusqlite::Error| classify(format!("the inbox of session {session}"), &error);
        let mut statement = self
            .connection
            .prepare_cached("SELECT id, at, body, row_check FROM inbox ORDER BY id")
            .map_err(to_error)?;
        let mut rows = statement.query([]).map_err(to_error)?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next().map_err(to_error)? {
            messages.push(message(session, row).map_err(to_error)?.ok_or_else(|| {
                Error::Damaged {
                    object: format!("the inbox of session {session}"),
                    reason: "a message does not match its checksum".into(),
                }
            })?);
        }
        Ok(messages)
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let hash: Vec<u8> = row.get(7)?;
    Ok(Record {
        seq: Seq(row.get::<_, i64>(0)?.cast_unsigned()),
        run: Run(row.get::<_, i64>(1)?.cast_unsigned()),
        at: Timestamp(row.get(2)?),
        version: row.get(3)?,
        kind: row.get(4)?,
        path: row.get(5)?,
        revision: row.get(6)?,
        body: row.get(8)?,
        hash: Digest::from_bytes(&hash).unwrap_or_else(|| Digest::of(&[])),
    })
}

pub(super) fn message(
    session: SessionId,
    row: &Row<'_>,
) -> rusqlite::Result<Option<(u64, InboxMessage)>> {
    let (id, at, body): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let sound = row::check(params![session.to_string(), at, body]) == row.get::<_, Vec<u8>>(3)?;
    let message = serde_json::from_str(&body).ok().filter(|_| sound);
    Ok(message.map(|message| (id.cast_unsigned(), message)))
}

/// P2: the journal must contain everything that was acknowledged.
fn check_acknowledged(row: &LeaseRow, marker: AckMarker) -> Result<(), Error> {
    match marker {
        AckMarker::Acknowledged(head) if head.seq > row.head.seq => {
            Err(lost_events(row.session, head, row.head.seq))
        }
        AckMarker::Acknowledged(head) if head.seq == row.head.seq && head.hash != row.head.hash => {
            Err(damaged(
                row.session,
                &"its head is not the acknowledged one",
            ))
        }
        _ => Ok(()),
    }
}

pub(super) fn lost_events(session: SessionId, acknowledged: Head, found: Seq) -> Error {
    let reason = format!(
        "it was acknowledged up to event {}, and the database has it up to event {found}: the database lost its newest events or is an older copy",
        acknowledged.seq
    );
    damaged(session, &reason)
}

/// The error for a record that cannot be opened: damaged, or written by a newer program.
fn record_error(session: SessionId, broken: &Broken) -> Error {
    match broken {
        Broken::Unknown { version, .. } if *version > Event::VERSION => Error::Newer {
            place: format!("the journal of session {session}"),
            found: u32::from(*version),
            known: u32::from(Event::VERSION),
        },
        other => damaged(session, other),
    }
}

fn damaged(session: SessionId, reason: &dyn std::fmt::Display) -> Error {
    Error::Damaged {
        object: format!("the journal of session {session}"),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use segno_core::error::{Diagnose, Kind};
    use segno_core::time::Timestamp;

    use super::*;

    #[test]
    fn newer_event_is_no_damage() {
        let session = SessionId::new(Timestamp(0), [1; 10]);
        let unknown = |version| Broken::Unknown {
            seq: Seq(1),
            kind: "of_tomorrow".to_owned(),
            version,
        };
        let newer = record_error(session, &unknown(Event::VERSION + 1));
        assert_eq!(newer.kind(), Kind::Unusable);
        let unreadable = record_error(session, &unknown(Event::VERSION));
        assert_eq!(unreadable.kind(), Kind::Damaged);
    }
}
