//! What is disturbed and how, in a notation that repeats it: `restore/restore.after_move:3` kills a
//! restore at the third visit of a failpoint, `gc/any.renameat:2` kills a sweep at a system call,
//! `create/full:16` creates a checkpoint with 16 KiB left on the disk, `changing/7` creates
//! checkpoints of files that change, and `concurrent/7` creates two at once while a sweep runs.

use std::fmt;
use std::str::FromStr;

use crate::crash::kill::Fault;

/// A checkpoint command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The first checkpoint of a home: it also creates the snapshot store and the key.
    First,
    /// One more checkpoint, of files that were edited since the last.
    Create,
    /// Restores an old checkpoint in place, exactly.
    Restore,
    /// The same, into another folder that has files of its own.
    Elsewhere,
    /// The same, into a folder that does not exist yet.
    Afresh,
    /// Prunes all checkpoints but the latest.
    Prune,
    /// Undoes a prune.
    Undo,
    /// Erases pruned checkpoints, unlists and deletes snapshots, and rewrites packs.
    Gc,
}

impl Operation {
    pub const ALL: &[Self] = &[
        Self::First,
        Self::Create,
        Self::Restore,
        Self::Elsewhere,
        Self::Afresh,
        Self::Prune,
        Self::Undo,
        Self::Gc,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Create => "create",
            Self::Restore => "restore",
            Self::Elsewhere => "elsewhere",
            Self::Afresh => "afresh",
            Self::Prune => "prune",
            Self::Undo => "undo",
            Self::Gc => "gc",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|operation| operation.word() == word)
    }

    /// The folder that it writes into, beside the home.
    pub(super) const fn target(self) -> Option<&'static str> {
        match self {
            Self::Restore => Some("work"),
            Self::Elsewhere => Some("elsewhere"),
            Self::Afresh => Some("afresh"),
            Self::First | Self::Create | Self::Prune | Self::Undo | Self::Gc => None,
        }
    }
}

/// One disturbance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trial {
    /// F1, F2: the command is killed.
    Killed { operation: Operation, fault: Fault },
    /// F5: the disk is almost full.
    Full {
        operation: Operation,
        /// Free space on the disk.
        kib: u64,
    },
    /// F29: files change while checkpoints are created.
    Changing {
        /// Determines the changes.
        seed: u64,
    },
    /// F23: two checkpoints and a sweep at once, repeatedly.
    Concurrent {
        /// Determines the edits in between.
        seed: u64,
    },
}

impl Trial {
    /// The command that the fixture is prepared for.
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Killed { operation, .. } | Self::Full { operation, .. } => *operation,
            Self::Changing { .. } => Operation::Create,
            Self::Concurrent { .. } => Operation::Gc,
        }
    }

    /// The same kill, at an earlier visit or call.
    pub(super) fn earlier(&self) -> Option<Self> {
        let Self::Killed { operation, fault } = self else {
            return None;
        };
        let fault = fault.earlier()?;
        Some(Self::Killed {
            operation: *operation,
            fault,
        })
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed { operation, fault } => write!(f, "{}/{fault}", operation.word()),
            Self::Full { operation, kib } => write!(f, "{}/full:{kib}", operation.word()),
            Self::Changing { seed } => write!(f, "changing/{seed}"),
            Self::Concurrent { seed } => write!(f, "concurrent/{seed}"),
        }
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "`{text}` is not OPERATION/FAULT, OPERATION/full:KIB, changing/SEED or concurrent/SEED"
            )
        };
        let (word, rest) = text.split_once('/').ok_or_else(unknown)?;
        let number = |text: &str| text.parse().map_err(|_| unknown());
        match (word, Operation::from_word(word)) {
            ("changing", _) => Ok(Self::Changing {
                seed: number(rest)?,
            }),
            ("concurrent", _) => Ok(Self::Concurrent {
                seed: number(rest)?,
            }),
            (_, None) => Err(unknown()),
            (_, Some(operation)) => match rest.strip_prefix("full:") {
                Some(kib) => Ok(Self::Full {
                    operation,
                    kib: number(kib)?,
                }),
                None => Ok(Self::Killed {
                    operation,
                    fault: rest.parse()?,
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_notation_round_trips() {
        for words in [
            "restore/restore.after_move:3",
            "gc/any.renameat:2",
            "create/full:16",
            "changing/7",
            "concurrent/7",
        ] {
            assert_eq!(words.parse::<Trial>().unwrap().to_string(), words);
        }
        for words in [
            "restore",
            "nothing/full:1",
            "create/full:x",
            "gc/any.read:1",
        ] {
            words.parse::<Trial>().unwrap_err();
        }
    }
}
