//! Runs the `git` program: without any configuration of the user or the repository that could make
//! it run another one, with a time limit, and with a limit on its output.

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
use super::user_git;

/// The longest output that is held in memory.
const ANSWER: usize = 1 << 30;

/// How many bytes of git's error output are used.
const ERROR_OUTPUT: u64 = 4096;

/// Settings that override any file. Neither the shadow nor a repository that we created has them;
/// they are set again in case a version of git reads a file that we do not know of.
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

/// The whole environment, except `PATH`, `HOME` and the repository.
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
    // Objects that a partial clone lacks are not fetched.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

#[derive(Debug, Clone)]
pub(crate) struct Git {
    mode: ConfigMode,
    /// The time limit of one command.
    limit: Duration,
}

/// With whose configuration git runs.
#[derive(Debug, Clone)]
enum ConfigMode {
    /// With none.
    Isolated {
        /// Replaces the user's home: an empty folder.
        home: PathBuf,
        repository: Option<PathBuf>,
        work_tree: Option<PathBuf>,
    },
    /// With the user's, in a folder of theirs.
    User(PathBuf),
}

impl Git {
    /// Git without a repository.
    pub(super) fn without_repository(home: &Path, limit: Duration) -> Self {
        let mode = ConfigMode::Isolated {
            home: home.to_owned(),
            repository: None,
            work_tree: None,
        };
        Self { mode, limit }
    }

    /// Git as the user would run it in `folder`.
    pub(super) fn as_user(folder: &Path, limit: Duration) -> Self {
        let mode = ConfigMode::User(folder.to_owned());
        Self { mode, limit }
    }

    /// Git in the repository whose git folder is `git_dir`.
    pub(super) fn in_repository(
        home: &Path,
        git_dir: &Path,
        work_tree: Option<&Path>,
        limit: Duration,
    ) -> Self {
        let mode = ConfigMode::Isolated {
            home: home.to_owned(),
            repository: Some(git_dir.to_owned()),
            work_tree: work_tree.map(Path::to_owned),
        };
        Self { mode, limit }
    }

    fn command(&self, args: &[&OsStr]) -> Command {
        let mut command = match &self.mode {
            ConfigMode::User(folder) => user_git::command(folder, args),
            ConfigMode::Isolated {
                home,
                repository,
                work_tree,
            } => isolated_command(home, repository.as_deref(), work_tree.as_deref(), args),
        };
        // A process group of its own, so that all of it can be killed.
        command.process_group(0);
        command
    }

    /// The output of git.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Vec<u8>, Error> {
        self.run_optional(args)?.ok_or_else(|| Error::Refused {
            command: subcommand(args),
            reason: "it returned nothing".into(),
        })
    }

    /// The output of git; `None` if it exits with 1 and no error output, as it does when it finds
    /// nothing.
    pub(super) fn run_optional<A: AsRef<OsStr>>(
        &self,
        args: &[A],
    ) -> Result<Option<Vec<u8>>, Error> {
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
        let ended = self.run_command(args, &mut sink);
        if too_long {
            let command = subcommand(args);
            let limit = ANSWER;
            return Err(Error::TooLong { command, limit });
        }
        let ended = ended?;
        match ended.status.code() {
            Some(0) => Ok(Some(answer)),
            Some(1) if ended.error_output.is_empty() => Ok(None),
            _ => Err(ended.refused()),
        }
    }

    /// The first `limit` bytes of git's output, and whether that is all.
    pub(super) fn run_limited<A: AsRef<OsStr>>(
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
        let ended = self.run_command(args, &mut sink)?;
        if ended.status.success() {
            Ok((answer, whole))
        } else {
            Err(ended.refused())
        }
    }

    fn run_command<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Exit, Error> {
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
        let outcome = thread::scope(|scope| {
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
            let error_output = scope.spawn(move || error_output(stderr));
            let written = drain(&mut child, sink);
            if written.is_err() {
                let _ = kill_process_group(group, Signal::KILL);
            }
            // The child is not reaped yet: until the watchdog has ended, its process group id must
            // stay taken.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = retry_on_intr(|| waitid(WaitId::Pid(group), options));
            drop(done);
            let late = watch.join().unwrap_or(true);
            let _ = kill_process_group(group, Signal::KILL);
            let error_output = error_output.join().unwrap_or_default();
            (written, late, error_output)
        });
        let (written, late, error_output) = outcome;
        let status = child.wait().map_err(|error| Error::NoGit {
            reason: error.to_string(),
        })?;
        if late {
            let limit = self.limit;
            return Err(Error::TooSlow { command, limit });
        }
        let to_error = |error: io::Error| Error::Unavailable {
            place: format!("the output of git {command}"),
            reason: error.to_string(),
        };
        written.map_err(to_error)?;
        Ok(Exit {
            command,
            status,
            error_output,
        })
    }
}

/// Git without any configuration of the user or the repository that could make it run another
/// program.
fn isolated_command(
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

struct Exit {
    command: String,
    status: ExitStatus,
    error_output: String,
}

impl Exit {
    fn refused(self) -> Error {
        let reason = if self.error_output.is_empty() {
            self.status.to_string()
        } else {
            self.error_output
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

/// The beginning of git's error output, on one line; the rest is read and dropped.
fn error_output(stderr: Option<impl Read>) -> String {
    let Some(mut stderr) = stderr else {
        return String::new();
    };
    let mut start = Vec::new();
    let _ = stderr.by_ref().take(ERROR_OUTPUT).read_to_end(&mut start);
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
