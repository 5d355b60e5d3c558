//! The `git` program: started with nothing of the person's or the repository's that could make it
//! run another one, with a time limit, and with an end to what is read of its answer.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::error::Error;
use super::own;

/// The longest answer that is held in memory.
const ANSWER: usize = 1 << 30;

/// How much is kept of what git complains about.
const COMPLAINT: u64 = 4096;

/// Settings that win over any file. The shadow has none of these, nor has a repository that we
/// made; they are said again in case a version of git reads a file that we do not know of.
const SETTINGS: [&str; 10] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.logAllRefUpdates=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
];

/// All of the environment, besides `PATH`, `HOME` and the place.
const ENVIRONMENT: [(&str, &str); 14] = [
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    // What a partial clone has not got is not fetched.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// How git is started.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    manner: Manner,
    /// How long one command may take.
    limit: Duration,
}

/// With whose settings git is started.
#[derive(Debug, Clone)]
enum Manner {
    /// With none.
    Apart {
        /// In the place of the person's home: an empty folder.
        home: PathBuf,
        repository: Option<PathBuf>,
        work_tree: Option<PathBuf>,
    },
    /// With the person's, in a folder of theirs.
    Own(PathBuf),
}

impl Git {
    /// Git without a repository.
    pub(super) fn alone(home: &Path, limit: Duration) -> Self {
        let manner = Manner::Apart {
            home: home.to_owned(),
            repository: None,
            work_tree: None,
        };
        Self { manner, limit }
    }

    /// Git as the person would start it in `folder`.
    pub(super) fn own(folder: &Path, limit: Duration) -> Self {
        let manner = Manner::Own(folder.to_owned());
        Self { manner, limit }
    }

    /// Git in the repository whose git folder is `git_dir`.
    pub(super) fn within(
        home: &Path,
        git_dir: &Path,
        work_tree: Option<&Path>,
        limit: Duration,
    ) -> Self {
        let manner = Manner::Apart {
            home: home.to_owned(),
            repository: Some(git_dir.to_owned()),
            work_tree: work_tree.map(Path::to_owned),
        };
        Self { manner, limit }
    }

    fn command(&self, args: &[&OsStr]) -> Command {
        let mut command = match &self.manner {
            Manner::Own(folder) => own::command(folder, args),
            Manner::Apart {
                home,
                repository,
                work_tree,
            } => apart(home, repository.as_deref(), work_tree.as_deref(), args),
        };
        // A group of its own, so that all of it can be ended.
        command.process_group(0);
        command
    }

    /// What git answers.
    pub(super) fn ask<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Vec<u8>, Error> {
        self.ask_maybe(args)?.ok_or_else(|| Error::Refused {
            command: subcommand(args),
            reason: "it found nothing".into(),
        })
    }

    /// What git answers; `None` if it quietly ends with 1, as it does when nothing is found.
    pub(super) fn ask_maybe<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Option<Vec<u8>>, Error> {
        let mut answer = Vec::new();
        let mut too_long = false;
        let mut sink = |piece: &[u8]| {
            too_long = answer.len() + piece.len() > ANSWER;
            if too_long {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            answer.extend_from_slice(piece);
            Ok(())
        };
        let ended = self.converse(args, &mut sink);
        if too_long {
            let command = subcommand(args);
            let limit = ANSWER;
            return Err(Error::TooLong { command, limit });
        }
        let ended = ended?;
        match ended.status.code() {
            Some(0) => Ok(Some(answer)),
            Some(1) if ended.complaint.is_empty() => Ok(None),
            _ => Err(ended.refused()),
        }
    }

    /// The first `limit` bytes of what git answers, and whether that is all.
    pub(super) fn ask_some<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        limit: usize,
    ) -> Result<(Vec<u8>, bool), Error> {
        let (mut answer, mut whole) = (Vec::new(), true);
        let mut sink = |piece: &[u8]| {
            let room = limit - answer.len();
            whole &= piece.len() <= room;
            answer.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok(())
        };
        let ended = self.converse(args, &mut sink)?;
        if ended.status.success() {
            Ok((answer, whole))
        } else {
            Err(ended.refused())
        }
    }

