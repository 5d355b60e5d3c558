//! A server that is a program: a line of JSON for each message, through the program's warden.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use segno_core::agent::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::watch;

use super::error::Broken;
use super::wire;
use super::words::clean;
use crate::Launch;
use crate::command::output;
use crate::command::protocol::{Input, Order, Status};
use crate::command::told;

/// How much is read at once.
const PIECE: usize = 64 << 10;

/// A message that is longer than this is not one.
const LONGEST: usize = 16 << 20;

/// How much is told of a line that is no message.
const NOISE: usize = 200;

/// How a program ended.
#[derive(Clone)]
pub(crate) struct Ending {
    /// What sort of trouble that is.
    pub(crate) kind: ErrorKind,
    /// In words.
    pub(crate) how: String,
    /// The end of its stderr, and what else it wrote that was no message; often nothing.
    pub(crate) last_words: String,
    /// Whether what it started may still be there, and hold its pipes open.
    is_lost: bool,
}

impl Ending {
    /// All that is known.
    pub(crate) fn told(&self) -> String {
        match self.last_words.as_str() {
            "" => self.how.clone(),
            words => format!("{}: {words}", self.how),
        }
    }
}

/// What was noticed about a program while it was listened to.
#[derive(Default)]
struct Remarks {
    /// The first line that was no message.
    noise: Option<String>,
    /// Why it is no longer listened to.
    broken: Option<String>,
}

/// Holds a program: when this is dropped, the program and all that it started end.
pub(crate) struct Keeper {
    control: StdUnixStream,
    ending: watch::Receiver<Option<Ending>>,
    remarks: Arc<Mutex<Remarks>>,
}

/// Speaks to a program.
pub(crate) struct Wire {
    stdin: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
    stdout: ChildStdout,
    /// What came and was not taken yet.
    buffer: Vec<u8>,
    /// How much of it has no end of a line.
    searched: usize,
    ending: watch::Receiver<Option<Ending>>,
    remarks: Arc<Mutex<Remarks>>,
}

/// Starts a program below a warden.
pub(crate) async fn start(
    argv: &[String],
    env: &[(String, String)],
    folder: &Path,
    warden: &Launch,
) -> io::Result<(Wire, Keeper)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let control = ours.try_clone()?;
    let mut child = Command::new(&warden.program)
        .args(&warden.args)
        .current_dir(folder)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().expect("it was asked for");
    let stderr = child.stderr.take().expect("it was asked for");
    let (status, mut stdin) = UnixStream::from_std(ours)?.into_split();
    let order = Order {
        argv: argv.to_vec(),
        input: Input::Open,
    };
    // A warden that is gone cannot be written to; its ending will tell.
    let _ = stdin.write_all(&order.to_line()).await;
    let (tell, ending) = watch::channel(None);
    let name = output::harmless(argv.first().map_or("", String::as_str));
    tokio::spawn(async move { tell.send(Some(see_through(&name, child, stderr, status).await)) });
    let remarks = Arc::new(Mutex::new(Remarks::default()));
    let wire = Wire {
        stdin: Arc::new(tokio::sync::Mutex::new(stdin)),
        stdout,
        buffer: Vec::new(),
        searched: 0,
        ending: ending.clone(),
        remarks: remarks.clone(),
    };
    let keeper = Keeper {
        control,
        ending,
        remarks,
    };
    Ok((wire, keeper))
}

/// Waits for a program's end. Where the warden has no word, or says that processes are left, the
/// pipes may stay open for ever, so that nothing more is waited for.
async fn see_through(
    name: &str,
    mut warden: Child,
    stderr: ChildStderr,
    control: OwnedReadHalf,
) -> Ending {
    let lost = |how: String| Ending {
        kind: ErrorKind::Crashed,
        how,
        last_words: String::new(),
        is_lost: true,
    };
    let word = async {
        let line = output::message(control).await;
        match Status::from_line(&line) {
            Some(left @ Status::Left(_)) => Err(lost(format!("`{name}` {}", told(&left).1))),
            Some(status) => Ok(status),
            None => Err(lost(format!("the warden of `{name}` was killed"))),
        }
    };
    let ended = tokio::try_join!(word, async { Ok(output::tail(stderr).await) });
    let _ = warden.wait().await;
    ended.map_or_else(std::convert::identity, |(status, errors)| {
        let (kind, how) = told(&status);
        Ending {
            kind,
            how: format!("`{name}` {how}"),
            last_words: errors,
            is_lost: false,
        }
    })
}

