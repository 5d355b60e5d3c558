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

/// The longest note.
const LONGEST: u64 = 64 * 1024;
/// How many notes are taken at a time.
const AT_ONCE: usize = 1000;
/// How old a draft must be, in seconds, before it is taken for one whose writer was killed.
const STALE: i64 = 60;

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

/// A note that was taken: no new one takes its place. It is there until it is [`Taken::done`].
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) agent: Agent,
    pub(crate) file: PathBuf,
    place: PathBuf,
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

impl Taken {
    /// What it said was done.
    pub(crate) fn done(self) {
        // If it stays, the same is done once more.
        let _ = LocalDisk.remove(&self.place);
    }
}

/// Which notes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that were left since.
    New,
    /// Those that someone took and was not done with, too: nobody else may be at work.
    All,
}

/// Takes notes about the sessions of some agents. `now` is in seconds since 1970.
pub(crate) fn take(
    home: &Path,
    agents: &[Agent],
    which: Which,
    now: i64,
) -> io::Result<Vec<Taken>> {
    let mut taken = Vec::new();
    for path in LocalDisk.list(&folder(home))? {
        if taken.len() == AT_ONCE {
            break;
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !agents.iter().any(|agent| name.starts_with(agent.word())) {
            continue;
        }
        let place = match path.extension().and_then(|end| end.to_str()) {
            Some("taken") if which == Which::All => path,
            Some("json") => {
                let place = path.with_extension("taken");
                LocalDisk.rename(&path, &place)?;
                place
            }
            Some("tmp") => {
                let stale = path
                    .metadata()
                    .is_ok_and(|found| found.mtime() + STALE < now);
                if stale {
                    LocalDisk.remove(&path)?;
                }
                continue;
            }
            _ => continue,
        };
        match read(&place) {
            Some((agent, file)) => taken.push(Taken { agent, file, place }),
            None => LocalDisk.remove(&place)?,
        }
    }
    Ok(taken)
}

/// What a note says, if it makes sense: its writer may have been killed, or the machine.
fn read(place: &Path) -> Option<(Agent, PathBuf)> {
    let note: Note = serde_json::from_slice(&LocalDisk.read(place, LONGEST).ok()?).ok()?;
    let agent = Agent::of(&note.agent)?;
    let again = Note::new(agent, &note.session, &note.root, &note.file)?;
    (again == note).then_some((agent, note.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5e550000-0000-4000-8000-000000000001";

    fn note(root: &str) -> Note {
        let file = format!("{root}/projects/-a/{ID}.jsonl");
        Note::new(Agent::Claude, ID, Path::new(root), Path::new(&file)).unwrap()
    }

    #[test]
    fn a_note_is_taken_once_it_was_done_and_never_lost_before() {
        let home = tempfile::tempdir().unwrap();
        assert!(
            take(home.path(), &Agent::ALL, Which::All, 0)
                .unwrap()
                .is_empty()
        );
        note("/one").leave(home.path()).unwrap();
        let first = take(home.path(), &Agent::ALL, Which::All, 0)
            .unwrap()
            .remove(0);
        // Left while the first is worked on.
        note("/two").leave(home.path()).unwrap();
        first.done();
        let second = take(home.path(), &Agent::ALL, Which::All, 0).unwrap();
        assert_eq!(second.len(), 1);
        assert!(second[0].file.starts_with("/two"));
        // Whoever took it was killed.
        drop(second);
        let new = take(home.path(), &Agent::ALL, Which::New, 0).unwrap();
        assert!(new.is_empty());
        let third = take(home.path(), &Agent::ALL, Which::All, 0)
            .unwrap()
            .remove(0);
        third.done();
        assert!(
            take(home.path(), &Agent::ALL, Which::All, 0)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test breaks files as anything might"
    )]
    fn notes_that_make_no_sense_go() {
        let home = tempfile::tempdir().unwrap();
        note("/one").leave(home.path()).unwrap();
        let place = folder(home.path()).join(format!("claude-{ID}.json"));
        let text = std::fs::read_to_string(&place).unwrap();
        let wrong = [
            String::new(),
            text[..20].to_owned(),
            text.replace("\"/one\"", "\"/else\""),
            text.replace("projects", "../projects"),
            text.replace("\"v\":1", "\"v\":2"),
            text.replace("claude", "other"),
        ];
        for wrong in wrong {
            std::fs::write(&place, &wrong).unwrap();
            assert!(
                take(home.path(), &Agent::ALL, Which::All, 0)
                    .unwrap()
                    .is_empty(),
                "{wrong}"
            );
            assert!(LocalDisk.list(&folder(home.path())).unwrap().is_empty());
        }
    }
}
