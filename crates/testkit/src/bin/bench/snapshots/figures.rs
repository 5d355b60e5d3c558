//! The results by operation and by tool; the bars; and the rows of the table.

use crate::figures::{Bar, Row, Samples, Table};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    First,
    Unchanged,
    Changed,
    Restore,
    InPlace,
    Verify,
    Store,
    KeepMemory,
    RestoreMemory,
}

impl Operation {
    const ALL: [Self; 9] = [
        Self::First,
        Self::Unchanged,
        Self::Changed,
        Self::Restore,
        Self::InPlace,
        Self::Verify,
        Self::Store,
        Self::KeepMemory,
        Self::RestoreMemory,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Unchanged => "nothing changed",
            Self::Changed => "10 edited, 5 new",
            Self::Restore => "full restore",
            Self::InPlace => "15 files in place",
            Self::Verify => "verification",
            Self::Store => "store",
            Self::KeepMemory => "memory, checkpoint",
            Self::RestoreMemory => "memory, restore",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Store | Self::KeepMemory | Self::RestoreMemory => "MB",
            _ => "ms",
        }
    }
}

/// Which tool a sample belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Series {
    Ours,
    /// Another program, by its name.
    Other(String),
    /// The same, followed by a sync of the whole file system.
    Synced(String),
    /// The lower bound on this machine.
    Limit(&'static str),
}

impl Series {
    fn label(&self) -> String {
        match self {
            Self::Ours => String::new(),
            Self::Other(name) => name.clone(),
            Self::Synced(name) => format!("{name}, then sync"),
            Self::Limit(name) => format!("limit: {name}"),
        }
    }
}

/// The trees that bars apply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Medium,
    Large,
}

impl Size {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    /// The bar on our figure divided by theirs.
    fn bar(self, operation: Operation, series: &Series) -> Option<Bar> {
        use Operation as O;
        let label = series.label();
        let most = match (self, operation, label.as_str()) {
            (Self::Large, O::Store, "tar") => 1.03,
            (_, O::Store, _) => return None,
            // Faster than both in everything.
            (Self::Small, _, other) if other.starts_with("tar") || other.contains("git") => 1.0,
            (Self::Large, O::First, "tar") => 0.65,
            (Self::Large, O::First, "limit: zstd-3") => 1.35,
            (Self::Large, O::Unchanged | O::Changed, "shadow git") => 0.5,
            (Self::Large, O::Unchanged, "limit: stat walk") => 1.4,
            (Self::Large, O::Changed, other) if other.starts_with("restic") => 0.05,
            (Self::Large, O::Restore, other) if other.starts_with("tar") => 0.5,
            (Self::Large, O::Restore, other) if other.starts_with("limit: write") => 1.3,
            (Self::Large, O::InPlace, "shadow git") => 0.35,
            (Self::Large, O::Verify, other) if other.starts_with("restic") => 0.4,
            _ => return None,
        };
        Some(Bar::AtMost(most))
    }
}

/// All results of one tree.
#[derive(Default)]
pub(crate) struct Figures(Vec<(Operation, Series, Samples)>);

impl Figures {
    /// Adds a sample. A tool that takes part in only a few rounds takes part in the first ones:
    /// samples are paired by index.
    pub(crate) fn push(&mut self, operation: Operation, series: Series, sample: f64) {
        let same =
            |(op, one, _): &&mut (Operation, Series, Samples)| *op == operation && *one == series;
        match self.0.iter_mut().find(same) {
            Some((_, _, samples)) => samples.push(sample),
            None => self.0.push((operation, series, Samples(vec![sample]))),
        }
    }

    /// Adds a row for each tool, with our figure beside the tool's.
    pub(crate) fn tabulate(&self, size: Size, table: &mut Table) {
        for operation in Operation::ALL {
            let of = |ours: bool| {
                let some = self.0.iter().filter(move |(op, series, _)| {
                    *op == operation && (*series == Series::Ours) == ours
                });
                some.map(|(_, series, samples)| (series, samples))
            };
            let Some((_, ours)) = of(true).next() else {
                continue;
            };
            let name = format!("{}: {}", size.name(), operation.label());
            let absolute = match operation {
                Operation::KeepMemory => Some(Bar::AtMost(128.0)),
                Operation::RestoreMemory => Some(Bar::AtMost(256.0)),
                _ => None,
            };
            if let Some(bar) = absolute {
                table.add(Row::single("f", &name, operation.unit(), ours.clone()).bar(bar));
            }
            for (series, baseline) in of(false) {
                let what = format!("{name} | {}", series.label());
                let row = Row::pair("f", what, operation.unit(), ours.clone(), baseline.clone());
                let bar = size.bar(operation, series).filter(|_| absolute.is_none());
                table.add(bar.map_or(row.clone(), |bar| row.bar(bar)));
            }
        }
    }
}
