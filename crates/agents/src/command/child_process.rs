//! One program below its process guard, from spawn to exit.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use segno_core::agent::{Error, ErrorKind};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::{self, Child};

use super::confinement::Writes;
use super::environment::Inherit;
use super::orphans::end_guard;
use super::output::{self, Sink};
use super::protocol::{Input, SpawnRequest, Status};

/// How a process guard is started: a program that calls [`guard::main`](super::process_guard::main).
#[derive(Debug, Clone)]
pub struct Launch {
    /// Preferably an absolute path: it is started in the request's workspace.
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

/// A program to run.
pub(crate) struct ChildProcess<'a> {
    pub(crate) guard: &'a Launch,
    /// The program and its arguments; never empty.
    pub(crate) argv: &'a [String],
    pub(crate) workspace: &'a Path,
    pub(crate) inherit: Inherit,
    pub(crate) writes: Writes,
    /// Set in addition to the inherited ones.
    pub(crate) variables: &'a [(&'a str, &'a OsStr)],
    /// Written to its stdin, piece by piece.
    pub(crate) input: &'a [&'a str],
    /// What the user can do if there is no such program.
    pub(crate) if_missing: &'static str,
}

pub(crate) struct ChildExit {
    pub(crate) status: Status,
    /// The end of its stderr, safe to show.
    pub(crate) stderr_tail: String,
}

impl ChildProcess<'_> {
    /// Runs the program until its whole process tree has ended, or until `stop` returns a reason to
    /// end it.
    pub(crate) async fn run(
        &self,
        sink: &mut dyn Sink,
        stop: impl Future<Output = Error> + Send,
    ) -> Result<ChildExit, Error> {
        let (mut control, mut guard) = self.launch().map_err(|error| {
            if self.workspace.is_dir() {
                let message = format!(
                    "the process guard of `{}` cannot be started: {error}",
                    self.name()
                );
                Error::new(ErrorKind::Crashed, message)
            } else {
                let folder = self.workspace.display();
                Error::new(
                    ErrorKind::Invalid,
                    format!("workspace {folder} is not a folder"),
                )
            }
        })?;
        let result = tokio::select! {
            result = self.exchange(sink, &mut control, &mut guard) => result,
            reason = stop => Err(reason),
        };
        // From here on the guard ends whatever is left; when the guard has ended, so has the tree.
        drop(control);
        end_guard(guard).await;
        result
    }

    /// The program's name, safe to show.
    fn name(&self) -> String {
        output::escape_controls(self.argv.first().map_or("", String::as_str))
    }

    /// Starts the guard. Dropping the socket ends it. The guard is never killed: then nothing would
    /// end the processes below it.
    fn launch(&self) -> io::Result<(UnixStream, Child)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = process::Command::new(&self.guard.program);
        self.inherit.apply(&mut command);
        let child = command
            .args(&self.guard.args)
            .current_dir(self.workspace)
            .envs(self.variables.iter().copied())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok((UnixStream::from_std(ours)?, child))
    }

    /// Sends the input, and reads output and status until the tree has ended.
    async fn exchange(
        &self,
        sink: &mut dyn Sink,
        control: &mut UnixStream,
        guard: &mut Child,
    ) -> Result<ChildExit, Error> {
        // Writing to a guard that is gone fails; its missing status reports that below.
        let _ = self.send_request(control).await;
        let stdout = guard.stdout.take().expect("`launch` pipes it");
        let stderr = guard.stderr.take().expect("`launch` pipes it");
        let ((), stderr_tail, status) = tokio::try_join!(
            output::read_into(stdout, sink),
            async { Ok(output::read_tail(stderr).await) },
            self.status(control),
        )?;
        Ok(ChildExit {
            status,
            stderr_tail,
        })
    }

    async fn send_request(&self, control: &mut UnixStream) -> io::Result<()> {
        let request = SpawnRequest {
            argv: self.argv.to_vec(),
            input: Input::Prompt(self.input.iter().map(|part| part.len() as u64).sum()),
            writes: self.writes,
        };
        control.write_all(&request.to_line()).await?;
        for part in self.input {
            control.write_all(part.as_bytes()).await?;
        }
        Ok(())
    }

    /// Waits for the guard's status. If there is none, or if it says that processes are left, the
    /// other pipes may stay open for ever, so this is an error at once.
    async fn status(&self, control: &mut UnixStream) -> Result<Status, Error> {
        let line = output::read_message(control).await;
        match Status::from_line(&line) {
            Some(left @ Status::Left(_)) => Err(self.failure(&left, "")),
            Some(status) => Ok(status),
            None => {
                let message = format!("the process guard of `{}` was killed", self.name());
                Err(Error::new(ErrorKind::Crashed, message))
            }
        }
    }

    /// The error of a program that did not exit with code 0.
    pub(crate) fn check_exit(&self, ended: &ChildExit) -> Option<Error> {
        let failed = ended.status != Status::Exited(0);
        failed.then(|| self.failure(&ended.status, &ended.stderr_tail))
    }

    fn failure(&self, status: &Status, stderr_tail: &str) -> Error {
        let name = self.name();
        let (kind, what) = describe_status(&name, status);
        let message = match stderr_tail {
            "" => format!("`{name}` {what}"),
            stderr_tail => format!("`{name}` {what}: {stderr_tail}"),
        };
        match kind {
            ErrorKind::NoProgram => Error::new(kind, message).with_hint(self.if_missing),
            _ => Error::new(kind, message),
        }
    }
}

/// The error kind and description of a program's exit status.
pub(crate) fn describe_status(name: &str, status: &Status) -> (ErrorKind, String) {
    match status {
        Status::Exited(code) => (ErrorKind::Crashed, format!("exited with code {code}")),
        Status::Signaled(signal) => (ErrorKind::Crashed, format!("was killed by signal {signal}")),
        Status::NotStarted { errno } => not_started(name, *errno),
        Status::Left(count) => (
            ErrorKind::Crashed,
            format!("ended, but {count} of its processes could not be killed"),
        ),
        Status::Failed(reason) => (
            ErrorKind::Crashed,
            format!("lost its process guard: {reason}"),
        ),
    }
}

fn not_started(name: &str, errno: i32) -> (ErrorKind, String) {
    use rustix::io::Errno;

    let kind = match Errno::from_raw_os_error(errno) {
        Errno::NOENT if name.contains('/') => {
            let what = "was not found, or the interpreter in its first line was not";
            return (ErrorKind::NoProgram, what.to_owned());
        }
        Errno::NOENT => return (ErrorKind::NoProgram, "was not found on PATH".to_owned()),
        Errno::NOTDIR
        | Errno::ACCESS
        | Errno::PERM
        | Errno::NOEXEC
        | Errno::ISDIR
        | Errno::LOOP => ErrorKind::NotFound,
        Errno::INVAL | Errno::TOOBIG | Errno::NAMETOOLONG => ErrorKind::Invalid,
        // Too many processes, no memory, a file that is being written: all of these are transient.
        _ => ErrorKind::Crashed,
    };
    let reason = io::Error::from_raw_os_error(errno);
    (kind, format!("cannot be started: {reason}"))
}
