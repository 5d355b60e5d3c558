//! Notes about transcripts that changed, left by hooks and taken by whoever mirrors transcripts.
//!
//! There is one note per session: a newer one replaces it, so the folder stays small however long
//! nobody takes them. A note is a hint and is never relied upon; it is not made durable, since an
//! agent waits for whoever writes it, and what it says can be found by looking.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use segno_core::ports::Disk;
use segno_store::LocalDisk;
use serde::{Deserialize, Serialize};

use crate::hooks::Agent;

/// Which transcript changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    v: u32,
    /// Whose it is.
    agent: String,
    /// Its session.
    session: String,
    /// Where the program keeps everything.
    root: PathBuf,
    /// The transcript, below that.
    file: PathBuf,
}

/// The folder of notes.
pub(crate) fn folder(home: &Path) -> PathBuf {
    home.join("spool")
}

impl Note {
    /// A note, if this is where the agent keeps the transcript of that session.
    pub(crate) fn new(agent: Agent, session: &str, root: &Path, file: &Path) -> Option<Self> {
        (agent.session(root, file)? == session).then(|| Self {
            v: 1,
            agent: agent.word().to_owned(),
            session: session.to_owned(),
            root: root.to_owned(),
            file: file.to_owned(),
        })
    }

    /// Leaves it in a home. A home that is not there, or not ours alone, gets none.
    pub(crate) fn leave(&self, home: &Path) -> io::Result<()> {
        let found = home.metadata()?;
        let user = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.mode() & 0o022 != 0 || (found.uid() != user && user != 0) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let folder = folder(home);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let name = format!("{}-{}", self.agent, self.session);
        let draft = folder.join(format!("{name}.{}.tmp", std::process::id()));
        let text = serde_json::to_vec(self)?;
        let write = || {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&draft);
            file?.write_all(&text)?;
            LocalDisk.rename(&draft, &folder.join(format!("{name}.json")))
        };
        write().inspect_err(|_| drop(LocalDisk.remove(&draft)))
    }
}
