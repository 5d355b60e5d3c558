//! Looks at processes through `/proc`, and ends them.
//!
//! A pid can be reused by another process at any time. So a process is signalled through a pidfd
//! only, which is opened before the process is looked at: from then on it cannot mean another one.
#![expect(
    clippy::disallowed_methods,
    reason = "/proc is an interface of the kernel, not files on disk"
)]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Duration;
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a process may take to end orderly, before it is killed.
const ORDERLY: Duration = Duration::from_secs(3);
/// How long a killed process may take to end.
const KILLED: Duration = Duration::from_secs(10);

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) name: String,
    state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// When the process started, in kernel ticks since boot.
    pub(crate) started: u64,
    /// The size of its memory: 0 once the kernel is ending it.
    memory: u64,
}

impl Stat {
    /// Whether the kernel is ending the process: it runs no more code, and its files are being closed.
    pub(crate) fn is_ending(&self) -> bool {
        self.memory == 0
    }

    /// Whether the process runs any code; a zombie does not.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&text))
}

/// Parses a line such as `17 (any) thing) S 4 17 ...`: the name may contain any character.
fn parse_stat(text: &str) -> Option<Stat> {
    let (start, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some(Stat {
        name: start.split_once('(')?.1.to_owned(),
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        started: fields.nth(16)?.parse().ok()?,
        memory: fields.next()?.parse().ok()?,
    })
}

/// The pids of all processes. While it is read, processes come and go.
pub(crate) fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// An environment variable that a process was started with.
pub(crate) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// This process and those above it.
pub(crate) fn self_and_ancestors() -> BTreeSet<u32> {
    let (mut above, mut next) = (BTreeSet::new(), Some(std::process::id()));
    while let Some(pid) = next.filter(|pid| *pid != 0 && above.insert(*pid)) {
        next = stat(pid).map(|stat| stat.parent);
    }
    above
}

/// The pid namespace of this process: pids of another one mean other processes.
pub(crate) fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid");
    link.map(|link| link.display().to_string())
        .unwrap_or_default()
}

/// A process that stays the same one.
pub(crate) struct Process {
    pid: u32,
    handle: OwnedFd,
}

impl Process {
    /// Opens a process; `None` if there is none.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        let handle = pidfd_open(raw, PidfdFlags::empty()).ok()?;
        Some(Self { pid, handle })
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills it. Does nothing if it has ended.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Waits until it has ended; returns whether it has, within this time.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).expect("a short time fits");
        let ended = poll(
            &mut [PollFd::new(&self.handle, PollFlags::IN)],
            Some(&limit),
        );
        ended.is_ok_and(|count| count > 0)
    }
}

/// Ends a process, and everything below it: first it may end orderly, then what is left is killed.
/// Does nothing if the pid is that of another process by now.
pub fn end_tree(pid: u32, started: u64) -> io::Result<()> {
    let Some(root) = Process::open(pid) else {
        return Ok(());
    };
    if stat(pid).is_none_or(|stat| stat.started != started) {
        return Ok(());
    }
    let mut tree = below(pid);
    root.signal(Signal::TERM)?;
    // A stopped process handles the signal when it runs again.
    root.signal(Signal::CONT)?;
    if !root.wait(ORDERLY) {
        tree.extend(below(pid));
        root.kill()?;
    }
    tree.iter().try_for_each(Process::kill)?;
    tree.push(root);
    match tree.iter().find(|process| !process.wait(KILLED)) {
        None => Ok(()),
        Some(left) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("process {} does not end", left.pid),
        )),
    }
}

/// The processes below a process.
fn below(root: u32) -> Vec<Process> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::from([root]));
    loop {
        let is_child = |pid: &u32| {
            !known.contains(pid) && stat(*pid).is_some_and(|stat| known.contains(&stat.parent))
        };
        let children: Vec<u32> = all().filter(is_child).collect();
        if children.is_empty() {
            return found;
        }
        known.extend(&children);
        found.extend(children.into_iter().filter_map(Process::open));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn stat_is_parsed_behind_any_process_name() {
        let rest = "S 4 16 17 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 72220 9";
        for name in ["sh", "a) R 9 9", "\n)", ""] {
            let stat = parse_stat(&format!("17 ({name}) {rest}")).unwrap();
            assert_eq!(stat.name, name);
            assert_eq!(
                (stat.parent, stat.group, stat.started),
                (4, 16, 72220),
                "{name:?}"
            );
            assert!(stat.is_alive() && !stat.is_ending());
        }
        for broken in ["", "17 (sh", "17 (sh) S", "17 (sh) S 4 17"] {
            assert_eq!(parse_stat(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn tree_is_ended_with_processes_that_ignore_signals() {
        let script =
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & wait";
        let mut root = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = root.id();
        let below_it = loop {
            let found: Vec<u32> = below(pid).iter().map(|process| process.pid).collect();
            if found.len() >= 2 {
                break found;
            }
            std::thread::yield_now();
        };
        let started = stat(pid).unwrap().started;
        // Another process has this pid: nothing happens.
        end_tree(pid, started + 1).unwrap();
        assert!(root.try_wait().unwrap().is_none());
        end_tree(pid, started).unwrap();
        root.wait().unwrap();
        for pid in below_it {
            assert!(stat(pid).is_none_or(|stat| !stat.is_alive()), "{pid}");
        }
    }
}
