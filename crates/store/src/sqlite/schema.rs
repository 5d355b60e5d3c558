//! The tables, and the migration of older databases.
//!
//! Migrations only go forward. Each one runs in a transaction together with the update of the
//! version number, so a kill leaves the database before it or after it. A backup is made before the
//! first one. `docs/formats/store.md` describes the tables.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use segno_core::digest::Digest;
use segno_core::ports::Access;
use segno_core::store::Error;

use super::connection::database_error;
use crate::home::{self, Home};

/// "Segn" as a number: distinguishes our databases from those of other programs.
const APPLICATION: i32 = 0x5365_676E;

/// All migrations so far; their number is the version of the format.
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

/// The digest of the schema that all migrations create; a test computes it.
const SCHEMA_DIGEST: &str = "fa9f18ca2dcca683b28a2f267648eaba50729c55765e65ec891ff46995709eac";

/// Checks that the database is ours and up to date; creates the tables or migrates it otherwise.
pub(super) fn prepare(connection: &mut Connection, home: &Home) -> Result<(), Error> {
    migrate(connection, home, MIGRATIONS)?;
    compare(connection, &home.database())
}

fn migrate(connection: &mut Connection, home: &Home, migrations: &[&str]) -> Result<(), Error> {
    let path = &home.database();
    let to_error = |error: rusqlite::Error| database_error(path, &error);
    let known =
        u32::try_from(migrations.len()).expect("the number of migrations fits into 32 bits");
    if version(connection, path, known)? == known {
        return Ok(());
    }
    make_backup(connection, home, known)?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(to_error)?;
    // Checked again inside the transaction: another process may have been faster.
    let found = version(&transaction, path, known)?;
    for (number, migration) in migrations.iter().enumerate().skip(found as usize) {
        transaction.execute_batch(migration).map_err(to_error)?;
        let settings = format!(
            "PRAGMA user_version = {}; PRAGMA application_id = {APPLICATION}",
            number + 1
        );
        transaction.execute_batch(&settings).map_err(to_error)?;
    }
    transaction.commit().map_err(to_error)
}

/// Refuses a database that is not ours, or that a newer program made.
pub(super) fn check_ours(connection: &Connection, path: &Path) -> Result<(), Error> {
    let known =
        u32::try_from(MIGRATIONS.len()).expect("the number of migrations fits into 32 bits");
    version(connection, path, known).map(|_| ())
}

/// The version of the database's format; 0 if it is empty.
fn version(connection: &Connection, path: &Path, known: u32) -> Result<u32, Error> {
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
        Ok(found) if found > known => Err(Error::Newer {
            place: place(),
            found,
            known,
        }),
        Ok(found) => Ok(found),
    }
}

/// Makes a backup of the database, private from the start.
fn make_backup(connection: &Connection, home: &Home, known: u32) -> Result<(), Error> {
    let path = &home.database();
    let found = version(connection, path, known)?;
    if found == 0 {
        return Ok(());
    }
    let copy = home
        .backups()
        .join(format!("format-{found}-{}.db", std::process::id()));
    let made = home.disk().create(&copy, &[], Access::Private);
    made.map_err(|error| home::io_error(&copy, &error))?;
    connection
        .execute("VACUUM INTO ?1", [copy.display().to_string()])
        .map_err(|error| database_error(path, &error))?;
    Ok(())
}

/// P9: a flipped bit in the schema's text or in the header's settings changes what SQLite does with
/// intact pages, so both are compared with what we created.
fn compare(connection: &Connection, path: &Path) -> Result<(), Error> {
    let found = schema_of(connection).map_err(|error| database_error(path, &error))?;
    // Creating the tables takes longer than everything else when a database is opened, and is
    // needed only to say what differs.
    if digest(&found).to_string() == SCHEMA_DIGEST {
        return Ok(());
    }
    let expected = schema_after(MIGRATIONS).map_err(|error| database_error(path, &error))?;
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
fn schema_after(migrations: &[&str]) -> rusqlite::Result<Vec<(String, String)>> {
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
    fn schema_digest_matches_the_migrations() {
        assert_eq!(
            digest(&schema_after(MIGRATIONS).unwrap()).to_string(),
            SCHEMA_DIGEST
        );
    }

    const FIRST: &str = "CREATE TABLE one (x INTEGER) STRICT";
    const SECOND: &str = "CREATE TABLE two (x INTEGER) STRICT";

    #[test]
    fn older_database_is_migrated_with_a_backup() {
        let (_folder, home) = home();
        let mut connection = connection::open(&home.database()).unwrap();
        let (before, after) = ([MIGRATIONS[0]], [MIGRATIONS[0], SECOND]);
        migrate(&mut connection, &home, &before).unwrap();
        connection
            .execute_batch("INSERT INTO inbox VALUES (1, 'a', 2, 'b', x'00')")
            .unwrap();
        migrate(&mut connection, &home, &after).unwrap();
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
        // A second call makes no second backup.
        migrate(&mut connection, &home, &after).unwrap();
        assert_eq!(home.disk().list(&home.backups()).unwrap().len(), 1);
    }

    #[test]
    fn failed_migration_changes_nothing() {
        let (_folder, home) = home();
        let mut connection = connection::open(&home.database()).unwrap();
        migrate(&mut connection, &home, &[MIGRATIONS[0]]).unwrap();
        let before = schema_of(&connection).unwrap();
        let broken = [
            MIGRATIONS[0],
            "CREATE TABLE two (x INTEGER); CREATE TABLE two (x INTEGER)",
        ];
        assert!(migrate(&mut connection, &home, &broken).is_err());
        assert_eq!(schema_of(&connection).unwrap(), before);
        assert_eq!(version(&connection, &home.database(), 2), Ok(1));
    }

    #[test]
    fn newer_database_is_refused() {
        let (_folder, home) = home();
        let mut connection = connection::open(&home.database()).unwrap();
        migrate(
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
