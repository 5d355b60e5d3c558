//! The kinds of damage to a store.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use super::Specimen;

/// How much a judgement covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Reading only.
    Reading,
    /// A resume, too, unless reading the session was refused: a resume reads it the same way.
    Needed,
    /// Everything.
    Whole,
}

/// One damage to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// One bit is flipped.
    Flip {
        file: PathBuf,
        byte: usize,
        /// Counted from the lowest.
        bit: u8,
    },
    /// The file ends early.
    Truncate { file: PathBuf, length: usize },
    /// The file is missing.
    Gone(PathBuf),
    /// A folder replaces the file.
    Folder(PathBuf),
    /// A symlink to a copy replaces the file.
    Link(PathBuf),
    /// A dangling symlink replaces the file.
    DeadLink(PathBuf),
    /// An older database without a log replaces this one.
    OlderDatabase(PathBuf),
}

impl Damage {
    /// The file that is damaged.
    pub fn file(&self) -> PathBuf {
        match self {
            Self::Flip { file, .. }
            | Self::Truncate { file, .. }
            | Self::Gone(file)
            | Self::Folder(file)
            | Self::Link(file)
            | Self::DeadLink(file)
            | Self::OlderDatabase(file) => file.clone(),
        }
    }

    pub(super) fn apply(&self, root: &Path, specimen: &Specimen) {
        let path = root.join(self.file());
        match self {
            Self::Flip { file, byte, bit } => {
                let flipped = specimen.files[file][*byte] ^ (1 << bit);
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.write_all_at(&[flipped], *byte as u64).unwrap();
            }
            Self::Truncate { length, .. } => {
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_len(*length as u64).unwrap();
            }
            Self::Gone(_) => fs::remove_file(path).unwrap(),
            Self::Folder(_) => {
                fs::remove_file(&path).unwrap();
                fs::create_dir(path).unwrap();
            }
            Self::Link(_) => {
                let elsewhere = root.with_extension("elsewhere");
                fs::rename(&path, &elsewhere).unwrap();
                symlink(elsewhere, path).unwrap();
            }
            Self::DeadLink(_) => {
                fs::remove_file(&path).unwrap();
                symlink("/nowhere/at/all", path).unwrap();
            }
            Self::OlderDatabase(_) => {
                let _ = fs::remove_file(path.with_extension("db-wal"));
                fs::write(path, &specimen.older).unwrap();
            }
        }
    }
}
