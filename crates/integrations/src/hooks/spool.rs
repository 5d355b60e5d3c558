//! The spool: hooks write notifications about changed transcripts, `segno agents watch` claims and
//! processes them.
//!
//! There is one notification per session and a newer one replaces it, so the folder stays small
//! even if no process reads it. A notification is only a hint. It is not synced to disk, because a
//! CLI agent waits for the hook that writes it, and `segno agents watch` also finds changed transcripts by
//! scanning.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use segno_core::ports::Disk;
use segno_store::LocalDisk;
use serde::{Deserialize, Serialize};

use super::Agent;

/// Maximum size of a notification in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// Maximum number of notifications that one call claims.
const MAX_CLAIMED: usize = 1000;
/// Age in seconds after which a temporary file counts as left behind by a killed writer.
const STALE_SECONDS: i64 = 60;

/// A notification: this transcript changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    v: u32,
    agent: String,
    session: String,
    /// The folder in which the CLI agent stores its data.
    root: PathBuf,
    /// The transcript, inside `root`.
    file: PathBuf,
}

/// A claimed notification. It stays on disk until [`Claimed::delete`], so that a killed reader loses
/// nothing; a newer notification does not replace it.
#[derive(Debug)]
pub struct Claimed {
    pub agent: Agent,
    pub file: PathBuf,
    spool_file: PathBuf,
}

/// The spool folder.
pub fn folder(home: &Path) -> PathBuf {
    home.join("spool")
}

impl Notification {
    /// Creates a notification, if `file` is where the agent stores the transcript of that session.
    pub fn new(agent: Agent, session: &str, root: &Path, file: &Path) -> Option<Self> {
        (agent.session(root, file)? == session).then(|| Self {
            v: 1,
            agent: agent.word().to_owned(),
            session: session.to_owned(),
            root: root.to_owned(),
            file: file.to_owned(),
        })
    }

    /// Writes the notification into a home folder. Fails if the folder does not exist or others can
    /// write to it.
    pub fn write(&self, home: &Path) -> io::Result<()> {
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

impl Claimed {
    /// Deletes the notification after it was processed.
    pub fn delete(self) {
        // If the deletion fails, the notification is processed once more, which is harmless.
        let _ = LocalDisk.remove(&self.spool_file);
    }
}

/// Which notifications to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Only notifications that no process has claimed yet.
    New,
    /// Also notifications that another process claimed and did not finish. The caller must be the
    /// only reader.
    All,
}

/// Claims notifications about the sessions of some agents. `now` is in seconds since 1970.
pub fn claim(home: &Path, agents: &[Agent], mode: ClaimMode, now: i64) -> io::Result<Vec<Claimed>> {
    let mut claimed = Vec::new();
    for path in LocalDisk.list(&folder(home))? {
        if claimed.len() == MAX_CLAIMED {
            break;
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !agents.iter().any(|agent| name.starts_with(agent.word())) {
            continue;
        }
        let spool_file = match path.extension().and_then(|end| end.to_str()) {
            Some("taken") if mode == ClaimMode::All => path,
            Some("json") => {
                let spool_file = path.with_extension("taken");
                LocalDisk.rename(&path, &spool_file)?;
                spool_file
            }
            Some("tmp") => {
                let stale = path
                    .metadata()
                    .is_ok_and(|found| found.mtime() + STALE_SECONDS < now);
                if stale {
                    LocalDisk.remove(&path)?;
                }
                continue;
            }
            _ => continue,
        };
        match read(&spool_file) {
            Some((agent, file)) => claimed.push(Claimed {
                agent,
                file,
                spool_file,
            }),
            None => LocalDisk.remove(&spool_file)?,
        }
    }
    Ok(claimed)
}

/// Reads a notification. Returns `None` if it is malformed: its writer or the machine may have been
/// killed.
fn read(spool_file: &Path) -> Option<(Agent, PathBuf)> {
    let notification: Notification =
        serde_json::from_slice(&LocalDisk.read(spool_file, MAX_BYTES).ok()?).ok()?;
    let agent = Agent::parse(&notification.agent)?;
    let valid = Notification::new(
        agent,
        &notification.session,
        &notification.root,
        &notification.file,
    )?;
    (valid == notification).then_some((agent, notification.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5e550000-0000-4000-8000-000000000001";

    fn notification(root: &str) -> Notification {
        let file = format!("{root}/projects/-a/{ID}.jsonl");
        Notification::new(Agent::Claude, ID, Path::new(root), Path::new(&file)).unwrap()
    }

    #[test]
    fn claimed_notification_stays_until_deleted() {
        let home = tempfile::tempdir().unwrap();
        assert!(
            claim(home.path(), &Agent::ALL, ClaimMode::All, 0)
                .unwrap()
                .is_empty()
        );
        notification("/one").write(home.path()).unwrap();
        let first = claim(home.path(), &Agent::ALL, ClaimMode::All, 0)
            .unwrap()
            .remove(0);
        // Written while the first one is processed.
        notification("/two").write(home.path()).unwrap();
        first.delete();
        let second = claim(home.path(), &Agent::ALL, ClaimMode::All, 0).unwrap();
        assert_eq!(second.len(), 1);
        assert!(second[0].file.starts_with("/two"));
        // The reader was killed.
        drop(second);
        let new = claim(home.path(), &Agent::ALL, ClaimMode::New, 0).unwrap();
        assert!(new.is_empty());
        let third = claim(home.path(), &Agent::ALL, ClaimMode::All, 0)
            .unwrap()
            .remove(0);
        third.delete();
        assert!(
            claim(home.path(), &Agent::ALL, ClaimMode::All, 0)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test breaks files as anything might"
    )]
    fn malformed_notifications_are_deleted() {
        let home = tempfile::tempdir().unwrap();
        notification("/one").write(home.path()).unwrap();
        let spool_file = folder(home.path()).join(format!("claude-{ID}.json"));
        let text = std::fs::read_to_string(&spool_file).unwrap();
        let wrong = [
            String::new(),
            text[..20].to_owned(),
            text.replace("\"/one\"", "\"/else\""),
            text.replace("projects", "../projects"),
            text.replace("\"v\":1", "\"v\":2"),
            text.replace("claude", "other"),
        ];
        for wrong in wrong {
            std::fs::write(&spool_file, &wrong).unwrap();
            assert!(
                claim(home.path(), &Agent::ALL, ClaimMode::All, 0)
                    .unwrap()
                    .is_empty(),
                "{wrong}"
            );
            assert!(LocalDisk.list(&folder(home.path())).unwrap().is_empty());
        }
    }
}
