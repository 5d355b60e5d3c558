//! What is killed and where, in a notation that repeats it: `long/fresh/blob.after_rename:2` kills
//! a run at the second visit of a failpoint, `scripted/used/wal.pwrite64:17` at the 17th `pwrite64`
//! to the write-ahead log, and `command/fresh/step.after_effect:3/lease.after_acquire:1` kills a
//! run and then the resume of it.

use std::fmt;
use std::str::FromStr;

use segno_core::fault::Point;

/// What runs when the fault comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// Five steps with scripted answers of 2 KB. Nothing but segno runs.
    Scripted,
    /// The same, with three answers too long for the journal: they become blobs.
    Long,
    /// Five steps answered by a program, which counts its calls itself.
    Command,
    /// Eight steps in order.
    Chain,
    /// Forty tasks, most of them in parallel.
    Tasks,
    /// A choice, and the three steps of its route.
    Routing,
    /// Five branches of four steps, joined.
    Parallel,
    /// Five drafts, each evaluated.
    Evaluator,
    /// Three rounds of four workers, joined and written up.
    Orchestrator,
    /// A loop of four iterations.
    Graph,
}

impl Workload {
    /// The chains without a model server: these are killed at system calls, too.
    pub const CHAINS: &[Self] = &[Self::Scripted, Self::Long, Self::Command];

    /// The seven patterns, answered by a model server: these are killed at every journal position.
    pub const PATTERNS: &[Self] = &[
        Self::Chain,
        Self::Tasks,
        Self::Routing,
        Self::Parallel,
        Self::Evaluator,
        Self::Orchestrator,
        Self::Graph,
    ];
}

/// The state of the home when the run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Home {
    /// There is none: the run creates it with its database.
    Fresh,
    /// It was opened and closed before.
    Used,
}

/// Which calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tracee {
    /// The main thread, which also writes to the database.
    Main,
    /// All threads and processes below segno; the first one to reach the count is killed.
    Any,
    /// The same, but only calls on the database file are counted.
    Database,
    /// The same, on its write-ahead log.
    Log,
    /// The same, on the index of that log.
    Index,
}

/// Where a process is killed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// F1: the n-th visit of a failpoint aborts.
    Point { name: &'static str, visit: u64 },
    /// F2: SIGKILL instead of the n-th call of a system call.
    Syscall {
        tracee: Tracee,
        name: &'static str,
        nth: u64,
    },
}

/// A workload, and the faults of its run and of each resume of it, in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kill {
    pub workload: Workload,
    pub home: Home,
    /// The first for the run, the next for the resume of it.
    pub faults: Vec<Fault>,
}

/// Every system call that changes the disk or is visible outside of the process. `openat` is
/// excluded: an empty new file is the state before the first write to it.
pub const SYSCALLS: &[&str] = &[
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "fallocate",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "truncate",
    "ftruncate",
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "chmod",
    "fchmod",
    "fchmodat",
    "utimensat",
    "symlink",
    "symlinkat",
    "syncfs",
];

macro_rules! words {
    ($kind:ident { $($variant:ident = $word:literal,)* }) => {
        impl $kind {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.word() == word)
            }
        }
    };
}

words! { Workload {
    Scripted = "scripted",
    Long = "long",
    Command = "command",
    Chain = "chain",
    Tasks = "tasks",
    Routing = "routing",
    Parallel = "parallel",
    Evaluator = "evaluator",
    Orchestrator = "orchestrator",
    Graph = "graph",
} }
words! { Home { Fresh = "fresh", Used = "used", } }
words! { Tracee { Main = "main", Any = "any", Database = "db", Log = "wal", Index = "shm", } }

impl Tracee {
    /// The file in the home to which counting is restricted, if any.
    pub const fn file(self) -> Option<&'static str> {
        match self {
            Self::Main | Self::Any => None,
            Self::Database => Some("journal.db"),
            Self::Log => Some("journal.db-wal"),
            Self::Index => Some("journal.db-shm"),
        }
    }
}

impl Fault {
    /// The same with half the count. How often a failpoint or call is reached, and by which thread,
    /// differs from run to run: a fault that did not trigger had too high a count.
    pub(super) fn earlier(&self) -> Option<Self> {
        let mut earlier = self.clone();
        let (Self::Point { visit: n, .. } | Self::Syscall { nth: n, .. }) = &mut earlier;
        *n /= 2;
        (*n > 0).then_some(earlier)
    }
}

impl Kill {
    /// A kill with a single fault.
    pub fn once(workload: Workload, home: Home, fault: Fault) -> Self {
        Self {
            workload,
            home,
            faults: vec![fault],
        }
    }

    /// The same, with one more fault for the resume.
    #[must_use]
    pub fn then(&self, fault: Fault) -> Self {
        let mut kill = self.clone();
        kill.faults.push(fault);
        kill
    }

    /// The same, with half the count in its last fault.
    pub(super) fn earlier(&self) -> Option<Self> {
        let mut kill = self.clone();
        let last = kill.faults.last_mut()?;
        *last = last.earlier()?;
        Some(kill)
    }

    /// Whether any fault is a system call (F2); otherwise all are failpoints (F1).
    pub fn has_syscall(&self) -> bool {
        let is_syscall = |fault: &Fault| matches!(fault, Fault::Syscall { .. });
        self.faults.iter().any(is_syscall)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point { name, visit } => write!(f, "{name}:{visit}"),
            Self::Syscall { tracee, name, nth } => write!(f, "{}.{name}:{nth}", tracee.word()),
        }
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.workload.word(), self.home.word())?;
        self.faults
            .iter()
            .try_for_each(|fault| write!(f, "/{fault}"))
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is neither failpoint:visit nor thread.syscall:n");
        let (name, number) = text.split_once(':').ok_or_else(unknown)?;
        let number = number.parse().ok().filter(|n| *n > 0).ok_or_else(unknown)?;
        if let Some(point) = Point::ALL.iter().find(|point| point.name() == name) {
            return Ok(Self::Point {
                name: point.name(),
                visit: number,
            });
        }
        let (tracee, name) = name.split_once('.').ok_or_else(unknown)?;
        let syscall = SYSCALLS.iter().find(|known| **known == name);
        Ok(Self::Syscall {
            tracee: Tracee::from_word(tracee).ok_or_else(unknown)?,
            name: syscall.ok_or_else(unknown)?,
            nth: number,
        })
    }
}

impl FromStr for Kill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is not workload/home/fault[/fault]");
        let mut words = text.split('/');
        let workload = words
            .next()
            .and_then(Workload::from_word)
            .ok_or_else(unknown)?;
        let home = words.next().and_then(Home::from_word).ok_or_else(unknown)?;
        let faults: Vec<Fault> = words.map(str::parse).collect::<Result<_, _>>()?;
        if faults.is_empty() {
            return Err(unknown());
        }
        Ok(Self {
            workload,
            home,
            faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_notation_round_trips() {
        for words in [
            "long/fresh/blob.after_rename:2",
            "scripted/used/any.pwrite64:17",
            "command/fresh/step.after_effect:3/lease.after_acquire:1",
        ] {
            assert_eq!(words.parse::<Kill>().unwrap().to_string(), words);
        }
        for words in [
            "scripted/used",
            "scripted/used/any.read:1",
            "long/fresh/run.after_end:0",
        ] {
            words.parse::<Kill>().unwrap_err();
        }
    }
}
