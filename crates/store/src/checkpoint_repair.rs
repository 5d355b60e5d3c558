//! Repairs checkpoints: restores the key that seals them, and moves files that are no usable
//! checkpoints to `backups/quarantine/`. Nothing is deleted.

use std::io;
use std::path::{Path, PathBuf};

use segno_core::ports::Access;
use segno_core::store::{Error, Finding, Severity};

use crate::checkpoint_files::{CheckpointFiles, LONGEST, is_checkpoint};
use crate::home::io_error;
use crate::seal_key::NoKey;

/// What a repair did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointRepair {
    /// The key was restored from its copy.
    KeyRestored { key: PathBuf },
    /// The key got a copy.
    KeyCopied { copy: PathBuf },
    /// A file is no usable checkpoint and was moved away.
    Quarantined {
        file: PathBuf,
        to: PathBuf,
        reason: String,
    },
    /// A file in the quarantine is a usable checkpoint after all and was moved back.
    Readopted { file: PathBuf },
}

impl CheckpointFiles {
    /// Restores the key from its copy; moves files that are no usable checkpoints to the
    /// quarantine, and those back that are usable after all. Changes nothing in a dry run.
    ///
    /// Without the key, no file can be judged: then all stay where they are.
    pub fn repair(&self, dry_run: bool) -> Result<Vec<CheckpointRepair>, Error> {
        let mut repairs = Vec::new();
        let Some(key) = self.key.get()? else {
            return Ok(repairs);
        };
        if self.key.read(&self.key.file).is_err() {
            repairs.push(CheckpointRepair::KeyRestored {
                key: self.key.file.clone(),
            });
            if !dry_run {
                let restored = self.key.restore(&key);
                restored.map_err(|error| io_error(&self.key.file, &error))?;
            }
        }
        if self.key.read(&self.key.copy).is_err() {
            repairs.push(CheckpointRepair::KeyCopied {
                copy: self.key.copy.clone(),
            });
            if !dry_run {
                let copied = self.key.write_copy(&key);
                copied.map_err(|error| io_error(&self.key.copy, &error))?;
            }
        }
        let read =
            |file: &Path, path: &Path| self.parse(path, self.disk.read(file, LONGEST), Some(&key));
        for file in self.files(None)? {
            if let Err(Error::Damaged { reason, .. }) = read(&file, &file) {
                let to = self.aside(&file);
                if !dry_run {
                    self.move_file(&file, &to)?;
                }
                repairs.push(CheckpointRepair::Quarantined { file, to, reason });
            }
        }
        for folder in self.list_folder(&self.quarantine)? {
            for aside in self
                .list_folder(&folder)?
                .into_iter()
                .filter(|file| is_checkpoint(file))
            {
                let names = aside.strip_prefix(&self.quarantine);
                let file = self.root.join(names.unwrap_or(&aside));
                if read(&aside, &file).is_err() || file.exists() {
                    continue;
                }
                if !dry_run {
                    self.move_file(&aside, &file)?;
                }
                repairs.push(CheckpointRepair::Readopted { file });
            }
        }
        Ok(repairs)
    }

    /// The first free name for a file in the quarantine.
    fn aside(&self, file: &Path) -> PathBuf {
        let names = file.strip_prefix(&self.root).unwrap_or(file);
        let first = self.quarantine.join(names);
        let numbered = (2_u32..).map(|number| first.with_extension(format!("{number}.json")));
        let mut names = std::iter::once(first.clone()).chain(numbered);
        names.find(|name| !name.exists()).unwrap_or(first)
    }

    fn move_file(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let folder = |file: &Path| file.parent().unwrap_or(&self.root).to_owned();
        let moved = || {
            self.disk.create_folder(&folder(to), Access::Private)?;
            self.disk.sync_folder(&folder(&folder(to)))?;
            self.disk.rename(from, to)?;
            self.disk.sync_folder(&folder(to))?;
            self.disk.sync_folder(&folder(from))
        };
        moved().map_err(|error: io::Error| io_error(from, &error))
    }

    /// What is worth a notice although no checkpoint is lost.
    pub(crate) fn notices(&self) -> Vec<Finding> {
        let notice = |object: &Path, problem: &str| Finding {
            session: None,
            object: object.display().to_string(),
            problem: problem.to_owned(),
            severity: Severity::Notice,
        };
        let mut notices = Vec::new();
        let lost = matches!(
            self.key.read(&self.key.file),
            Err(NoKey::Missing | NoKey::Damaged)
        );
        if lost && self.key.read(&self.key.copy).is_ok() {
            let problem =
                "is lost; its copy in backups/ is used. `segno doctor --repair` restores it";
            notices.push(notice(&self.key.file, problem));
        }
        if !self
            .list_folder(&self.quarantine)
            .unwrap_or_default()
            .is_empty()
        {
            let problem =
                "has files that are no usable checkpoints; delete them when you do not need them";
            notices.push(notice(&self.quarantine, problem));
        }
        notices
    }
}
