//! What is killed and where, in words that repeat it: `long/fresh/blob.after_rename:2` kills a run
//! at the second visit of a failpoint, `scripted/used/wal.pwrite64:17` at the 17th `pwrite64` to
//! the write-ahead log, and `command/fresh/step.after_effect:3/lease.after_acquire:1` kills a run and
//! then the resume of it.

use std::fmt;
use std::str::FromStr;

use segno_core::fault::Point;

/// What runs when the fault comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// Five steps with scripted answers of 2 KB. Nothing but segno runs.
    Scripted,
    /// The same, with three answers too long to stand in the journal: they become blobs.
    Long,
    /// Five steps answered by a program, which counts its calls itself.
    Command,
    /// Eight steps in order.
    Chain,
    /// Forty tasks, most of them side by side.
    Tasks,
    /// A choice, and the three steps of its route.
    Routing,
    /// Five branches of four steps, joined.
    Parallel,
    /// Five drafts, each judged.
    Evaluator,
    /// Three rounds of four workers, joined and written up.
    Orchestrator,
    /// A loop that goes round four times.
    Graph,
}

impl Workload {
    /// The chains without a model server: these are killed at system calls too.
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
    /// There is none: the run makes it, database and all.
    Fresh,
    /// It was opened and closed before.
    Used,
}

/// Which calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tracee {
    /// The thread that everything but the database's writes happens on.
    Main,
    /// Whoever comes first, of all threads and processes below segno.
    Any,
    /// The same, but only calls on the database's file are counted.
    Database,
    /// The same, on its write-ahead log.
    Log,
    /// The same, on the index of that log.
    Index,
}

/// One thing that kills.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// F1: the n-th visit of a failpoint aborts.
    Point {
        /// Its name.
        name: &'static str,
        /// Which visit.
        visit: u64,
    },
    /// F2: SIGKILL instead of the n-th call of a system call.
    Syscall {
        /// Whose.
        tracee: Tracee,
        /// Its name.
        name: &'static str,
        /// Which call.
        nth: u64,
    },
}

/// A workload, and what happens to its run and to each resume of it, in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kill {
    /// What runs.
    pub workload: Workload,
    /// Where.
    pub home: Home,
    /// The first for the run, the next for the resume of it.
    pub faults: Vec<Fault>,
}

/// Everything that changes what is on a disk, or that someone outside sees. `openat` is left out:
/// an empty new file is the state before the first write to it.
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
            /// Every one there is.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word for it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            fn named(word: &str) -> Option<Self> {
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
    /// The file in a home whose calls are counted, if it is only one file's.
    pub const fn file(self) -> Option<&'static str> {
        match self {
            Self::Main | Self::Any => None,
            Self::Database => Some("segno.db"),
            Self::Log => Some("segno.db-wal"),
            Self::Index => Some("segno.db-shm"),
        }
    }
}

impl Fault {
    /// The same at half the count. How often a place is visited, and by which thread, differs from run to
    /// run: one that was missed came too late.
    pub(super) fn sooner(&self) -> Option<Self> {
        let mut sooner = self.clone();
        let (Self::Point { visit: n, .. } | Self::Syscall { nth: n, .. }) = &mut sooner;
        *n /= 2;
        (*n > 0).then_some(sooner)
    }
}

impl Kill {
    /// A single fault.
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

    /// The same, with its last fault sooner.
    pub(super) fn sooner(&self) -> Option<Self> {
        let mut kill = self.clone();
        let last = kill.faults.last_mut()?;
        *last = last.sooner()?;
        Some(kill)
    }

    /// Whether anything in it is a system call (F2); otherwise all are failpoints (F1).
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
            tracee: Tracee::named(tracee).ok_or_else(unknown)?,
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
        let workload = words.next().and_then(Workload::named).ok_or_else(unknown)?;
        let home = words.next().and_then(Home::named).ok_or_else(unknown)?;
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
    fn a_kill_is_read_back_from_its_words() {
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
