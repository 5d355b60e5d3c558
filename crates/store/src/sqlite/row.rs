//! Rows that change in place. Journal records are verified by their hash chain; these rows have a
//! checksum over all their fields instead, so that every reader notices damage (P9).

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Row, ToSql, params};
use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Head, Run, Seq};
use segno_core::lease::{Lease, Owner, OwnerLock};
use segno_core::session::{Kind, Status};
use segno_core::store::Error;
use segno_core::store::Summary;
use segno_core::time::Timestamp;

/// The checksum of a row's fields: their types and bytes, in order.
pub(super) fn check(fields: &[&dyn ToSql]) -> Vec<u8> {
    let encoded: Vec<Vec<u8>> = fields.iter().map(|field| encode(*field)).collect();
    let bytes: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
    Digest::of_fields(&bytes).as_bytes()[..8].to_vec()
}

fn encode(field: &dyn ToSql) -> Vec<u8> {
    let output = field
        .to_sql()
        .expect("all fields are numbers, texts and bytes");
    let value = match &output {
        ToSqlOutput::Borrowed(value) => *value,
        ToSqlOutput::Owned(value) => ValueRef::from(value),
        _ => ValueRef::Null,
    };
    match value {
        ValueRef::Null => vec![0],
        ValueRef::Integer(number) => [&[1], number.to_le_bytes().as_slice()].concat(),
        ValueRef::Real(number) => [&[2], number.to_le_bytes().as_slice()].concat(),
        ValueRef::Text(text) => [&[3], text].concat(),
        ValueRef::Blob(bytes) => [&[4], bytes].concat(),
    }
}

/// What seldom changes about a session: its name and its workspace.
pub(super) struct SessionRow {
    pub(super) id: SessionId,
    pub(super) name: Name,
    pub(super) kind: Kind,
    pub(super) workspace: String,
    pub(super) created_at: Timestamp,
}

impl SessionRow {
    pub(super) const COLUMNS: &str = "id, name, kind, workspace, created_at, row_check";

    pub(super) fn check(&self) -> Vec<u8> {
        check(params![
            self.id.to_string(),
            self.name.as_str(),
            self.kind.as_str(),
            self.workspace,
            self.created_at.0
        ])
    }

    pub(super) fn read(row: &Row<'_>) -> Result<Self, Error> {
        let text = |index: usize| row.get::<_, String>(index).ok();
        let read = || {
            Some(Self {
                id: text(0)?.parse().ok()?,
                name: Name::new(&text(1)?).ok()?,
                kind: text(2)?.parse().ok()?,
                workspace: text(3)?,
                created_at: Timestamp(row.get(4).ok()?),
            })
        };
        verified("session", row, read(), 5, Self::check)
    }
}

/// What changes with every append: the lease and the end of the journal.
#[derive(Clone)]
pub(super) struct LeaseRow {
    pub(super) session: SessionId,
    pub(super) run: Run,
    pub(super) owner: Option<Owner>,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) status: Status,
    pub(super) spec_digest: Option<Digest>,
    pub(super) head: Head,
    pub(super) updated_at: Timestamp,
}

impl LeaseRow {
    pub(super) const COLUMNS: &str = "session_id, run, owner, since, until, status, spec_digest, head_seq, head_hash, updated_at, row_check";

    fn owner_json(&self) -> Option<String> {
        self.owner
            .as_ref()
            .map(|owner| serde_json::to_string(owner).expect("an owner serializes to JSON"))
    }

    pub(super) fn check(&self) -> Vec<u8> {
        match self.values() {
            [.., Value::Blob(check)] => check,
            _ => unreachable!("the last value is the check"),
        }
    }

    /// The row's fields and its checksum, in the order of the columns.
    pub(super) fn values(&self) -> [Value; 11] {
        let digest = |digest: &Digest| digest.as_bytes().to_vec();
        let mut values = [
            self.session.to_string().into(),
            self.run.0.cast_signed().into(),
            self.owner_json().into(),
            self.since.0.into(),
            self.until.0.into(),
            self.status.as_str().to_owned().into(),
            self.spec_digest.as_ref().map(digest).into(),
            self.head.seq.0.cast_signed().into(),
            digest(&self.head.hash).into(),
            self.updated_at.0.into(),
            Value::Null,
        ];
        let fields = values[..10]
            .iter()
            .map(|value| value as &dyn ToSql)
            .collect::<Vec<_>>();
        values[10] = check(&fields).into();
        values
    }

    pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Self, Error> {
        let text = |index: usize| row.get::<_, String>(first + index).ok();
        let number = |index: usize| row.get::<_, i64>(first + index).ok();
        let count = |index: usize| u64::try_from(number(index)?).ok();
        let digest = |index: usize| Digest::from_bytes(&row.get::<_, Vec<u8>>(first + index).ok()?);
        let read = || {
            Some(Self {
                session: text(0)?.parse().ok()?,
                run: Run(count(1)?),
                owner: match row.get::<_, Option<String>>(first + 2).ok()? {
                    Some(json) => Some(serde_json::from_str(&json).ok()?),
                    None => None,
                },
                since: Timestamp(number(3)?),
                until: Timestamp(number(4)?),
                status: text(5)?.parse().ok()?,
                spec_digest: match row.get::<_, Option<Vec<u8>>>(first + 6).ok()? {
                    Some(bytes) => Some(Digest::from_bytes(&bytes)?),
                    None => None,
                },
                head: Head {
                    seq: Seq(count(7)?),
                    hash: digest(8)?,
                },
                updated_at: Timestamp(number(9)?),
            })
        };
        verified("lease", row, read(), first + 10, Self::check)
    }

    pub(super) fn lease(&self, now: Timestamp, lock: OwnerLock) -> Lease {
        Lease {
            session: self.session,
            run: self.run,
            owner: self.owner.clone(),
            since: self.since,
            until: self.until,
            remaining: self.until.since(now),
            lock,
        }
    }
}

/// Returns a parsed row if its checksum matches.
fn verified<T>(
    table: &str,
    row: &Row<'_>,
    read: Option<T>,
    check_index: usize,
    check: impl FnOnce(&T) -> Vec<u8>,
) -> Result<T, Error> {
    let stored: Option<Vec<u8>> = row.get(check_index).ok();
    match read {
        Some(value) if stored == Some(check(&value)) => Ok(value),
        _ => Err(Error::Damaged {
            object: format!("a row of table {table}"),
            reason: "its fields do not match its checksum".into(),
        }),
    }
}

/// Combines both rows of a session.
pub(super) fn summary(session: SessionRow, lease: &LeaseRow) -> Summary {
    Summary {
        id: session.id,
        name: session.name,
        kind: session.kind,
        status: lease.status,
        workspace: session.workspace,
        spec_digest: lease.spec_digest,
        created_at: session.created_at,
        updated_at: lease.updated_at,
        run: lease.run,
        head: lease.head,
    }
}
