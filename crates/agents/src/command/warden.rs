//! The process between Segno and an agent. It starts the agent, and ends everything below itself
//! when the agent is over or the owner is gone. Single-threaded but for the one that feeds the
//! agent; no async runtime, so that it starts in about a millisecond.

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

use super::protocol::{Input, Order, Status};
use super::tree::Tree;

/// How often the warden clears away processes that it adopted and that ended, while the agent lives.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// The whole life of a warden. To be called first thing in a process that a
/// [`Launch`](super::Launch) started: its stdin is the control socket.
///
/// It leaves the terminal's session, so that a Ctrl-C meant for Segno does not reach it.
pub fn main() -> ExitCode {
    // An owner that is gone before it has said what to do: nothing was started, nobody listens.
    let Ok((order, prompt)) = Order::read(&mut io::stdin().lock()) else {
        return ExitCode::FAILURE;
    };
    let status = serve(&order, prompt).unwrap_or_else(|status| status);
    // Nobody may be listening any more; then nobody needs the answer.
    let _ = rustix::io::write(io::stdin().as_fd(), &status.to_line());
    ExitCode::from(status.exit_code())
}

/// Starts what is ordered and sees it through to its end.
fn serve(order: &Order, prompt: Vec<u8>) -> Result<Status, Status> {
    setsid().map_err(|error| failed("leave the session", error))?;
    set_child_subreaper(Some(getpid())).map_err(|error| failed("adopt orphans", error))?;
    let mut child = start(&order.argv).map_err(|error| Status::NotStarted {
        errno: error
            .raw_os_error()
            .unwrap_or(rustix::io::Errno::INVAL.raw_os_error()),
    })?;
    let agent = Pid::from_child(&child);
    let mut tree = Tree::new(agent);
    let awaited = match order.input {
        Input::Prompt(_) => PollFlags::IN,
        // What there is to read is for the agent; the end is that nothing more will come.
        Input::Open => PollFlags::RDHUP,
    };
    feed(&mut child, &order.input, prompt);
    let watched = watch(agent, &mut tree, awaited);
    let left = tree.end();
    watched.map_err(|error| failed("watch the agent", error))?;
    if left > 0 {
        return Ok(Status::Left(left));
    }
    let ended = tree.agent_status();
    ended
        .and_then(told)
        .ok_or_else(|| Status::Failed("the agent's end was not seen".to_owned()))
}

/// Starts the agent as the leader of its own group. It shares the warden's stdout and stderr;
/// its stdin is a pipe of its own, so that the control socket stays here.
fn start(argv: &[String]) -> io::Result<Child> {
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(arguments)
        // It opens checkpoints, and is no agent's business.
        .env_remove("SEGNO_PASSPHRASE")
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Writes the prompt, or passes on what comes, from a thread, because an agent may never read it. If
/// there can be no thread, the pipe closes and the agent sees an empty prompt's end.
fn feed(child: &mut Child, input: &Input, prompt: Vec<u8>) {
    let open = *input == Input::Open;
    if let Some(mut stdin) = child.stdin.take() {
        let write = move || {
            // An agent that does not read all of it may still have an answer.
            let _ = stdin.write_all(&prompt);
            if open {
                let _ = pass_on(&mut io::stdin().lock(), &mut stdin);
            }
        };
        let _ = thread::Builder::new().spawn(write);
    }
}

/// Writes what comes until there is no more. Not `io::copy`: that splices, and a splice that waits for
/// the socket keeps the agent from reading what is already in the pipe.
fn pass_on(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
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

/// Returns when the agent has ended, or when the control socket has what is `awaited`, which says that
/// the owner wants an end or has met its own. After a prompt it says nothing, so that anything to
/// read can only be that.
fn watch(agent: Pid, tree: &mut Tree, awaited: PollFlags) -> rustix::io::Result<()> {
    let ended = pidfd_open(agent, PidfdFlags::empty())?;
    let stdin = io::stdin();
    let pause = Timespec::try_from(REAP_EVERY).expect("seconds fit");
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

fn told(status: WaitStatus) -> Option<Status> {
    let exited = status.exit_status().map(Status::Exited);
    exited.or(status.terminating_signal().map(Status::Signaled))
}

fn failed(what: &str, error: rustix::io::Errno) -> Status {
    Status::Failed(format!("cannot {what}: {error}"))
}
