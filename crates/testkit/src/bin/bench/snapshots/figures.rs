//! What the rounds gave, by operation and by who did it; the bars; and the rows of the table.

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

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    /// Another program, by its name.
    Other(String),
    /// The same, and then a sync of the whole file system.
    Synced(String),
    /// The least that it can cost.
    Limit(&'static str),
}

impl Who {
    fn label(&self) -> String {
        match self {
            Self::Ours => String::new(),
            Self::Other(name) => name.clone(),
            Self::Synced(name) => format!("{name}, then sync"),
            Self::Limit(name) => format!("limit: {name}"),
        }
    }
}

/// The trees that bars speak of.
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

    /// The bar on our figure over theirs.
    fn bar(self, operation: Operation, who: &Who) -> Option<Bar> {
        use Operation as O;
        let label = who.label();
        let most = match (self, operation, label.as_str()) {
            (Self::Large, O::Store, "tar") => 1.03,
            (_, O::Store, _) => return None,
            // Ahead of both in everything.
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

/// Everything that one tree gave.
#[derive(Default)]
pub(crate) struct Figures(Vec<(Operation, Who, Samples)>);

impl Figures {
    /// One sample. Who takes part in few rounds takes part in the first ones: samples are paired
    /// by their place.
    pub(crate) fn push(&mut self, operation: Operation, who: Who, sample: f64) {
        let same = |(op, one, _): &&mut (Operation, Who, Samples)| *op == operation && *one == who;
        match self.0.iter_mut().find(same) {
            Some((_, _, samples)) => samples.push(sample),
            None => self.0.push((operation, who, Samples(vec![sample]))),
        }
    }

    /// Ours beside everybody else's.
    pub(crate) fn tabulate(&self, size: Size, table: &mut Table) {
        for operation in Operation::ALL {
            let of = |ours: bool| {
                let some = self
                    .0
                    .iter()
                    .filter(move |(op, who, _)| *op == operation && (*who == Who::Ours) == ours);
                some.map(|(_, who, samples)| (who, samples))
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
                table.add(Row::lone("f", &name, operation.unit(), ours.clone()).bar(bar));
            }
            for (who, theirs) in of(false) {
                let what = format!("{name} | {}", who.label());
                let row = Row::pair("f", what, operation.unit(), ours.clone(), theirs.clone());
                let bar = size.bar(operation, who).filter(|_| absolute.is_none());
                table.add(bar.map_or(row.clone(), |bar| row.bar(bar)));
            }
        }
    }
}
