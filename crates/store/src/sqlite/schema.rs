//! The tables, and how an older database is brought up to date.
//!
//! Forward only. Each change runs in a transaction together with the number that says it ran, so a
//! kill leaves the database before it or after it; a copy is kept from before the first.
//! `docs/formats/store.md` describes the tables for people.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use segno_core::digest::Digest;
use segno_core::ports::Access;
use segno_core::store::Error;

use super::connection::trouble;
use crate::home::{self, Home};

/// "Segn" as a number: tells our databases from those of other programs.
const APPLICATION: i32 = 0x5365_676E;

/// Every change of format so far; their number is the format's version.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE session (
  id TEXT PRIMARY KEY NOT NULL,
  name TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  workspace TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  row_check BLOB NOT NULL
) STRICT;

CREATE TABLE lease (
  session_id TEXT PRIMARY KEY NOT NULL,
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
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  run INTEGER NOT NULL,
  at INTEGER NOT NULL,
  version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  path TEXT,
  revision INTEGER NOT NULL,
  hash BLOB NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (session_id, seq)
) STRICT;

CREATE UNIQUE INDEX journal_finished ON journal (session_id, path, revision)
  WHERE kind = 'step_finished';

CREATE TABLE folded (
  session_id TEXT PRIMARY KEY NOT NULL,
  head_seq INTEGER NOT NULL,
  head_hash BLOB NOT NULL,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,
  row_check BLOB NOT NULL
) STRICT;

CREATE TABLE inbox (
  id INTEGER PRIMARY KEY NOT NULL,
  session_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  row_check BLOB NOT NULL
) STRICT;

CREATE INDEX inbox_session ON inbox (session_id, id);
",
    "
CREATE TABLE trash (
  session_id TEXT PRIMARY KEY NOT NULL,
  at INTEGER NOT NULL,
  name TEXT,
  row_check BLOB NOT NULL
) STRICT;
",
];

/// The digest of what all of them make; a test computes it.
const MADE: &str = "fa9f18ca2dcca683b28a2f267648eaba50729c55765e65ec891ff46995709eac";

/// Checks that the database is ours and up to date, and makes it so if it is new or older.
pub(super) fn prepare(connection: &mut Connection, home: &Home) -> Result<(), Error> {
    bring_up(connection, home, MIGRATIONS)?;
    compare(connection, &home.database())
}

fn bring_up(connection: &mut Connection, home: &Home, migrations: &[&str]) -> Result<(), Error> {
    let path = &home.database();
    let trouble = |error: rusqlite::Error| trouble(path, &error);
    let known = u32::try_from(migrations.len()).expect("there are few migrations");
    if version(connection, path, known)? == known {
        return Ok(());
    }
    back_up(connection, home, known)?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(trouble)?;
    // Asked again inside the transaction: another process may have been faster.
    let found = version(&transaction, path, known)?;
    for (number, migration) in migrations.iter().enumerate().skip(found as usize) {
        transaction.execute_batch(migration).map_err(trouble)?;
        let settings = format!(
            "PRAGMA user_version = {}; PRAGMA application_id = {APPLICATION}",
            number + 1
        );
        transaction.execute_batch(&settings).map_err(trouble)?;
    }
    transaction.commit().map_err(trouble)
}

/// Refuses a database that is not ours, or that a newer program made.
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<(), Error> {
    let known = u32::try_from(MIGRATIONS.len()).expect("there are few migrations");
    version(connection, path, known).map(|_| ())
}

/// The format of the database; 0 if it is empty.
fn version(connection: &Connection, path: &Path, known: u32) -> Result<u32, Error> {
    let number = |pragma: &str| -> Result<i64, Error> {
        connection
            .query_row(pragma, [], |row| row.get(0))
            .map_err(|error| trouble(path, &error))
    };
    let place = || path.display().to_string();
    let damaged = |reason: String| Error::Damaged {
        object: format!("the database {}", place()),
        reason,
    };
    // All three at one moment: another process may be making the database right now.
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()
        .map_err(|error| trouble(path, &error))?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let (found, application) = (
        number("PRAGMA user_version")?,
        number("PRAGMA application_id")?,
    );
    drop(moment);
    if (found, application, tables) == (0, 0, 0) {
        return Ok(0);
    }
    if application != i64::from(APPLICATION) {
        return Err(damaged(
            "it is not a database of segno, or its header is damaged".into(),
        ));
    }
    match u32::try_from(found) {
        Ok(0) | Err(_) => Err(damaged(format!("it says that it has format {found}"))),
        Ok(found) if found > known => Err(Error::Newer {
            place: place(),
            found,
            known,
        }),
        Ok(found) => Ok(found),
    }
}

