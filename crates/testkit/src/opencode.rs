//! A database as opencode 1.18.33 writes it: the columns that its conversations need, in WAL mode
//! and with an open connection, as while opencode runs.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};

const TABLES: &str = "
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL, title text NOT NULL, version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
";

/// A running opencode's database.
pub struct OpenCodeDatabase {
    path: PathBuf,
    open: Connection,
}

impl OpenCodeDatabase {
    /// Creates the database in opencode's data folder.
    pub fn create(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let path = folder.join("opencode.db");
        let open = Connection::open(&path).unwrap();
        open.pragma_update(None, "journal_mode", "wal").unwrap();
        open.execute_batch(TABLES).unwrap();
        Self { path, open }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a conversation that began at this time, in milliseconds since 1970. `parent` is the
    /// conversation whose sub-agent has it.
    pub fn add_session(&self, id: &str, parent: Option<&str>, directory: &str, at: i64) {
        self.open
            .execute(
                "INSERT INTO session VALUES (?1, 'global', ?2, 'slug', ?3, 'title', '1.18.33', ?4, ?4)",
                (id, parent, directory, at),
            )
            .unwrap();
    }

    /// Adds a message with one part for each of `parts`, or replaces both.
    pub fn put_message(&self, session: &str, id: &str, at: i64, data: &Value, parts: &[Value]) {
        self.put_text(session, id, at, &data.to_string());
        for (number, part) in parts.iter().enumerate() {
            let part_id = format!("prt_{id}_{number:02}");
            self.open
                .execute(
                    "INSERT OR REPLACE INTO part VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
                    (part_id, id, session, at, part.to_string()),
                )
                .unwrap();
        }
    }

    /// Adds a message with this text instead of data.
    pub fn put_text(&self, session: &str, id: &str, at: i64, data: &str) {
        self.open
            .execute(
                "INSERT OR REPLACE INTO message VALUES (?1, ?2, ?3, ?3, ?4)",
                (id, session, at, data),
            )
            .unwrap();
    }

    /// Adds a user's message.
    pub fn ask(&self, session: &str, id: &str, at: i64, text: &str) {
        let data = json!({"role": "user", "time": {"created": at}});
        let part = json!({"type": "text", "text": text});
        self.put_message(session, id, at, &data, &[part]);
    }

    /// Adds an answer; complete from `completed` on.
    pub fn answer(
        &self,
        session: &str,
        id: &str,
        at: i64,
        completed: Option<i64>,
        parts: &[Value],
    ) {
        let data = json!({
            "role": "assistant", "modelID": "fake-model",
            "time": {"created": at, "completed": completed},
            "tokens": {"input": 100, "output": 7, "reasoning": 0, "cache": {"read": 10, "write": 0}},
        });
        let mut data = data;
        if completed.is_none() {
            data["time"] = json!({"created": at});
        }
        self.put_message(session, id, at, &data, parts);
    }

    /// Whether everything is still in the log: nobody has made a checkpoint.
    pub fn log_bytes(&self) -> u64 {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        std::fs::metadata(log).unwrap().len()
    }
}
