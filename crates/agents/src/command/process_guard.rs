//! The process between Segno and an agent. It starts the agent, and kills everything below itself
//! when the agent has ended or the owner is gone. It has a single thread besides the one that feeds
//! the agent's stdin, and no async runtime, so that it starts in about a millisecond.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitStatus, getpid, getppid, pidfd_open, set_child_subreaper,
    set_parent_process_death_signal, setsid,
};

use super::orphans::{GUARD, GuardMark};
use super::process_tree::ProcessTree;
use super::protocol::{Input, SpawnRequest, Status};

/// How often the guard reaps adopted processes that have ended, while the agent runs.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// The argument with which a guard starts its own program again, to become the agent.
const BECOME_AGENT: &str = "become-agent";

/// The entry point of a process guard. Call it first in a process that a [`Launch`](super::Launch)
/// started: its stdin is the control socket.
///
/// The guard leaves the terminal's session, so that a Ctrl-C meant for Segno does not reach it.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(at) = arguments.iter().position(|word| word == BECOME_AGENT) {
        return become_agent(&arguments[at + 1..]);
    }
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
    let (child, stdin) = spawn_agent(&request.argv).map_err(|error| Status::NotStarted {
        errno: errno_of(&error),
    })?;
    let agent = Pid::from_child(&child);
    let mut tree = ProcessTree::new(agent);
    let awaited = match request.input {
        Input::Prompt(_) => PollFlags::IN,
        // Readable bytes are for the agent; a hang-up means that no more will come.
        Input::Open => PollFlags::RDHUP,
    };
    feed_stdin(stdin, &request.input, prompt);
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

/// Starts the agent as the leader of its own process group, and returns its stdin: a pipe of its own, so
/// that only the guard holds the control socket. The agent shares the guard's stdout and stderr.
///
/// The agent must die with the guard. It can ask the kernel for that only itself, so the guard starts
/// its own program again, which does so and then becomes the agent. Until then its stdin is a pipe on
/// which it reports why it could not.
fn spawn_agent(argv: &[String]) -> io::Result<(Child, PipeWriter)> {
    let (agent_stdin, stdin) = io::pipe()?;
    let (mut failure, report) = io::pipe()?;
    let guard = getpid().as_raw_pid();
    let mark = GuardMark::of(guard.unsigned_abs()).map(|mark| mark.to_string());
    let mut child = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .args([BECOME_AGENT, &guard.to_string()])
        .arg(agent_stdin.as_raw_fd().to_string())
        .args(argv)
        // The passphrase decrypts checkpoints; no agent may see it.
        .env_remove("SEGNO_PASSPHRASE")
        .env(GUARD, mark.unwrap_or_default())
        .stdin(report)
        .process_group(0)
        .spawn()?;
    let mut errno = String::new();
    failure.read_to_string(&mut errno)?;
    // The pipe closes without a report when the agent has started.
    match errno.parse() {
        Err(_) => Ok((child, stdin)),
        Ok(errno) => {
            child.wait()?;
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// Replaces this process by the agent, or reports on stdin why that failed. The arguments are the pid of
/// the guard, the descriptor of the agent's stdin in the guard, and the agent's program and arguments.
fn become_agent(arguments: &[OsString]) -> ExitCode {
    // Closed by the kernel when the agent starts.
    let report = io::stdin().as_fd().try_clone_to_owned();
    let error = replace_process(arguments);
    if let Ok(report) = report {
        let _ = File::from(report).write_all(errno_of(&error).to_string().as_bytes());
    }
    ExitCode::FAILURE
}

fn replace_process(arguments: &[OsString]) -> io::Error {
    let invalid = || io::ErrorKind::InvalidInput.into();
    let [guard, stdin, program, arguments @ ..] = arguments else {
        return invalid();
    };
    let guard = guard.to_str().and_then(|guard| guard.parse().ok());
    let Some(guard) = guard.and_then(Pid::from_raw) else {
        return invalid();
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The guard may have died before the line above: then nothing would end this process.
    if getppid() != Some(guard) {
        return io::ErrorKind::BrokenPipe.into();
    }
    let stdin = format!("/proc/{}/fd/{}", guard.as_raw_pid(), stdin.display());
    #[expect(
        clippy::disallowed_methods,
        reason = "/proc is an interface of the kernel, not a file on disk"
    )]
    match File::open(stdin) {
        Ok(stdin) => Command::new(program).args(arguments).stdin(stdin).exec(),
        Err(error) => error,
    }
}

fn errno_of(error: &io::Error) -> i32 {
    let invalid = rustix::io::Errno::INVAL.raw_os_error();
    error.raw_os_error().unwrap_or(invalid)
}

/// Writes the prompt, or forwards the control socket, in a thread, because an agent may never read
/// its stdin. If no thread can be started, the pipe closes and the agent sees an empty stdin.
fn feed_stdin(mut stdin: PipeWriter, input: &Input, prompt: Vec<u8>) {
    let open = *input == Input::Open;
    let write = move || {
        // An agent that does not read all of its input may still answer.
        let _ = stdin.write_all(&prompt);
        if open {
            let _ = forward(&mut io::stdin().lock(), &mut stdin);
        }
    };
    let _ = thread::Builder::new().spawn(write);
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
