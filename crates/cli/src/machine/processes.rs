//! Looks up and kills processes through `/proc` and pidfds.

use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use segno_core::id::SessionId;
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::ports::Disk;
use segno_store::LocalDisk;

#[derive(Default)]
pub(crate) struct MachineProcesses {
    current: OnceLock<Owner>,
}

/// How long a killed process may take to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

impl Processes for MachineProcesses {
    fn current(&self) -> Owner {
        let pid = std::process::id();
        let make = || Owner {
            host: self.host(),
            boot: file("/proc/sys/kernel/random/boot_id")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            namespace: namespace(),
            pid,
            started: stat(pid).map_or(0, |stat| stat.started),
        };
        self.current.get_or_init(make).clone()
    }

    fn host(&self) -> String {
        let name = rustix::system::uname();
        name.nodename().to_string_lossy().into_owned()
    }

    fn liveness(&self, owner: &Owner) -> Liveness {
        let here = self.current();
        if owner.boot.is_empty() || (&owner.boot, &owner.namespace) != (&here.boot, &here.namespace)
        {
            return Liveness::Unobservable;
        }
        match stat(owner.pid) {
            // The pid may have been reused by another process.
            Some(stat) if stat.started != owner.started => Liveness::Gone,
            Some(Stat {
                state: 'Z' | 'X' | 'x',
                ..
            })
            | None => Liveness::Gone,
            Some(Stat {
                state: 'T' | 't', ..
            }) => Liveness::Stopped,
            Some(_) => Liveness::Running,
        }
    }

    fn kill(&self, owner: &Owner) -> io::Result<()> {
        let pid = i32::try_from(owner.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(()) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            other => other?,
        };
        // Checked after the pidfd was opened: from here on, it cannot refer to another process.
        if self.liveness(owner) == Liveness::Gone {
            return Ok(());
        }
        pidfd_send_signal(&process, Signal::KILL)?;
        let limit = KILL_TIMEOUT.try_into().expect("a short time fits");
        let exited = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit))?;
        if exited == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not end"));
        }
        Ok(())
    }

    fn end_tree(&self, pid: u32, started: u64) -> io::Result<()> {
        segno_agents::process::end_tree(pid, started)
    }

    fn end_orphans(&self, session: SessionId) -> io::Result<Vec<u32>> {
        segno_agents::command::end_orphans(&session.to_string())
    }
}

struct Stat {
    state: char,
    started: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = file(&format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain anything, even parentheses; the fields start after the
    // last one.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        started: fields.nth(18)?.parse().ok()?,
    })
}

fn namespace() -> String {
    let link = Path::new("/proc/self/ns/pid").read_link();
    link.map(|link| link.display().to_string())
        .unwrap_or_default()
}

fn file(path: &str) -> Option<String> {
    String::from_utf8(LocalDisk.read(Path::new(path), 64 * 1024).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn owner(pid: u32) -> Owner {
        Owner {
            pid,
            started: stat(pid).unwrap().started,
            ..MachineProcesses::default().current()
        }
    }

    #[test]
    fn a_process_is_running_stopped_or_gone() {
        let processes = MachineProcesses::default();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let owner = owner(child.id());
        assert_eq!(processes.liveness(&owner), Liveness::Running);
        let pid = Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        let options = rustix::process::WaitOptions::UNTRACED;
        rustix::process::waitpid(Some(pid), options).unwrap();
        assert_eq!(processes.liveness(&owner), Liveness::Stopped);
        processes.kill(&owner).unwrap();
        assert_eq!(processes.liveness(&owner), Liveness::Gone);
        child.wait().unwrap();
        processes.kill(&owner).unwrap();
    }

    #[test]
    fn reused_pid_is_not_killed() {
        let processes = MachineProcesses::default();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let earlier = Owner {
            started: 1,
            ..owner(child.id())
        };
        assert_eq!(processes.liveness(&earlier), Liveness::Gone);
        processes.kill(&earlier).unwrap();
        assert_eq!(processes.liveness(&owner(child.id())), Liveness::Running);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn processes_of_other_machines_are_out_of_sight() {
        let processes = MachineProcesses::default();
        let here = processes.current();
        for owner in [
            Owner {
                boot: "another".into(),
                ..here.clone()
            },
            Owner {
                namespace: "another".into(),
                ..here.clone()
            },
        ] {
            assert_eq!(processes.liveness(&owner), Liveness::Unobservable);
        }
        assert_eq!(processes.liveness(&here), Liveness::Running);
    }
}
