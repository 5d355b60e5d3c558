//! A program that speaks JSON-RPC, below its process guard.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use segno_core::agent::ErrorKind;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::watch;

use super::lines::{Lines, TooLong};
use crate::command::output;
use crate::command::protocol::{Input, SpawnRequest, Status};
use crate::command::{Inherit, Launch, Writes, describe_status, end_guard};
use crate::sanitize::sanitize;

/// The longest accepted message, in bytes.
const MAX_MESSAGE: usize = 16 << 20;

/// How many bytes of a line that is no message are shown.
const MAX_NOISE_SHOWN: usize = 200;

/// How a program ended.
#[derive(Clone)]
pub(crate) struct ProcessExit {
    pub(crate) kind: ErrorKind,
    /// The description.
    pub(crate) how: String,
    /// The end of its stderr, and the first line that was no message; often empty.
    pub(crate) stderr_tail: String,
    /// Whether processes that it started may still run and hold its pipes open.
    is_lost: bool,
}

impl ProcessExit {
    /// The description with the last words.
    pub(crate) fn describe(&self) -> String {
        match self.stderr_tail.as_str() {
            "" => self.how.clone(),
            words => format!("{}: {words}", self.how),
        }
    }
}

/// Observations about a program's output.
#[derive(Default)]
struct Observations {
    /// The first line that was no message.
    noise: Option<String>,
    /// Why reading stopped.
    broken: Option<String>,
}

/// Owns a program: dropping this ends the program's whole process tree.
pub(crate) struct ProcessHandle {
    control: StdUnixStream,
    ending: watch::Receiver<Option<ProcessExit>>,
    observations: Arc<Mutex<Observations>>,
}

/// A program's stdin and stdout.
pub(crate) struct Stdio {
    stdin: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
    stdout: Lines<ChildStdout>,
    ending: watch::Receiver<Option<ProcessExit>>,
    observations: Arc<Mutex<Observations>>,
}

/// Starts a program below a process guard. `env` is set in addition to what it inherits.
pub(crate) async fn start(
    argv: &[String],
    inherit: Inherit,
    env: &[(String, String)],
    folder: &Path,
    guard: &Launch,
) -> io::Result<(Stdio, ProcessHandle)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let control = ours.try_clone()?;
    let mut command = Command::new(&guard.program);
    inherit.apply(&mut command);
    let mut child = command
        .args(&guard.args)
        .current_dir(folder)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(process::Stdio::from(OwnedFd::from(theirs)))
        .stdout(process::Stdio::piped())
        .stderr(process::Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().expect("it is piped");
    let stderr = child.stderr.take().expect("it is piped");
    let (status, mut stdin) = UnixStream::from_std(ours)?.into_split();
    let request = SpawnRequest {
        argv: argv.to_vec(),
        input: Input::Open,
        writes: Writes::Anywhere,
    };
    // Writing to a guard that is gone fails; its missing status reports that.
    let _ = stdin.write_all(&request.to_line()).await;
    let (exit_sender, ending) = watch::channel(None);
    let name = output::escape_controls(argv.first().map_or("", String::as_str));
    tokio::spawn(async move {
        exit_sender.send(Some(wait_for_exit(&name, child, stderr, status).await))
    });
    let observations = Arc::new(Mutex::new(Observations::default()));
    let transport = Stdio {
        stdin: Arc::new(tokio::sync::Mutex::new(stdin)),
        stdout: Lines::new(stdout, MAX_MESSAGE),
        ending: ending.clone(),
        observations: observations.clone(),
    };
    let handle = ProcessHandle {
        control,
        ending,
        observations,
    };
    Ok((transport, handle))
}

