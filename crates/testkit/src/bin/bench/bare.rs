//! The baseline of the benchmark: the minimum that a durable step costs on SQLite. One table with
//! the columns of the journal, a lease row that fences, statements that are prepared once, nothing
//! else.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Statement, params};
use segno_core::store::Batch;

/// Creates a database with the same durability settings as the store's.
pub(crate) fn open(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join("bare.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE lease (session_id TEXT PRIMARY KEY NOT NULL, run INTEGER NOT NULL,
               until INTEGER NOT NULL, head_seq INTEGER NOT NULL, head_hash BLOB NOT NULL) STRICT;
             CREATE TABLE journal (session_id TEXT NOT NULL, seq INTEGER NOT NULL,
               run INTEGER NOT NULL, at INTEGER NOT NULL, version INTEGER NOT NULL,
               kind TEXT NOT NULL, path TEXT, revision INTEGER NOT NULL, hash BLOB NOT NULL,
               body TEXT NOT NULL, PRIMARY KEY (session_id, seq)) STRICT;",
        )
        .unwrap();
    let synchronous: i64 = connection
        .query_row("PRAGMA synchronous", [], |row| row.get(0))
        .unwrap();
    assert_eq!(synchronous, 2, "the bare loop is durable, too");
    connection
}

/// Begins a session's journal at the position where `batch` expects it to end.
pub(crate) fn begin(connection: &Connection, batch: &Batch) {
    connection
        .execute(
            "INSERT INTO lease VALUES (?1, ?2, 0, ?3, ?4)",
            params![
                batch.session.to_string(),
                batch.run.0.cast_signed(),
                batch.expected.seq.0.cast_signed(),
                batch.expected.hash.as_bytes().as_slice()
            ],
        )
        .unwrap();
}

/// The statements of a durable step.
pub(crate) struct Loop<'c> {
    begin: Statement<'c>,
    fence: Statement<'c>,
    insert: Statement<'c>,
    commit: Statement<'c>,
}

impl<'c> Loop<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        let prepare = |sql| connection.prepare(sql).unwrap();
        Self {
            begin: prepare("BEGIN IMMEDIATE"),
            fence: prepare(
                "UPDATE lease SET until = ?1, head_seq = ?2, head_hash = ?3 WHERE session_id = ?4 AND run = ?5 AND head_seq = ?6",
            ),
            insert: prepare("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"),
            commit: prepare("COMMIT"),
        }
    }

    /// Makes the batches durable in one commit.
    pub(crate) fn commit<'b>(&mut self, batches: impl IntoIterator<Item = &'b Batch>) {
        self.begin.execute([]).unwrap();
        for batch in batches {
            self.write(batch);
        }
        self.commit.execute([]).unwrap();
    }

    fn write(&mut self, batch: &Batch) {
        let session = batch.session.to_string();
        let (head, run) = (batch.head(), batch.run.0.cast_signed());
        let fenced = self.fence.execute(params![
            1,
            head.seq.0.cast_signed(),
            head.hash.as_bytes().as_slice(),
            session,
            run,
            batch.expected.seq.0.cast_signed()
        ]);
        assert_eq!(fenced, Ok(1), "there is no other writer");
        for record in &batch.records {
            self.insert
                .execute(params![
                    session,
                    record.seq.0.cast_signed(),
                    run,
                    record.at.0,
                    record.version,
                    record.kind,
                    record.path,
                    record.revision,
                    record.hash.as_bytes().as_slice(),
                    record.body
                ])
                .unwrap();
        }
    }
}

/// Commits each batch by itself; returns how long each took.
pub(crate) fn one_by_one(folder: &Path, batches: &[Batch]) -> Vec<Duration> {
    let connection = open(folder);
    begin(&connection, &batches[0]);
    let mut bare = Loop::new(&connection);
    let timed = |batch| {
        let begun = Instant::now();
        bare.commit([batch]);
        begun.elapsed()
    };
    batches.iter().map(timed).collect()
}

/// Several sessions at once: one thread each, with a database of its own. Returns how long all of
/// it took.
pub(crate) fn concurrently(folder: &Path, sessions: &[Vec<Batch>]) -> Duration {
    let databases: Vec<_> = (0..sessions.len())
        .map(|number| {
            let own = folder.join(number.to_string());
            std::fs::create_dir(&own).unwrap();
            open(&own)
        })
        .collect();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (connection, batches) in databases.into_iter().zip(sessions) {
            scope.spawn(move || {
                begin(&connection, &batches[0]);
                let mut bare = Loop::new(&connection);
                for batch in batches {
                    bare.commit([batch]);
                }
            });
        }
    });
    begun.elapsed()
}
