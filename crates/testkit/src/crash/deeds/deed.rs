//! What is disturbed and how, in words that repeat it: `restore/restore.after_move:3` kills a restore
//! at the third visit of a failpoint, `gc/any.renameat:2` a sweep at a system call, `create/full:16`
//! takes a checkpoint where 16 KiB are left on the disk, `changing/7` takes checkpoints of files that
//! change, and `together/7` takes two at once while a sweep runs.

use std::fmt;
use std::str::FromStr;

use crate::crash::kill::Fault;

/// A command about checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// The first checkpoint of a home: the vault and the key are made with it.
    First,
    /// One more checkpoint, of files that were edited since the last.
    Create,
    /// An old one comes back where it came from, exactly.
    Restore,
    /// The same, into another folder that has files of its own.
    Elsewhere,
    /// The same, into a folder that is not there yet.
    Afresh,
    /// All but the newest are let go of.
    Prune,
    /// Those are had back.
    Undo,
    /// Erases, takes off the list, deletes, writes packs anew.
    Gc,
}

impl Deed {
    /// Every one there is.
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

    /// The word for it.
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

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|deed| deed.word() == word)
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
    /// F1, F2: a deed is killed.
    Killed {
        /// Which.
        deed: Deed,
        /// Where.
        fault: Fault,
    },
    /// F5: there is little room on the disk.
    Full {
        /// For which deed.
        deed: Deed,
        /// How much is left.
        kib: u64,
    },
    /// F29: files change while checkpoints are taken.
    Changing {
        /// What decides about the changes.
        seed: u64,
    },
    /// F23: two checkpoints and a sweep at once, again and again.
    Together {
        /// What decides about the edits in between.
        seed: u64,
    },
}

impl Trial {
    /// The deed for which the ground is prepared.
    pub const fn deed(&self) -> Deed {
        match self {
            Self::Killed { deed, .. } | Self::Full { deed, .. } => *deed,
            Self::Changing { .. } => Deed::Create,
            Self::Together { .. } => Deed::Gc,
        }
    }

    /// The same kill, sooner.
    pub(super) fn sooner(&self) -> Option<Self> {
        let Self::Killed { deed, fault } = self else {
            return None;
        };
        let fault = fault.sooner()?;
        Some(Self::Killed { deed: *deed, fault })
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed { deed, fault } => write!(f, "{}/{fault}", deed.word()),
            Self::Full { deed, kib } => write!(f, "{}/full:{kib}", deed.word()),
            Self::Changing { seed } => write!(f, "changing/{seed}"),
            Self::Together { seed } => write!(f, "together/{seed}"),
        }
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("`{text}` is not deed/fault, deed/full:KIB, changing/SEED or together/SEED");
        let (word, rest) = text.split_once('/').ok_or_else(unknown)?;
        let number = |text: &str| text.parse().map_err(|_| unknown());
        match (word, Deed::named(word)) {
            ("changing", _) => Ok(Self::Changing {
                seed: number(rest)?,
            }),
            ("together", _) => Ok(Self::Together {
                seed: number(rest)?,
            }),
            (_, None) => Err(unknown()),
            (_, Some(deed)) => match rest.strip_prefix("full:") {
                Some(kib) => Ok(Self::Full {
                    deed,
                    kib: number(kib)?,
                }),
                None => Ok(Self::Killed {
                    deed,
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
    fn a_trial_is_read_back_from_its_words() {
        for words in [
            "restore/restore.after_move:3",
            "gc/any.renameat:2",
            "create/full:16",
            "changing/7",
            "together/7",
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
