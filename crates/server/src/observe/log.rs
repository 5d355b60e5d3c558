//! The lines that a server prints about requests.
//!
//! A thread prints them, so that a reader who does not read never holds a request up: lines for
//! which the queue has no room are counted, and the next line says how many are missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use segno_secrets::redact::Redactor;

use super::record::Record;

/// How many lines wait to be printed.
const MAX_QUEUED: usize = 1024;

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line for each refused request and each error.
    Text,
    /// A line of JSON for each request.
    Json,
}

/// Prints lines about requests.
#[derive(Clone)]
pub struct Log {
    format: Format,
    lines: SyncSender<String>,
    missing: Arc<AtomicU64>,
}

impl Log {
    /// A log whose lines are passed to `print`, on a thread of its own.
    pub fn start(format: Format, print: fn(&str)) -> std::io::Result<Self> {
        let (lines, queued) = sync_channel::<String>(MAX_QUEUED);
        let printer = move || queued.into_iter().for_each(|line| print(&line));
        thread::Builder::new()
            .name("segno-log".to_owned())
            .spawn(printer)?;
        Ok(Self {
            format,
            lines,
            missing: Arc::default(),
        })
    }

    pub(super) fn request(&self, record: &Record, redactor: &Redactor) {
        match self.format {
            Format::Text if record.status < 400 => {}
            Format::Text => self.print(record.text(redactor)),
            Format::Json => {
                let mut fields = record.fields(redactor);
                let took = u64::try_from(record.took.as_micros()).unwrap_or(u64::MAX);
                fields.insert("kind".to_owned(), "request".into());
                fields.insert("took_us".to_owned(), took.into());
                self.print(serde_json::Value::Object(fields).to_string());
            }
        }
    }

    /// A line that is about no request.
    pub(crate) fn notice(&self, time: &str, message: &str) {
        self.print(match self.format {
            Format::Text => format!("{time} {message}"),
            Format::Json => {
                serde_json::json!({"v": 1, "kind": "notice", "time": time, "message": message})
                    .to_string()
            }
        });
    }

    fn print(&self, line: String) {
        let missing = self.missing.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let said = match self.format {
                Format::Text => format!("{missing} lines are missing here"),
                Format::Json => {
                    serde_json::json!({"v": 1, "kind": "missing", "lines": missing}).to_string()
                }
            };
            if self.lines.try_send(said).is_err() {
                self.missing.fetch_add(missing, Ordering::Relaxed);
            }
        }
        if self.lines.try_send(line).is_err() {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
    }
}