/// Waits for a program's end. If the guard sends no status, or says that processes are left, the
/// pipes may stay open for ever, so this waits for nothing more.
async fn wait_for_exit(
    name: &str,
    guard: Child,
    stderr: ChildStderr,
    control: OwnedReadHalf,
) -> ProcessExit {
    let lost = |how: String| ProcessExit {
        kind: ErrorKind::Crashed,
        how,
        stderr_tail: String::new(),
        is_lost: true,
    };
    let status_line = async {
        let line = output::read_message(control).await;
        match Status::from_line(&line) {
            Some(left @ Status::Left(_)) => {
                Err(lost(format!("`{name}` {}", describe_status(name, &left).1)))
            }
            Some(status) => Ok(status),
            None => Err(lost(format!("the process guard of `{name}` was killed"))),
        }
    };
    let ended = tokio::try_join!(status_line, async { Ok(output::read_tail(stderr).await) });
    end_guard(guard).await;
    ended.map_or_else(std::convert::identity, |(status, errors)| {
        let (kind, how) = describe_status(name, &status);
        ProcessExit {
            kind,
            how: format!("`{name}` {how}"),
            stderr_tail: errors,
            is_lost: false,
        }
    })
}

impl ProcessHandle {
    /// Ends the program if it has not ended by itself, and returns how it ended.
    pub(crate) async fn end(&self) -> ProcessExit {
        self.close_control();
        let mut ending = self.ending.clone();
        let ended = ending.wait_for(Option::is_some).await;
        let mut ended = ended
            .ok()
            .and_then(|ended| ended.clone())
            .unwrap_or(ProcessExit {
                kind: ErrorKind::Crashed,
                how: "its exit status is unknown".to_owned(),
                stderr_tail: String::new(),
                is_lost: true,
            });
        let observations = observations(&self.observations);
        if let Some(why) = &observations.broken {
            ended.how.clone_from(why);
        }
        if let Some(noise) = &observations.noise {
            let between = if ended.stderr_tail.is_empty() {
                ""
            } else {
                " "
            };
            let said = format!("{between}(it wrote `{noise}`, which is not a message)");
            ended.stderr_tail.push_str(&said);
        }
        ended
    }

    /// Whether the program has ended: the guard sends nothing before.
    pub(crate) fn is_over(&self) -> bool {
        let mut control = [PollFd::new(&self.control, PollFlags::IN)];
        poll(&mut control, Some(&Timespec::default())) != Ok(0)
    }

    /// Tells the guard to end everything. It can still send a status.
    fn close_control(&self) {
        let _ = self.control.shutdown(Shutdown::Write);
    }
}

impl Drop for ProcessHandle {
    fn drop(&mut self) {
        self.close_control();
    }
}

impl Stdio {
    /// The next line, the last one also without a newline; `None` when nothing more can come.
    /// Cancelling this future loses nothing.
    pub(crate) async fn next_line(&mut self) -> Option<Vec<u8>> {
        let line = self.next_whole_line().await;
        line.or_else(|| self.stdout.take_rest())
    }

    /// The next line that has its newline; `None` when nothing more can come. Cancelling this future
    /// loses nothing.
    pub(crate) async fn next_whole_line(&mut self) -> Option<Vec<u8>> {
        let line = tokio::select! {
            line = self.stdout.next() => line,
            // Processes that are left may hold the pipe open.
            Ok(_) = self.ending.wait_for(|ending| ending.as_ref().is_some_and(|e| e.is_lost)) => return None,
        };
        line.unwrap_or_else(|TooLong| {
            let why = format!("it was killed: a message has more than {MAX_MESSAGE} bytes");
            observations(&self.observations).broken = Some(why);
            None
        })
    }

    /// Remembers the first line that was no message. Some programs print something before they
    /// speak the protocol; that is tolerated, and reported if the program fails.
    pub(crate) fn note_noise(&self, line: &[u8]) {
        let line = sanitize(String::from_utf8_lossy(line).trim(), MAX_NOISE_SHOWN);
        if !line.is_empty() {
            observations(&self.observations).noise.get_or_insert(line);
        }
    }

    /// The program's stdin.
    pub(crate) fn stdin(&self) -> Arc<tokio::sync::Mutex<OwnedWriteHalf>> {
        self.stdin.clone()
    }
}

fn observations(of: &Mutex<Observations>) -> std::sync::MutexGuard<'_, Observations> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
