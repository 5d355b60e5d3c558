//! The files with previews: one for each session with a running answer, in a folder of their own, so
//! that one watch sees them all.
//!
//! A file is replaced by a rename, so that a reader sees a whole preview; it is never synced. What a
//! killed process leaves is removed by the session's next run.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::OFlags;
use segno_core::id::SessionId;
use segno_core::ports::Disk;
use segno_core::preview::Preview;

use crate::home::Home;

/// The longest file: JSON may need six bytes for one.
const MAX_FILE: u64 = (Preview::MAX_TEXT * Preview::MAX_STEPS * 6) as u64;

/// Reads and writes the files.
#[derive(Clone)]
pub(crate) struct PreviewFiles {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
}

impl PreviewFiles {
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            folder: home.previews(),
            disk: Arc::clone(home.disk()),
        }
    }

    fn path(&self, session: SessionId) -> PathBuf {
        self.folder.join(session.to_string())
    }

    fn draft(&self, session: SessionId) -> PathBuf {
        self.folder.join(format!("{session}.draft"))
    }

    pub(crate) fn put(&self, session: SessionId, preview: &Preview) -> io::Result<()> {
        let draft = self.draft(session);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&draft)?;
        file.write_all(serde_json::to_string(preview)?.as_bytes())?;
        self.disk.rename(&draft, &self.path(session))
    }

    /// The preview of a session, if there is one that can be read.
    pub(crate) fn get(&self, session: SessionId) -> Option<Preview> {
        let bytes = self.disk.read(&self.path(session), MAX_FILE).ok()?;
        let preview: Preview = serde_json::from_slice(&bytes).ok()?;
        (preview.v == Preview::VERSION).then_some(preview)
    }

    pub(crate) fn remove(&self, session: SessionId) -> io::Result<()> {
        self.disk.remove(&self.draft(session))?;
        self.disk.remove(&self.path(session))
    }
}