impl Keeper {
    /// Ends the program if it has not ended by itself, and says how it went.
    pub(crate) async fn end(&self) -> Ending {
        self.release();
        let mut ending = self.ending.clone();
        let ended = ending.wait_for(Option::is_some).await;
        let mut ended = ended
            .ok()
            .and_then(|ended| ended.clone())
            .unwrap_or(Ending {
                kind: ErrorKind::Crashed,
                how: "nobody saw it end".to_owned(),
                last_words: String::new(),
                is_lost: true,
            });
        let remarks = remarks(&self.remarks);
        if let Some(why) = &remarks.broken {
            ended.how.clone_from(why);
        }
        if let Some(noise) = &remarks.noise {
            let between = if ended.last_words.is_empty() { "" } else { " " };
            let said = format!("{between}(it wrote `{noise}`, which is no message)");
            ended.last_words.push_str(&said);
        }
        ended
    }

    /// Whether the program has ended: its warden says nothing before.
    pub(crate) fn is_over(&self) -> bool {
        let mut control = [PollFd::new(&self.control, PollFlags::IN)];
        poll(&mut control, Some(&Timespec::default())) != Ok(0)
    }

    /// Tells the warden to end everything. It can still say how that went.
    fn release(&self) {
        let _ = self.control.shutdown(Shutdown::Write);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.release();
    }
}

impl Wire {
    /// The next line; `None` when there is no more. Giving up waiting loses nothing.
    async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            let fresh = &self.buffer[self.searched..];
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.drain(..=self.searched + at).collect();
                self.searched = 0;
                return Some(line);
            }
            self.searched = self.buffer.len();
            if self.searched > LONGEST {
                let why = format!("it was ended, because a message has more than {LONGEST} bytes");
                remarks(&self.remarks).broken = Some(why);
                return None;
            }
            self.buffer.reserve(PIECE);
            let read = self.stdout.read_buf(&mut self.buffer);
            if let Ok(0) | Err(_) = read.await {
                return None;
            }
        }
    }

    async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = self.line().await?;
            let message = wire::message(&line);
            if message.is_some() {
                return message;
            }
            self.noise(&line);
        }
    }

    /// Keeps what was no message. Some programs talk before they listen; that is forgiven, and told
    /// if nothing follows.
    pub(crate) fn noise(&self, line: &[u8]) {
        let line = clean(String::from_utf8_lossy(line).trim(), NOISE);
        if !line.is_empty() {
            remarks(&self.remarks).noise.get_or_insert(line);
        }
    }

    /// The next line, the last one also without its end; `None` when nothing more can come. Giving up
    /// waiting loses nothing.
    pub(crate) async fn heard(&mut self) -> Option<Vec<u8>> {
        let mut ending = self.ending.clone();
        let line = tokio::select! {
            line = self.line() => line,
            _ = ending.wait_for(|ending| ending.as_ref().is_some_and(|e| e.is_lost)) => None,
        };
        let rest = line.is_none() && (1..=LONGEST).contains(&self.buffer.len());
        if rest {
            self.searched = 0;
            return Some(std::mem::take(&mut self.buffer));
        }
        line
    }

    /// What the program reads, for whoever writes without the words of MCP.
    pub(crate) fn stdin(&self) -> Arc<tokio::sync::Mutex<OwnedWriteHalf>> {
        self.stdin.clone()
    }
}

fn remarks(of: &Mutex<Remarks>) -> std::sync::MutexGuard<'_, Remarks> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport<RoleClient> for Wire {
    type Error = Broken;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Broken>> + Send + 'static {
        let stdin = self.stdin.clone();
        async move {
            let mut line =
                serde_json::to_vec(&item).map_err(|error| Broken::Lost(error.to_string()))?;
            line.push(b'\n');
            let sent = stdin.lock().await.write_all(&line).await;
            sent.map_err(|error| Broken::Lost(error.to_string()))
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut ending = self.ending.clone();
        tokio::select! {
            message = self.next() => message,
            _ = ending.wait_for(|ending| ending.as_ref().is_some_and(|e| e.is_lost)) => None,
        }
    }

    async fn close(&mut self) -> Result<(), Broken> {
        Ok(())
    }
}
