//! Asking a program, through its warden.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use segno_core::agent::{Answer, Driver, Error, ErrorKind, Listener, Request};
use segno_core::ports::Boxed;
use segno_core::usage::Usage;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::{self, Child};

use super::output;
use super::protocol::{Input, Order, Status};

/// The most that an answer may have if nothing else is said.
const LIMIT: usize = 16 << 20;

/// How a warden is started: a program that calls [`warden::main`](super::warden::main).
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, best as an absolute path: it is started in the request's workspace.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Asks a program.
#[derive(Debug, Clone)]
pub struct Command {
    argv: Vec<String>,
    warden: Launch,
    limit: usize,
}

impl Command {
    /// A driver that starts `argv` (the program and its arguments) below a warden.
    pub fn new(argv: Vec<String>, warden: Launch) -> Self {
        Self {
            argv,
            warden,
            limit: LIMIT,
        }
    }

    /// The same, with answers of at most `bytes`.
    #[must_use]
    pub fn with_limit(self, bytes: usize) -> Self {
        Self {
            limit: bytes,
            ..self
        }
    }

    /// The program's name, fit to be shown.
    fn name(&self) -> String {
        output::harmless(self.argv.first().map_or("", String::as_str))
    }

    async fn answer(&self, request: Request<'_>, listener: &dyn Listener) -> Result<Answer, Error> {
        if self.argv.is_empty() {
            let message = format!("agent {} has no command", request.agent);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (mut control, mut warden) = self.launch(&request).map_err(|error| {
            if request.workspace.is_dir() {
                let message = format!("cannot start the warden of {}: {error}", self.name());
                Error::new(ErrorKind::Crashed, message)
            } else {
                let folder = request.workspace.display();
                Error::new(
                    ErrorKind::Invalid,
                    format!("workspace {folder} is not a folder"),
                )
            }
        })?;
        let result = self
            .converse(&request, listener, &mut control, &mut warden)
            .await;
        // From here on the warden ends whatever is left; when it has ended, so has the tree.
        drop(control);
        let _ = warden.wait().await;
        result
    }

    /// Starts the warden. Dropping the socket is what ends it: it is never killed, because then
    /// nobody would clear away what is below it.
    fn launch(&self, request: &Request<'_>) -> io::Result<(UnixStream, Child)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = process::Command::new(&self.warden.program)
            .args(&self.warden.args)
            .current_dir(request.workspace)
            .env("SEGNO_SESSION", request.session.to_string())
            .env("SEGNO_RUN", request.run.to_string())
            .env("SEGNO_STEP", request.path.as_str())
            .env("SEGNO_ATTEMPT", request.attempt.to_string())
            .env("SEGNO_STEP_ID", request.key.to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok((UnixStream::from_std(ours)?, child))
    }

    /// Sends the prompt, and reads until everything is over.
    async fn converse(
        &self,
        request: &Request<'_>,
        listener: &dyn Listener,
        control: &mut UnixStream,
        warden: &mut Child,
    ) -> Result<Answer, Error> {
        // A warden that is gone cannot be written to; that it sends no status will tell.
        let _ = self.order(request, control).await;
        let stdout = warden.stdout.take().expect("launch asked for it");
        let stderr = warden.stderr.take().expect("launch asked for it");
        let (text, errors, status) = tokio::try_join!(
            async {
                let answer = output::answer(stdout, self.limit, listener).await;
                answer.map_err(|output::TooLong| self.too_long())
            },
            async { Ok(output::tail(stderr).await) },
            self.status(control),
        )?;
        match status {
            Status::Exited(0) => Ok(Answer {
                text: without_last_newline(text),
                usage: Usage::default(),
            }),
            other => Err(self.failure(&other, &errors)),
        }
    }

    async fn order(&self, request: &Request<'_>, control: &mut UnixStream) -> io::Result<()> {
        let between = if request.system.is_empty() {
            ""
        } else {
            "\n\n"
        };
        let parts = [request.system, between, request.input];
        let order = Order {
            argv: self.argv.clone(),
            input: Input::Prompt(parts.iter().map(|part| part.len() as u64).sum()),
        };
        control.write_all(&order.to_line()).await?;
        for part in parts {
            control.write_all(part.as_bytes()).await?;
        }
        Ok(())
    }

    /// Waits for the warden's word. Where it has none, or says that processes are left, the other
    /// pipes may stay open for ever, so that is an error at once.
    async fn status(&self, control: &mut UnixStream) -> Result<Status, Error> {
        let line = output::message(control).await.unwrap_or_default();
        match Status::from_line(&line) {
            Some(left @ Status::Left(_)) => Err(self.failure(&left, "")),
            Some(status) => Ok(status),
            None => {
                let message = format!("the warden of {} was killed", self.name());
                Err(Error::new(ErrorKind::Crashed, message))
            }
        }
    }

    fn too_long(&self) -> Error {
        let message = format!(
            "{} was ended: its answer has more than {} bytes",
            self.name(),
            self.limit
        );
        Error::new(ErrorKind::Invalid, message)
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

/// The line's end that programs put behind their last line is not part of the answer.
fn without_last_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

impl Driver for Command {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        listener: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, Error>> {
        Box::pin(self.answer(request, listener))
    }
}
