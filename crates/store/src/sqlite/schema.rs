//! The tables of a session's database, and how its format is recognized.
//!
//! A database is created in the transaction that writes the session's first events, so it has all
//! tables and a session, or nothing. `docs/formats/store.md` describes the tables.

use std::path::Path;

use rusqlite::Connection;
use segno_core::digest::Digest;
use segno_core::store::Error;

use super::connection::database_error;

/// "Segn" as a number: distinguishes our databases from those of other programs.
pub(super) const APPLICATION: i32 = 0x5365_676E;

/// The format of a session's database. Formats 1 and 2 had all sessions in one database.
pub(super) const FORMAT: u32 = 3;

/// The journal's key is its row id: records are appended at the end of one tree. Tables with the
/// column `one` have one row, and no index that could be damaged apart from it.
const TABLES: &str = "
CREATE TABLE session (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  workspace TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  row_check BLOB NOT NULL
) STRICT;

CREATE TABLE lease (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  session_id TEXT NOT NULL,
  run INTEGER NOT NULL,
  owner TEXT,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  status TEXT NOT NULL,
  spec_digest BLOB,
  head_seq INTEGER NOT NULL,
  head_hash BLOB NOT NULL,
  updated_at INTEGER NOT NULL,
  row_check BLOB NOT NULL
) STRICT;

CREATE TABLE journal (
  seq INTEGER PRIMARY KEY NOT NULL,
  run INTEGER NOT NULL,
  at INTEGER NOT NULL,
  version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  path TEXT,
  revision INTEGER NOT NULL,
  hash BLOB NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX journal_finished ON journal (path, revision)
  WHERE kind = 'step_finished';

CREATE TABLE folded (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  session_id TEXT NOT NULL,
  head_seq INTEGER NOT NULL,
  head_hash BLOB NOT NULL,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,
  row_check BLOB NOT NULL
) STRICT;

CREATE TABLE inbox (
  id INTEGER PRIMARY KEY NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  row_check BLOB NOT NULL
) STRICT;
";

/// The digest of the schema that [`create`] makes; a test computes it.
const SCHEMA_DIGEST: &str = "11fca0407004fce9705297bb70b34a9e3d78d98d9c21cc3a1dcde2eb87c03073";

/// Creates the tables, inside the caller's transaction.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    connection.execute_batch(&format!(
        "PRAGMA user_version = {FORMAT}; PRAGMA application_id = {APPLICATION}"
    ))
}

/// Returns the format of a database; 0 if it is empty. Refuses a database that is not ours, or that
/// a newer program made.
pub(super) fn format(connection: &Connection, path: &Path) -> Result<u32, Error> {
    let number = |pragma: &str| -> Result<i64, Error> {
        connection
            .query_row(pragma, [], |row| row.get(0))
            .map_err(|error| database_error(path, &error))
    };
    let place = || path.display().to_string();
    let damaged = |reason: String| Error::Damaged {
        object: format!("the database {}", place()),
        reason,
    };
    // All three in one transaction: another process may be creating the database right now.
    let transaction = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()
        .map_err(|error| database_error(path, &error))?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let (found, application) = (
        number("PRAGMA user_version")?,
        number("PRAGMA application_id")?,
    );
    drop(transaction);
    if (found, application, tables) == (0, 0, 0) {
        return Ok(0);
    }
    if application != i64::from(APPLICATION) {
        return Err(damaged(
            "it is not a Segno database, or its header is damaged".into(),
        ));
    }
    match u32::try_from(found) {
        Ok(0) | Err(_) => Err(damaged(format!("its format {found} is invalid"))),
        Ok(found) if found > FORMAT => Err(Error::Newer {
            place: place(),
            found,
            known: FORMAT,
        }),
        Ok(found) => Ok(found),
    }
}

/// P9: a flipped bit in the schema's text or in the header's settings changes what SQLite does with
/// intact pages, so both are compared with what we created.
pub(super) fn verify(connection: &Connection, path: &Path) -> Result<(), Error> {
    let found = schema_of(connection).map_err(|error| database_error(path, &error))?;
    // Creating the tables takes longer than everything else when a database is opened, and is
    // needed only to say what differs.
    if digest(&found).to_string() == SCHEMA_DIGEST {
        return Ok(());
    }
    let expected = expected_schema().map_err(|error| database_error(path, &error))?;
    if expected == found {
        return Ok(());
    }
    let differing = found
        .iter()
        .zip(&expected)
        .find(|(found, expected)| found != expected);
    let name = differing.map_or("the list of tables", |(_, (name, _))| name.as_str());
    Err(Error::Damaged {
        object: format!("the database {}", path.display()),
        reason: format!("{name} differs from Segno's schema"),
    })
}

fn schema_of(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for pragma in ["auto_vacuum", "encoding", "page_size"] {
        let value: rusqlite::types::Value =
            connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
        all.push((pragma.to_owned(), format!("{value:?}")));
    }
    let mut statement = connection
        .prepare("SELECT name, type || ' ' || tbl_name || ' ' || ifnull(sql, '') FROM sqlite_schema ORDER BY name")?;
    for row in statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        all.push(row?);
    }
    Ok(all)
}

fn digest(schema: &[(String, String)]) -> Digest {
    let fields = schema.iter().flat_map(|(name, text)| [name, text]);
    let fields: Vec<&[u8]> = fields.map(String::as_bytes).collect();
    Digest::of_fields(&fields)
}

#[expect(
    clippy::disallowed_methods,
    reason = "an empty database in memory, for comparison"
)]
fn expected_schema() -> rusqlite::Result<Vec<(String, String)>> {
    let fresh = Connection::open(":memory:")?;
    create(&fresh)?;
    schema_of(&fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_digest_matches_the_tables() {
        assert_eq!(
            digest(&expected_schema().unwrap()).to_string(),
            SCHEMA_DIGEST
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a database of another version")]
    fn newer_and_foreign_databases_are_refused() {
        let connection = Connection::open(":memory:").unwrap();
        let path = Path::new("journal.db");
        assert_eq!(format(&connection, path), Ok(0));
        create(&connection).unwrap();
        assert_eq!(format(&connection, path), Ok(FORMAT));
        connection.execute_batch("PRAGMA user_version = 9").unwrap();
        let newer = Error::Newer {
            place: "journal.db".into(),
            found: 9,
            known: FORMAT,
        };
        assert_eq!(format(&connection, path), Err(newer));
        connection
            .execute_batch("PRAGMA application_id = 7")
            .unwrap();
        let foreign = format(&connection, path);
        assert!(matches!(foreign, Err(Error::Damaged { .. })), "{foreign:?}");
    }
}
