//! The count of calls, kept outside of Segno's journal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use segno_core::agent::Request;

/// A file that gets one line for every call.
///
/// It does not go through `ports::Disk`: that port writes whole durable files, while many processes
/// append to a ledger, which only has to outlive them.
#[derive(Debug)]
pub struct Ledger(File);

impl Ledger {
    /// Opens the ledger at `path`, or creates it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map(Self)
    }

    /// Appends the line of this call with one write, so that lines of several processes never mix.
    pub(super) fn append(&self, request: &Request<'_>) -> io::Result<()> {
        let line = format!(
            "{} {} {} {} {}\n",
            request.run, request.attempt, request.path, request.key, request.agent
        );
        let written = (&self.0).write(line.as_bytes())?;
        if written == line.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }
}
