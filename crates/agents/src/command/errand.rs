//! One program below its warden, from its start to its end.

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

use super::output::{self, Sink};
use super::protocol::{Input, Order, Status};

/// How a warden is started: a program that calls [`warden::main`](super::warden::main).
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, best as an absolute path: it is started in the request's workspace.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// What a program sees of Segno's own environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherit {
    /// All of it.
    All,
    /// Only where programs are found.
    Path,
}

/// What is to be run.
pub(crate) struct Errand<'a> {
    pub(crate) warden: &'a Launch,
    /// The program and its arguments; never empty.
    pub(crate) argv: &'a [String],
    pub(crate) workspace: &'a Path,
    pub(crate) inherit: Inherit,
    /// Variables that are set besides.
    pub(crate) variables: &'a [(&'a str, &'a OsStr)],
    /// What it reads from its stdin, in pieces.
    pub(crate) input: &'a [&'a str],
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) status: Status,
    /// The end of its stderr, fit to be shown.
    pub(crate) errors: String,
}

impl Errand<'_> {
    /// Runs it until everything is over, or until `stop` says why it must be.
    pub(crate) async fn run(
        &self,
        sink: &mut dyn Sink,
        stop: impl Future<Output = Error> + Send,
    ) -> Result<Ended, Error> {
        let (mut control, mut warden) = self.launch().map_err(|error| {
            if self.workspace.is_dir() {
                let message = format!("cannot start the warden of {}: {error}", self.name());
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
            result = self.converse(sink, &mut control, &mut warden) => result,
            reason = stop => Err(reason),
        };
        // From here on the warden ends whatever is left; when it has ended, so has the tree.
        drop(control);
        let _ = warden.wait().await;
        result
    }

    /// The program's name, fit to be shown.
    fn name(&self) -> String {
        output::harmless(self.argv.first().map_or("", String::as_str))
    }

    /// Starts the warden. Dropping the socket is what ends it: it is never killed, because then
    /// nobody would clear away what is below it.
    fn launch(&self) -> io::Result<(UnixStream, Child)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = process::Command::new(&self.warden.program);
        if self.inherit == Inherit::Path {
            command.env_clear();
            command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        }
        let child = command
            .args(&self.warden.args)
            .current_dir(self.workspace)
            .envs(self.variables.iter().copied())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok((UnixStream::from_std(ours)?, child))
    }

    /// Sends the input, and reads until everything is over.
    async fn converse(
        &self,
        sink: &mut dyn Sink,
        control: &mut UnixStream,
        warden: &mut Child,
    ) -> Result<Ended, Error> {
        // A warden that is gone cannot be written to; that it sends no status will tell.
        let _ = self.order(control).await;
        let stdout = warden.stdout.take().expect("launch asked for it");
        let stderr = warden.stderr.take().expect("launch asked for it");
        let ((), errors, status) = tokio::try_join!(
            output::pour(stdout, sink),
            async { Ok(output::tail(stderr).await) },
            self.status(control),
        )?;
        Ok(Ended { status, errors })
    }

    async fn order(&self, control: &mut UnixStream) -> io::Result<()> {
        let order = Order {
            argv: self.argv.to_vec(),
            input: Input::Prompt(self.input.iter().map(|part| part.len() as u64).sum()),
        };
        control.write_all(&order.to_line()).await?;
        for part in self.input {
            control.write_all(part.as_bytes()).await?;
        }
        Ok(())
    }

    /// Waits for the warden's word. Where it has none, or says that processes are left, the other
    /// pipes may stay open for ever, so that is an error at once.
    async fn status(&self, control: &mut UnixStream) -> Result<Status, Error> {
        let line = output::message(control).await;
        match Status::from_line(&line) {
            Some(left @ Status::Left(_)) => Err(self.failure(&left, "")),
            Some(status) => Ok(status),
            None => {
                let message = format!("the warden of {} was killed", self.name());
                Err(Error::new(ErrorKind::Crashed, message))
            }
        }
    }

    /// Why it is not a success; `None` if it is one.
    pub(crate) fn judge(&self, ended: &Ended) -> Option<Error> {
        let failed = ended.status != Status::Exited(0);
        failed.then(|| self.failure(&ended.status, &ended.errors))
    }

    /// The error for an end that is no answer.
    fn failure(&self, status: &Status, errors: &str) -> Error {
        let name = self.name();
        let (kind, what) = told(status);
        let message = match errors {
            "" => format!("{name} {what}"),
            errors => format!("{name} {what}: {errors}"),
        };
        Error::new(kind, message)
    }
}

/// What an end means, and how it is told.
pub(crate) fn told(status: &Status) -> (ErrorKind, String) {
    match status {
        Status::Exited(code) => (ErrorKind::Crashed, format!("ended with exit code {code}")),
        Status::Signaled(signal) => (ErrorKind::Crashed, format!("was ended by signal {signal}")),
        Status::NotStarted { errno } => not_started(*errno),
        Status::Left(count) => (
            ErrorKind::Crashed,
            format!("is over, but {count} of its processes could not be ended"),
        ),
        Status::Failed(reason) => (ErrorKind::Crashed, format!("has no warden: {reason}")),
    }
}

fn not_started(errno: i32) -> (ErrorKind, String) {
    use rustix::io::Errno;

    let kind = match Errno::from_raw_os_error(errno) {
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::ACCESS
        | Errno::PERM
        | Errno::NOEXEC
        | Errno::ISDIR
        | Errno::LOOP => ErrorKind::NotFound,
        Errno::INVAL | Errno::TOOBIG | Errno::NAMETOOLONG => ErrorKind::Invalid,
        // Too many processes, no memory, a file that is being written: all of that passes.
        _ => ErrorKind::Crashed,
    };
    let reason = io::Error::from_raw_os_error(errno);
    (kind, format!("cannot be started: {reason}"))
}