    fn converse<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Ended, Error> {
        let command = subcommand(args);
        let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        let spawned = self
            .command(&args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(|error| Error::NoGit {
            reason: error.to_string(),
        })?;
        let group = Pid::from_child(&child);
        let talk = thread::scope(|scope| {
            let (done, waiting) = mpsc::channel::<()>();
            let limit = self.limit;
            let watch = scope.spawn(move || {
                let late = waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                if late {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                late
            });
            let stderr = child.stderr.take();
            let complaint = scope.spawn(move || complaint(stderr));
            let written = drain(&mut child, sink);
            if written.is_err() {
                let _ = kill_process_group(group, Signal::KILL);
            }
            // Not reaped yet: until the watch has ended, the group's number must stay taken.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = retry_on_intr(|| waitid(WaitId::Pid(group), options));
            drop(done);
            let late = watch.join().unwrap_or(true);
            let _ = kill_process_group(group, Signal::KILL);
            let complaint = complaint.join().unwrap_or_default();
            (written, late, complaint)
        });
        let (written, late, complaint) = talk;
        let status = child.wait().map_err(|error| Error::NoGit {
            reason: error.to_string(),
        })?;
        if late {
            let limit = self.limit;
            return Err(Error::TooSlow { command, limit });
        }
        let trouble = |error: io::Error| Error::Unavailable {
            place: format!("the stream of git {command}"),
            reason: error.to_string(),
        };
        written.map_err(trouble)?;
        Ok(Ended {
            command,
            status,
            complaint,
        })
    }
}

/// Git with nothing of the person's or the repository's that could make it run another program.
fn apart(
    home: &Path,
    repository: Option<&Path>,
    work_tree: Option<&Path>,
    args: &[&OsStr],
) -> Command {
    let mut command = Command::new("git");
    command
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", home)
        .envs(ENVIRONMENT)
        .current_dir(work_tree.unwrap_or(home))
        .args(["--no-pager", "--no-optional-locks"]);
    if let Some(git_dir) = repository {
        command.env("GIT_DIR", git_dir);
    }
    if let Some(work_tree) = work_tree {
        command.env("GIT_WORK_TREE", work_tree);
    }
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command.args(args);
    command
}

/// How git ended.
struct Ended {
    command: String,
    status: ExitStatus,
    complaint: String,
}

impl Ended {
    fn refused(self) -> Error {
        let reason = if self.complaint.is_empty() {
            self.status.to_string()
        } else {
            self.complaint
        };
        Error::Refused {
            command: self.command,
            reason,
        }
    }
}

fn drain(child: &mut Child, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let Some(mut stdout) = child.stdout.take() else {
        return Ok(());
    };
    let mut piece = vec![0; 64 * 1024];
    loop {
        match stdout.read(&mut piece)? {
            0 => return Ok(()),
            length => sink(&piece[..length])?,
        }
    }
}

/// The start of what git complains about, on one line; the rest is read and dropped.
fn complaint(stderr: Option<impl Read>) -> String {
    let Some(mut stderr) = stderr else {
        return String::new();
    };
    let mut start = Vec::new();
    let _ = stderr.by_ref().take(COMPLAINT).read_to_end(&mut start);
    let _ = io::copy(&mut stderr, &mut io::sink());
    let text = String::from_utf8_lossy(&start);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("; ");
    text.chars().filter(|sign| !sign.is_control()).collect()
}

fn subcommand<A: AsRef<OsStr>>(args: &[A]) -> String {
    let first = args.first().map(AsRef::as_ref).unwrap_or_default();
    first.to_string_lossy().into_owned()
}
