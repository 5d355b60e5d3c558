//! Kills of the server or of a run at failpoints. A server and its runs share their environment, so
//! the failpoint is armed for one command, and for the first process that gets there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use segno_core::fault::Point;

use super::fixture::Fixture;
use super::processes::{Faults, ONCE, Processes};
use super::{CLIENTS_AT_POINTS, SESSIONS, Trial, disturb};
use crate::crash::kill::Fault;

/// Which process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    Serve,
    Run,
}

impl Process {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Run => "run",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Serve, Self::Run];
        all.into_iter().find(|known| known.word() == word)
    }

    /// The command of this process.
    const fn command(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Run => "__run",
        }
    }
}

/// A trial at a failpoint.
pub(super) fn parse(process: Process, fault: &str) -> Option<Trial> {
    match fault.parse() {
        Ok(Fault::Point { name, visit }) => Some(Trial::Point {
            process,
            point: name,
            visit,
        }),
        _ => None,
    }
}

/// Every failpoint that a server visits at its first, second, middle and last visit, and every one
/// that a run visits at its first and middle one.
pub fn at_points(segno: &Path) -> Vec<Trial> {
    let visits = count_visits(segno);
    let mut trials = Vec::new();
    for process in [Process::Serve, Process::Run] {
        for point in Point::ALL.iter().map(|point| point.name()) {
            let last = visits.get(&(process.command(), point)).copied();
            let last = last.unwrap_or_default();
            let mut turns = match process {
                Process::Serve => vec![1, 2, last.div_ceil(2), last],
                Process::Run => vec![1, last.div_ceil(2)],
            };
            turns.sort_unstable();
            turns.dedup();
            turns.retain(|turn| (1..=last).contains(turn));
            trials.extend(turns.into_iter().map(|visit| Trial::Point {
                process,
                point,
                visit,
            }));
        }
    }
    trials
}

/// How often one process of a command visits each failpoint at most, if no process is killed at one.
fn count_visits(segno: &Path) -> BTreeMap<(&'static str, &'static str), u64> {
    let fixture = Fixture::new(segno, CLIENTS_AT_POINTS * SESSIONS);
    let folder = beside(&fixture, "visits");
    fs::create_dir(&folder).unwrap();
    let log = vec![("SEGNO_FAILPOINT_LOG", folder.display().to_string())];
    let trial = Trial::Point {
        process: Process::Serve,
        point: Point::ALL[0].name(),
        visit: 1,
    };
    let disturbed = disturb(&fixture, Processes::start(&fixture, 0, log), &trial);
    assert!(
        disturbed.violations.is_empty(),
        "{:?}",
        disturbed.violations
    );
    drop(disturbed.processes.stop());
    let mut most = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let commands = [Process::Serve, Process::Run].map(Process::command);
        let is_of = |command: &&str| name.split('.').next() == Some(command);
        let Some(command) = commands.into_iter().find(is_of) else {
            continue;
        };
        let visited = fs::read_to_string(file.path()).unwrap();
        for point in Point::ALL.iter().map(|point| point.name()) {
            let count = visited.lines().filter(|line| *line == point).count() as u64;
            let known: &mut u64 = most.entry((command, point)).or_default();
            *known = count.max(*known);
        }
    }
    most
}

fn beside(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.sandbox.work().with_file_name(name)
}

/// The failpoint of a trial, if it has one.
pub(super) struct Armed {
    faults: Faults,
    /// Exists once a process was killed.
    once: PathBuf,
}

impl Armed {
    pub(super) fn new(fixture: &Fixture, trial: &Trial) -> Self {
        let once = beside(fixture, "once");
        let faults = match trial {
            Trial::Server { .. } | Trial::Workers { .. } => Vec::new(),
            Trial::Point {
                process,
                point,
                visit,
            } => vec![
                ("SEGNO_FAILPOINT", format!("{point}:{visit}")),
                ("SEGNO_FAILPOINT_COMMAND", process.command().to_owned()),
                (ONCE, once.display().to_string()),
            ],
        };
        Self { faults, once }
    }

    pub(super) fn faults(&self) -> Faults {
        self.faults.clone()
    }

    pub(super) fn has_hit(&self) -> bool {
        self.once.exists()
    }

    pub(super) fn has_killed_run(&self, trial: &Trial) -> bool {
        let is_run = |trial: &Trial| match trial {
            Trial::Point { process, .. } => *process == Process::Run,
            Trial::Server { .. } | Trial::Workers { .. } => false,
        };
        is_run(trial) && self.has_hit()
    }
}
