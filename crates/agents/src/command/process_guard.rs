//! The process between Segno and an agent. It starts the agent, and kills everything below itself
//! when the agent has ended or the owner is gone. It has a single thread besides the one that feeds
//! the agent's stdin, and no async runtime, so that it starts in about a millisecond.

use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, WaitStatus, getpid, pidfd_open, set_child_subreaper, setsid,
};

use super::process_tree::ProcessTree;
use super::protocol::{Input, SpawnRequest, Status};

/// How often the guard reaps adopted processes that have ended, while the agent runs.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// The entry point of a process guard. Call it first in a process that a [`Launch`](super::Launch)
/// started: its stdin is the control socket.
///
/// The guard leaves the terminal's session, so that a Ctrl-C meant for Segno does not reach it.
pub fn main() -> ExitCode {
    // The owner ended before it sent a request: nothing was started, and no process reads a status.
    let Ok((request, prompt)) = SpawnRequest::read(&mut io::stdin().lock()) else {
        return ExitCode::FAILURE;
    };
    let status = run_agent(&request, prompt).unwrap_or_else(|status| status);
    // The owner may be gone; then no process needs the status.
    let _ = rustix::io::write(io::stdin().as_fd(), &status.to_line());
    ExitCode::from(status.exit_code())
}

/// Starts the requested program and waits until its whole tree has ended.
fn run_agent(request: &SpawnRequest, prompt: Vec<u8>) -> Result<Status, Status> {
    setsid().map_err(|error| failed("leave the terminal session", error))?;
    set_child_subreaper(Some(getpid())).map_err(|error| failed("become a subreaper", error))?;
    let restricted = request.writes.restrict();
    restricted.map_err(|error| Status::Failed(format!("cannot restrict its writes: {error}")))?;
    let mut child = spawn_agent(&request.argv).map_err(|error| Status::NotStarted {
        errno: error
            .raw_os_error()
            .unwrap_or(rustix::io::Errno::INVAL.raw_os_error()),
    })?;
    let agent = Pid::from_child(&child);
    let mut tree = ProcessTree::new(agent);
    let awaited = match request.input {
        Input::Prompt(_) => PollFlags::IN,
        // Readable bytes are for the agent; a hang-up means that no more will come.
        Input::Open => PollFlags::RDHUP,
    };
    feed_stdin(&mut child, &request.input, prompt);
    let watched = watch(agent, &mut tree, awaited);
    let left = tree.kill_all();
    watched.map_err(|error| failed("watch the agent", error))?;
    if left > 0 {
        return Ok(Status::Left(left));
    }
    let ended = tree.agent_status();
    ended
        .and_then(status_of)
        .ok_or_else(|| Status::Failed("the agent's exit status is unknown".to_owned()))
}

/// Starts the agent as the leader of its own process group. It shares the guard's stdout and
/// stderr; its stdin is a pipe of its own, so that only the guard holds the control socket.
fn spawn_agent(argv: &[String]) -> io::Result<Child> {
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(arguments)
        // The passphrase decrypts checkpoints; no agent may see it.
        .env_remove("SEGNO_PASSPHRASE")
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Writes the prompt, or forwards the control socket, in a thread, because an agent may never read
/// its stdin. If no thread can be started, the pipe closes and the agent sees an empty stdin.
fn feed_stdin(child: &mut Child, input: &Input, prompt: Vec<u8>) {
    let open = *input == Input::Open;
    if let Some(mut stdin) = child.stdin.take() {
        let write = move || {
            // An agent that does not read all of its input may still answer.
            let _ = stdin.write_all(&prompt);
            if open {
                let _ = forward(&mut io::stdin().lock(), &mut stdin);
            }
        };
        let _ = thread::Builder::new().spawn(write);
    }
}

/// Copies until end of file. Not `io::copy`: that splices, and a splice that waits for the socket
/// keeps the agent from reading what is already in the pipe.
fn forward(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    loop {
        let piece = from.fill_buf()?;
        let length = piece.len();
        if length == 0 {
            return Ok(());
        }
        to.write_all(piece)?;
        from.consume(length);
    }
}

/// Returns when the agent has ended, or when the control socket reports `awaited`: the owner wants
/// the agent to end, or is itself gone. After a prompt the owner sends nothing, so anything
/// readable can only mean that.
fn watch(agent: Pid, tree: &mut ProcessTree, awaited: PollFlags) -> rustix::io::Result<()> {
    let ended = pidfd_open(agent, PidfdFlags::empty())?;
    let stdin = io::stdin();
    let pause = Timespec::try_from(REAP_EVERY).expect("a few seconds fit into a timespec");
    loop {
        let mut watched = [
            PollFd::new(&stdin, awaited),
            PollFd::new(&ended, PollFlags::IN),
        ];
        match poll(&mut watched, Some(&pause)) {
            Ok(0) => {
                tree.reap();
            }
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn status_of(status: WaitStatus) -> Option<Status> {
    let exited = status.exit_status().map(Status::Exited);
    exited.or(status.terminating_signal().map(Status::Signaled))
}

fn failed(what: &str, error: rustix::io::Errno) -> Status {
    Status::Failed(format!("cannot {what}: {error}"))
}