/// Keeps a copy of the database as it was, private from the start.
fn back_up(connection: &Connection, home: &Home, known: u32) -> Result<(), Error> {
    let path = &home.database();
    let found = version(connection, path, known)?;
    if found == 0 {
        return Ok(());
    }
    let copy = home
        .backups()
        .join(format!("format-{found}-{}.db", std::process::id()));
    let made = home.disk().create(&copy, &[], Access::Private);
    made.map_err(|error| home::trouble(&copy, &error))?;
    connection
        .execute("VACUUM INTO ?1", [copy.display().to_string()])
        .map_err(|error| trouble(path, &error))?;
    Ok(())
}

/// P9: a flipped bit in the schema's text or in the header's settings changes what SQLite does
/// with sound pages, so both are compared with what we made.
fn compare(connection: &Connection, path: &Path) -> Result<(), Error> {
    let found = schema_of(connection).map_err(|error| trouble(path, &error))?;
    // Making the tables anew takes longer than all else that opening a database takes, and is
    // needed only to say what differs.
    if digest(&found).to_string() == MADE {
        return Ok(());
    }
    let expected = made_by(MIGRATIONS).map_err(|error| trouble(path, &error))?;
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
        reason: format!("{name} is not as segno made it"),
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
    reason = "an empty database in memory, to compare with"
)]
fn made_by(migrations: &[&str]) -> rusqlite::Result<Vec<(String, String)>> {
    let fresh = Connection::open(":memory:")?;
    for migration in migrations {
        fresh.execute_batch(migration)?;
    }
    schema_of(&fresh)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use crate::disk::LocalDisk;
    use crate::sqlite::connection;

    fn home() -> (TempDir, Home) {
        let folder = TempDir::new().unwrap();
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
        (folder, home)
    }

    fn names(connection: &Connection) -> Vec<String> {
        schema_of(connection)
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn the_digest_is_that_of_what_the_migrations_make() {
        assert_eq!(digest(&made_by(MIGRATIONS).unwrap()).to_string(), MADE);
    }

    const FIRST: &str = "CREATE TABLE one (x INTEGER) STRICT";
    const SECOND: &str = "CREATE TABLE two (x INTEGER) STRICT";

    #[test]
    fn an_older_database_is_brought_up_to_date_and_a_copy_is_kept() {
        let (_folder, home) = home();
        let mut connection = connection::open(&home.database()).unwrap();
        let (before, after) = ([MIGRATIONS[0]], [MIGRATIONS[0], SECOND]);
        bring_up(&mut connection, &home, &before).unwrap();
        connection
            .execute_batch("INSERT INTO inbox VALUES (1, 'a', 2, 'b', x'00')")
            .unwrap();
        bring_up(&mut connection, &home, &after).unwrap();
        assert!(names(&connection).contains(&"two".to_owned()));
        assert_eq!(version(&connection, &home.database(), 2), Ok(2));
        let copies = home.disk().list(&home.backups()).unwrap();
        assert_eq!(copies.len(), 1);
        assert_eq!(
            copies[0].metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
        let copy = connection::open(&copies[0]).unwrap();
        let kept: i64 = copy
            .query_row("SELECT count(*) FROM inbox", [], |row| row.get(0))
            .unwrap();
        assert_eq!((kept, names(&copy).contains(&"two".to_owned())), (1, false));
        drop(copy);
        // Once is enough.
        bring_up(&mut connection, &home, &after).unwrap();
        assert_eq!(home.disk().list(&home.backups()).unwrap().len(), 1);
    }

    #[test]
    fn a_change_that_fails_leaves_the_database_as_it_was() {
        let (_folder, home) = home();
        let mut connection = connection::open(&home.database()).unwrap();
        bring_up(&mut connection, &home, &[MIGRATIONS[0]]).unwrap();
        let before = schema_of(&connection).unwrap();
        let broken = [
            MIGRATIONS[0],
            "CREATE TABLE two (x INTEGER); CREATE TABLE two (x INTEGER)",
        ];
        assert!(bring_up(&mut connection, &home, &broken).is_err());
        assert_eq!(schema_of(&connection).unwrap(), before);
        assert_eq!(version(&connection, &home.database(), 2), Ok(1));
    }

    #[test]
    fn a_newer_database_is_refused() {
        let (_folder, home) = home();
        let mut connection = connection::open(&home.database()).unwrap();
        bring_up(
            &mut connection,
            &home,
            &[FIRST, SECOND, "CREATE TABLE three (x) "],
        )
        .unwrap();
        let refused = version(&connection, &home.database(), 2);
        let place = home.database().display().to_string();
        assert_eq!(
            refused,
            Err(Error::Newer {
                place,
                found: 3,
                known: 2
            })
        );
    }
}
